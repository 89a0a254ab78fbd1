//! Measuring a network on this machine's processor.

mod in_core;
mod measure;
mod needs;
mod processor;
mod store;

pub use in_core::InCore;
pub use measure::{Profile, ProfileError, Profiler, share_of_zeros};
pub use needs::Needs;
pub use processor::processor_name;
pub use store::SMALLER;
