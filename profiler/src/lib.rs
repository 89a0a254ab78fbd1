//! Where traces come from: [`import`] reads others' recordings, and [`trainable`] makes a network
//! that only describes its layers one that trains, to be measured.

pub mod import;
pub mod trainable;
