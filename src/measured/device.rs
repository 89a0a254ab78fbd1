//! Plans that run on a device.

use planner::{NoMonitor, Problem, ProvenPlan, methods};
use runtime::cuda::{self, CudaError, CudaOptions, OpenError};
use runtime::device::host::{HostDevice, HostOptions, memory_needed};
use runtime::device::{Device, DeviceError, Fault};
use runtime::memory::room_for;
use runtime::network::Network;
use runtime::profile::{Needs, SMALLER};
use schema::{Bytes, Machine, Plan, Trace};

use crate::device_args::{DeviceKind, OnDevice};
use crate::exit::{Exit, OrExit, Result, WithExit, usage};
use crate::measured::compared::InCoreTimes;
use crate::measured::runs::{Execution, Runs};
use crate::progress::Bar;
use crate::signals::stop;

/// Runs a plan on a device.
pub fn on_device(
    on: OnDevice,
    subject: (&Network, &Trace, &Machine),
    plan: &Plan,
    runs: Runs,
    faults: &[Fault],
) -> Result<Execution> {
    let bar = Bar::new(&plan.method);
    let mut device = open(on, subject, plan, (runs.seed, runs.graph), faults)?;
    Ok(runs.run(subject.0, device.as_mut(), &bar)?)
}

/// A device for a plan, with a seed, and whether it launches graphs; Ctrl-C stops it.
pub fn open<'a>(
    on: OnDevice,
    (network, trace, machine): (&'a Network, &'a Trace, &Machine),
    plan: &'a Plan,
    (seed, graph): (u64, bool),
    faults: &[Fault],
) -> Result<Box<dyn Device + 'a>> {
    on.check()?;
    match on.kind {
        DeviceKind::Host if graph => Err(no_graphs()),
        DeviceKind::Host => {
            Ok(Box::new(host_device((network, trace, machine), plan, seed, faults)?))
        }
        DeviceKind::Cuda if !faults.is_empty() => {
            Err(usage("--inject is for the host device: nothing goes wrong on CUDA on purpose"))
        }
        DeviceKind::Cuda => {
            let options = CudaOptions { seed, graph, stop: stop(), ..on.cuda_options() };
            Ok(Box::new(cuda::open(network, trace, plan, &options).map_err(not_opened)?))
        }
    }
}

/// Refuses graphs where there are none: in the first iteration, and on the host device.
pub fn check_graph(on: OnDevice, graph: bool, warmup: usize) -> Result {
    match on.kind {
        _ if !graph => Ok(()),
        _ if warmup == 0 => {
            Err(usage("--graph needs --warmup 1 or more: the first iteration is no graph yet"))
        }
        DeviceKind::Host => Err(no_graphs()),
        DeviceKind::Cuda => Ok(()),
    }
}

fn no_graphs() -> WithExit {
    usage("--graph is for `--device cuda`: the host device has no graphs")
}

/// Why the device does not answer any more, if it does not: then no plan can run on it in this process.
pub fn lost(on: OnDevice) -> Option<CudaError> {
    match on.kind {
        DeviceKind::Host => None,
        DeviceKind::Cuda => cuda::check_device(CudaOptions::default().ordinal).err(),
    }
}

/// Runs the plan that keeps everything for so many iterations on CUDA, and counts the zeros of what ops
/// wrote in the last: a share for each tensor, none where it holds no floats.
pub fn zeros_on_cuda(
    on: OnDevice,
    (network, trace): (&Network, &Trace),
    plan: &Plan,
    (iterations, seed): (usize, u64),
) -> Result<Vec<Option<f64>>> {
    let options = CudaOptions { seed, count_zeros: true, stop: stop(), ..on.cuda_options() };
    let mut device = cuda::open(network, trace, plan, &options).map_err(not_opened)?;
    let runs = Runs { warmup: 0, iterations, seed, graph: false, fingerprint: false };
    runs.run(network, &mut device, &Bar::new("zeros"))?;
    device.zeros().or_exit(Exit::Failed)
}

/// A host device for a plan, with the machine's link and host memory.
fn host_device<'a>(
    (network, trace, machine): (&'a Network, &'a Trace, &Machine),
    plan: &'a Plan,
    seed: u64,
    faults: &[Fault],
) -> Result<HostDevice<'a>> {
    let options = HostOptions {
        seed,
        host_memory: Some(machine.host.memory),
        faults: faults.to_vec(),
        stop: stop(),
        ..HostOptions::new(machine.link.clone())
    };
    HostDevice::new(network, trace, plan, &options).map_err(refused)
}

/// Why there is no CUDA device for a plan.
fn not_opened(error: OpenError) -> WithExit {
    match error {
        OpenError::Plan(error) => refused(error),
        OpenError::Commands(_) => WithExit { exit: Exit::Usage, error: error.into() },
        OpenError::Cuda(_) => WithExit { exit: Exit::Failed, error: error.into() },
    }
}

/// A plan that a device does not take: what was not proven has its own exit code.
fn refused(error: DeviceError) -> WithExit {
    let exit = match error {
        DeviceError::Unsafe(_) | DeviceError::Contract(_) => Exit::NotProven,
        DeviceError::NoRoom(_) | DeviceError::NoThread { .. } => Exit::Failed,
        _ => Exit::Usage,
    };
    WithExit { exit, error: error.into() }
}

/// The plan that keeps everything, with as much memory as that takes.
pub fn in_core_plan(trace: &Trace, machine: &Machine) -> Result<ProvenPlan> {
    let budget = Bytes(in_core_budget(simulator::in_core(trace).peak.0));
    let problem = Problem::new(trace, machine, budget);
    planner::plan(&methods::InCoreMethod, &problem, &NoMonitor).or_exit(Exit::Infeasible)
}

/// The device memory of the plan that keeps everything.
pub fn in_core_budget(peak: u64) -> u64 {
    // Buffers that fit byte for byte may not fit address for address.
    peak.saturating_add(peak / 4)
}

/// Refuses a network that this machine has no memory to measure and to run in core, before anything is
/// made. A CUDA device has memory of its own, and says so itself.
pub fn room_to_measure(on: OnDevice, network: &Network) -> Result {
    let Needs { in_core, peak, .. } = Needs::of(network);
    let device = memory_needed(network, in_core_budget(peak));
    room(on, network, in_core.max(device))
}

/// The same for a network that is measured under a plan within a budget.
pub fn room_to_measure_within(on: OnDevice, network: &Network, budget: Bytes) -> Result {
    room(on, network, memory_needed(network, budget.0))
}

/// The same for a network that is trained: while the device holds its plan, the network is tested in core
/// beside it, and what lasts from one device to the next is there once more for either.
pub fn room_to_train(on: OnDevice, network: &Network) -> Result {
    let Needs { in_core, peak, constants } = Needs::of(network);
    let device = memory_needed(network, in_core_budget(peak));
    room(on, network, device.saturating_add(in_core).saturating_add(constants.saturating_mul(3)))
}

fn room(on: OnDevice, network: &Network, needed: u64) -> Result {
    match on.kind {
        DeviceKind::Cuda => Ok(()),
        DeviceKind::Host => Ok(room_for(&network.name, needed, SMALLER)?),
    }
}

/// Runs the plan that keeps everything.
pub fn in_core(
    on: OnDevice,
    (network, trace, machine): (&Network, &Trace, &Machine),
    runs: Runs,
) -> Result<InCoreTimes> {
    let plan = in_core_plan(trace, machine)?;
    let execution = on_device(on, (network, trace, machine), &plan, runs, &[])?;
    Ok(InCoreTimes {
        measured: execution.middle().iteration,
        predicted: plan.predicted.iteration,
        fingerprint: execution.fingerprint,
    })
}
