//! The memory that a device has for a plan.

use schema::{Bytes, Lane, Plan};

use super::CudaError;
use super::commands::{At, Commands, Control};
use super::driver::{Context, DeviceMemory, Pinned};
use super::launches::Argument;

/// An arena on the device and one in pinned memory, as large as the plan's buffers, which may be
/// less than its budgets; and what is outside of them.
pub(super) struct Places {
    pub arena: DeviceMemory,
    pub control: DeviceMemory,
    scratch: [DeviceMemory; Lane::COUNT],
    pub host: Pinned,
    /// Of each lane, room for a tensor on its way.
    pub staging: [Pinned; Lane::COUNT],
}

impl Places {
    /// For a plan whose figures were checked.
    pub fn new(context: &Context, plan: &Plan, commands: &Commands) -> Result<Self, CudaError> {
        let memory = |what, bytes| DeviceMemory::new(context, what, Bytes(bytes));
        let scratch = |lane: usize| memory("codecs and 16-bit operands", commands.scratch[lane]);
        Ok(Self {
            host: Pinned::new(context, plan.predicted.host_arena)?,
            staging: array(|lane| Pinned::new(context, Bytes(commands.staging[lane])))?,
            arena: memory("the plan", plan.predicted.arena.0)?,
            control: memory("the control of kernels", commands.control_bytes)?,
            scratch: array(scratch)?,
        })
    }

    /// An argument as the device takes it. What kernels touch behind an address is the plan's, as
    /// the proof has it; here is checked that it begins inside.
    pub fn value(&self, argument: &Argument<At>) -> u64 {
        match *argument {
            Argument::Address(At::Arena(at), more) => self.arena.address(at + more, 0),
            Argument::Address(At::Host(at), more) => self.host.address(at + more, 0),
            Argument::Address(At::Control(at), more) => self.control.address(at + more, 0),
            Argument::Address(At::Scratch(lane, at), more) => {
                self.scratch[lane.index()].address(at + more, 0)
            }
            Argument::Nothing => 0,
            Argument::Status => self.control.address(Control::STATUS, 8),
            Argument::Number(number) => number,
        }
    }
}

pub(super) fn array<T>(
    mut make: impl FnMut(usize) -> Result<T, CudaError>,
) -> Result<[T; Lane::COUNT], CudaError> {
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(&mut make);
    Ok([a?, b?, c?, d?, e?, f?])
}
