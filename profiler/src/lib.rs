//! Where traces come from: [`import`] reads others' recordings, and [`measure`] measures the
//! machine that others are made on.

pub mod import;
pub mod measure;
