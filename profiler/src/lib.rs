//! Where traces come from: [`import`] reads others' recordings, [`trainable`] makes a network that
//! only describes its layers one that trains, to be measured, and [`measure`] measures the machine.

pub mod import;
pub mod measure;
pub mod trainable;
