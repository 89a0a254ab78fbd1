//! Plans that run on the host device.

use planner::{NoWatch, Problem, methods};
use runtime::device::host::{HostDevice, HostOptions};
use runtime::device::{DeviceError, Fault};
use runtime::network::Network;
use schema::{Bytes, Machine, Plan, Trace};

use crate::exit::{Exit, OrExit, Result, WithExit};
use crate::measured::compared::InCoreTimes;
use crate::measured::runs::{Ran, Runs};
use crate::progress::{Bar, stop};

/// Runs a plan.
pub fn on_host(
    network: &Network,
    trace: &Trace,
    plan: &Plan,
    machine: &Machine,
    runs: Runs,
    faults: &[Fault],
) -> Result<Ran> {
    let options = HostOptions {
        seed: runs.seed,
        host_memory: Some(machine.host.memory),
        faults: faults.to_vec(),
        stop: stop(),
        ..HostOptions::new(machine.link.clone())
    };
    let bar = Bar::new(&plan.method);
    let mut device = HostDevice::new(network, trace, plan, &options).map_err(refused)?;
    Ok(runs.run(network, &mut device, &bar)?)
}

/// A plan that a device does not take: what was not proven has its own exit code.
fn refused(error: DeviceError) -> WithExit {
    let exit = match error {
        DeviceError::Unsafe(_) | DeviceError::Contract(_) => Exit::NotProven,
        DeviceError::NoMemory { .. } | DeviceError::NoThread { .. } => Exit::Failed,
        _ => Exit::Usage,
    };
    WithExit { exit, error: error.into() }
}

/// The plan that keeps everything, with as much memory as that takes.
pub fn in_core_plan(trace: &Trace, machine: &Machine) -> Result<Plan> {
    let peak = simulator::in_core(trace).peak;
    // Buffers that fit byte for byte may not fit address for address.
    let problem = Problem::new(trace, machine, Bytes(peak.0 + peak.0 / 4));
    planner::plan(&methods::InCoreMethod, &problem, &NoWatch).or_exit(Exit::Infeasible)
}

/// Runs the plan that keeps everything.
pub fn in_core(
    network: &Network,
    trace: &Trace,
    machine: &Machine,
    runs: Runs,
) -> Result<InCoreTimes> {
    let plan = in_core_plan(trace, machine)?;
    let ran = on_host(network, trace, &plan, machine, runs, &[])?;
    Ok(InCoreTimes { measured: ran.middle().iteration, predicted: plan.predicted.iteration })
}
