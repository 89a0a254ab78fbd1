//! Plans that run on a device.

use planner::{Monitor, NoMonitor, Problem, ProvenPlan, methods};
use runtime::cuda::{self, CudaError, CudaOptions};
use runtime::device::host::{HostDevice, HostOptions, memory_needed};
use runtime::device::{Device, Fault, Stop};
use runtime::memory::room_for;
use runtime::network::Network;
use runtime::profile::{Needs, SMALLER, zeros};
use schema::{Bytes, Machine, Nanos, Plan, Trace};

use crate::error::{MeasureError, Result};
use crate::runs::{Execution, Runs};

/// What measures and runs.
#[derive(Debug, Clone)]
pub enum Target {
    /// This machine's processor, until it is asked to stop.
    Host(Stop),
    /// A CUDA device, with its options but for what a run decides.
    Cuda(CudaOptions),
}

/// A network that computes, its trace, and the machine that it is planned for.
pub type Subject<'a> = (&'a Network, &'a Trace, &'a Machine);

/// The iteration without a memory limit, in core.
#[derive(Debug, Clone, Copy)]
pub struct InCoreTimes {
    /// As measured on the device.
    pub measured: Nanos,
    /// The sum of the trace's op times.
    pub predicted: Nanos,
    /// See [`Execution::fingerprint`].
    pub fingerprint: Option<u64>,
}

impl Target {
    /// Whether it is this machine's processor.
    pub fn is_host(&self) -> bool {
        matches!(self, Self::Host(_))
    }

    /// Runs a plan.
    ///
    /// # Errors
    /// If the device refuses the plan, or an iteration does not end.
    pub fn run(
        &self,
        subject: Subject,
        plan: &Plan,
        runs: Runs,
        faults: &[Fault],
        monitor: &dyn Monitor,
    ) -> Result<Execution> {
        let mut device = self.open(subject, plan, (runs.seed, runs.graph), faults)?;
        runs.run(subject.0, device.as_mut(), monitor)
    }

    /// A device for a plan, with a seed, and whether it launches graphs.
    ///
    /// # Errors
    /// If the device refuses the plan, or cannot do what is asked.
    pub fn open<'a>(
        &self,
        (network, trace, machine): (&'a Network, &'a Trace, &Machine),
        plan: &'a Plan,
        (seed, graph): (u64, bool),
        faults: &[Fault],
    ) -> Result<Box<dyn Device + 'a>> {
        match self {
            Self::Host(_) if graph => Err(MeasureError::NoGraphs),
            Self::Host(stop) => {
                let options = HostOptions {
                    seed,
                    host_memory: Some(machine.host.memory),
                    faults: faults.to_vec(),
                    stop: stop.clone(),
                    ..HostOptions::new(machine.link.clone())
                };
                Ok(Box::new(HostDevice::new(network, trace, plan, &options)?))
            }
            Self::Cuda(_) if !faults.is_empty() => Err(MeasureError::NoFaults),
            Self::Cuda(options) => {
                let options = CudaOptions { seed, graph, ..options.clone() };
                Ok(Box::new(cuda::open(network, trace, plan, &options)?))
            }
        }
    }

    /// Refuses graphs where there are none: in the first iteration, and on the host device.
    ///
    /// # Errors
    /// If graphs are wanted there.
    pub fn check_graph(&self, graph: bool, warmup: usize) -> Result<()> {
        match self {
            _ if !graph => Ok(()),
            _ if warmup == 0 => Err(MeasureError::NoWarmup),
            Self::Host(_) => Err(MeasureError::NoGraphs),
            Self::Cuda(_) => Ok(()),
        }
    }

    /// Why the device does not answer any more, if it does not: then no plan can run on it in this
    /// process.
    pub fn lost(&self) -> Option<CudaError> {
        match self {
            Self::Host(_) => None,
            Self::Cuda(options) => cuda::check_device(options.ordinal).err(),
        }
    }

    /// Runs the plan that keeps everything.
    ///
    /// # Errors
    /// If there is no room for it, or an iteration does not end.
    pub fn run_in_core(
        &self,
        (network, trace, machine): Subject,
        runs: Runs,
        monitor: &dyn Monitor,
    ) -> Result<InCoreTimes> {
        let plan = in_core_plan(trace, machine)?;
        let execution = self.run((network, trace, machine), &plan, runs, &[], monitor)?;
        Ok(InCoreTimes {
            measured: execution.middle().iteration,
            predicted: plan.predicted.iteration,
            fingerprint: execution.fingerprint,
        })
    }

    /// Refuses a network that this machine has no memory to measure and to run in core or, where a
    /// budget is given, under a plan within that, before anything is made. A CUDA device has memory of
    /// its own, and says so itself.
    ///
    /// # Errors
    /// If there is too little.
    pub fn room_to_measure(&self, network: &Network, budget: Option<Bytes>) -> Result<()> {
        let Needs { in_core, peak, .. } = Needs::of(network);
        self.room(
            network,
            match budget {
                None => in_core.max(memory_needed(network, in_core_budget(peak))),
                Some(budget) => memory_needed(network, budget.0),
            },
        )
    }

    /// The same for a network that is trained: while the device holds its plan, the network is tested in
    /// core beside it, and what lasts from one device to the next is there once more for either.
    ///
    /// # Errors
    /// If there is too little.
    pub fn room_to_train(&self, network: &Network) -> Result<()> {
        let Needs { in_core, peak, constants } = Needs::of(network);
        let device = memory_needed(network, in_core_budget(peak));
        let beside = in_core.saturating_add(constants.saturating_mul(3));
        self.room(network, device.saturating_add(beside))
    }

    fn room(&self, network: &Network, needed: u64) -> Result<()> {
        match self {
            Self::Cuda(_) => Ok(()),
            Self::Host(_) => Ok(room_for(&network.name, needed, SMALLER)?),
        }
    }
}

/// Runs the plan that keeps everything for so many iterations, and counts the zeros of what ops wrote in
/// the last: a share for each tensor, none where it holds no floats.
pub(crate) fn count_zeros(
    target: &Target,
    (network, trace): (&Network, &Trace),
    plan: &Plan,
    (iterations, seed): (usize, u64),
    monitor: &dyn Monitor,
) -> Result<Vec<Option<f64>>> {
    match target {
        Target::Host(_) => Ok(zeros(network, iterations, seed)?),
        Target::Cuda(options) => {
            let options = CudaOptions { seed, count_zeros: true, ..options.clone() };
            let mut device = cuda::open(network, trace, plan, &options)?;
            let runs = Runs { warmup: 0, iterations, seed, graph: false, fingerprint: false };
            runs.run(network, &mut device, monitor)?;
            Ok(device.zeros()?)
        }
    }
}

/// The plan that keeps everything, with as much memory as that takes.
///
/// # Errors
/// If that is more than any plan may have.
pub fn in_core_plan(trace: &Trace, machine: &Machine) -> Result<ProvenPlan> {
    let budget = Bytes(in_core_budget(simulator::in_core(trace).peak.0));
    let problem = Problem::new(trace, machine, budget);
    Ok(planner::plan(&methods::InCoreMethod, &problem, &NoMonitor)?)
}

/// The device memory of the plan that keeps everything.
pub(crate) fn in_core_budget(peak: u64) -> u64 {
    // Buffers that fit byte for byte may not fit address for address.
    peak.saturating_add(peak / 4)
}
