//! Devices that run plans.
//!
//! A [`Device`] has the memory that a plan reserves and runs the plan's actions, iteration after
//! iteration, without deciding anything: addresses, order and lanes are the plan's. [`host`] is
//! the device that every machine has.

pub(crate) mod check;
mod error;
mod fault;
pub(crate) mod forms;
pub mod host;
mod host_tensors;
mod load;
pub(crate) mod residents;
pub(crate) mod script;
mod stop;

use schema::{Bytes, TensorId, Timeline};

pub(crate) use error::Interruption;
pub use error::{AccessError, ActionError, DeviceError, RunFailure};
pub use fault::{Damaged, Delays, Fault, ParseFaultError};
pub use host_tensors::HostTensors;
pub use load::Load;
pub use stop::Stop;

/// Runs a plan for a network that it was made for, as often as asked.
///
/// Between iterations the tensors that outlive them can be written and read: parameters, the
/// optimizer's state, inputs, the seed of dropout; after an iteration also its results, such as the
/// loss. Tensors are passed as cells of 4 bytes, as [`crate::network`] has them.
pub trait Device {
    /// Replaces what a tensor holds that is there before the iteration.
    ///
    /// # Errors
    /// If it is not there, or has another number of cells.
    fn write(&mut self, tensor: TensorId, data: &[f32]) -> Result<(), AccessError>;

    /// Copies out what a tensor holds that is there before the iteration or, where one has run,
    /// after it.
    ///
    /// # Errors
    /// If it is not there, or has another number of cells.
    fn read(&mut self, tensor: TensorId, data: &mut [f32]) -> Result<(), AccessError>;

    /// Runs one iteration and returns what was measured. All lanes are drained when it returns.
    ///
    /// # Errors
    /// Where it was stopped or an action failed. No lane works on when it returns; but tensors are
    /// left as the aborted iteration left them, so the device refuses everything from then on.
    fn run(&mut self) -> Result<Timeline, RunFailure>;

    /// The most memory that iterations have used so far.
    fn memory(&self) -> MemoryUse;

    /// Whose libraries compute, in words, where that may be one or another.
    fn computed_by(&self) -> Option<String> {
        None
    }
}

/// The most memory of each kind that a device's iterations have used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// End of the highest address of the arena that a live buffer held.
    pub arena: Bytes,
    /// Largest sum of live buffers.
    pub live: Bytes,
    /// End of the highest address of the host arena that a copy or codec used.
    pub host_arena: Bytes,
    /// Memory outside of both arenas: what codecs work in, and what the host's processor could not
    /// make as small as the plan reserved for it.
    pub outside: Bytes,
    /// How often data did worse than the plan reserved for its compressed form, so that the tensor
    /// itself was moved or kept.
    pub fallbacks: u64,
}
