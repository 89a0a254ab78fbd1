//! Running a network with everything in memory, on this machine's processor.

mod in_core;
mod needs;
mod processor;

pub use in_core::{InCore, SMALLER, ZerosError, share_of_zeros, zeros};
pub use needs::Needs;
pub use processor::processor_name;
