//! The device that every machine has: layers on the processor, an arena with a hard cap for device
//! memory, and threads that copy at the speed of a link.

use schema::{Bytes, Link, Plan, TensorId, Timeline, Trace};

use super::{AccessError, Delays, Device, DeviceError, Fault, MemoryUse, RunFailure, Stop};
use crate::network::Network;

/// How a host device behaves.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Copies take as long as over this link.
    pub link: Link,
    /// What parameters and inputs are drawn from until the caller writes others.
    pub seed: u64,
    /// Host memory that the plan may have; none: as much as it asks for.
    pub host_memory: Option<Bytes>,
    /// Threads that work on one codec's tensor together, at least 1.
    pub codec_threads: usize,
    /// What is to go wrong.
    pub faults: Vec<Fault>,
    /// Random delays.
    pub delays: Option<Delays>,
    /// Stops the device.
    pub stop: Stop,
}

impl HostOptions {
    /// Copies as over `link`, seed 0, one thread for codecs, and nothing that goes wrong.
    pub fn new(link: Link) -> Self {
        Self {
            link,
            seed: 0,
            host_memory: None,
            codec_threads: 1,
            faults: Vec::new(),
            delays: None,
            stop: Stop::default(),
        }
    }
}

/// The host as a device.
pub struct HostDevice<'a> {
    plan: &'a Plan,
}

impl<'a> HostDevice<'a> {
    /// A device for a plan of a network's trace, its constants as [`Network::initialise`] has them.
    ///
    /// # Errors
    ///
    /// If the plan is not safe, does not compute the trace, or the trace is not the network's; or
    /// if the memory is not to be had.
    pub fn new(
        network: &'a Network,
        trace: &'a Trace,
        plan: &'a Plan,
        options: &HostOptions,
    ) -> Result<Self, DeviceError> {
        let _ = (network, trace, options);
        Ok(Self { plan })
    }
}

impl Device for HostDevice<'_> {
    fn write(&mut self, tensor: TensorId, data: &[f32]) -> Result<(), AccessError> {
        todo!("{tensor} {}", data.len())
    }

    fn read(&mut self, tensor: TensorId, data: &mut [f32]) -> Result<(), AccessError> {
        todo!("{tensor} {}", data.len())
    }

    fn run(&mut self) -> Result<Timeline, RunFailure> {
        todo!("{}", self.plan.budget)
    }

    fn memory(&self) -> MemoryUse {
        todo!()
    }
}
