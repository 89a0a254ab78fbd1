//! Measuring a network on this machine's processor.

mod measure;
mod processor;
mod store;

pub use measure::{Profile, ProfileError, Profiler};
pub use processor::processor_name;
