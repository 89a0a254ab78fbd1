//! What is measured on a device: networks that are profiled, and plans that are run.

pub mod compared;
pub mod device;
pub mod op_times;
pub mod profile;
pub mod runs;
pub mod within;
pub mod zeros;
