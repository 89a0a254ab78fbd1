//! Ops that are timed while a plan keeps the iteration within a budget.
//!
//! PooCH times ops in iterations that swap everything (section 4.2), since what is to be planned does not fit
//! otherwise. Here the plan is `tide`'s, from rough times at first and then from those that were measured
//! under the plan before, until they settle.

use planner::methods::Tide;
use planner::{Monitor, PlanError, Problem, ProvenPlan};
use runtime::network::Network;
use scenarios::Budget;
use schema::{Bytes, Machine, Nanos, Trace};

use crate::device::{Target, in_core_budget};
use crate::error::Result;
use crate::op_times::OpTimes;
use crate::runs::{Execution, Runs};

/// Of a device's usable memory, what plans may have that nobody gave a budget: libraries and codecs work in
/// the rest.
const SHARE: f64 = 0.8;
/// Evaluations of the search for a plan, whose speed hardly matters.
const EVALUATIONS: u64 = 2_000;
/// Plans that are made at most.
const ROUNDS: usize = 3;
/// Times have settled when their sum changes by no more than this share.
const SETTLED: f64 = 0.02;

/// The budget to measure within: what was asked for or, on a CUDA device that has no room for all that an
/// iteration needs, most of what it has. None where everything may be kept.
pub fn budget(
    asked: Option<Budget>,
    on: &Target,
    trace: &Trace,
    machine: &Machine,
) -> Option<Bytes> {
    let peak = simulator::in_core(trace).peak;
    if let Some(asked) = asked {
        return Some(asked.of(peak));
    }
    let share = Bytes((machine.usable_memory().0 as f64 * SHARE) as u64);
    (!keeps_everything(on, trace, machine)).then_some(share)
}

/// Whether a device has room for an iteration that keeps everything.
pub fn keeps_everything(on: &Target, trace: &Trace, machine: &Machine) -> bool {
    let peak = simulator::in_core(trace).peak;
    on.is_host() || in_core_budget(peak.0) <= machine.usable_memory().0
}

/// Times a network's ops within a budget, and gives the trace their times. Also returns what ran last.
pub fn measure_within(
    budget: Bytes,
    (network, trace): (&Network, &mut Trace),
    (on, machine): (&Target, &Machine),
    runs: Runs,
    monitor: &dyn Monitor,
) -> Result<(OpTimes, Execution)> {
    for index in 0..trace.ops.len() {
        trace.ops[index].duration = rough_time(trace, index, machine);
    }
    let mut round = 1;
    loop {
        let before = trace.total_time();
        let plan = plan(trace, machine, budget, monitor)?;
        let execution = on.run((network, trace, machine), &plan, runs, &[], monitor)?;
        let times =
            OpTimes::under_plan(trace.ops.len(), &execution.timelines, machine.link.beside_copy);
        for (op, duration) in trace.ops.iter_mut().zip(&times.durations) {
            op.duration = *duration;
        }
        let change = trace.total_time().ratio(before) - 1.0;
        if change.abs() <= SETTLED || round == ROUNDS {
            trace.provenance.notes.push(format!(
                "Ops were timed, from start to end but for what copies slowed them by, under the {round}. of at \
                 most {ROUNDS} plans of {} within {}, which began from rough times; the last changed their sum \
                 by {:+.1} %. Zeros were not counted.",
                plan.method,
                plan.budget,
                100.0 * change
            ));
            return Ok((times, execution));
        }
        round += 1;
    }
}

fn plan(
    trace: &Trace,
    machine: &Machine,
    budget: Bytes,
    monitor: &dyn Monitor,
) -> Result<ProvenPlan> {
    let problem = Problem::new(trace, machine, budget);
    match planner::plan(&Tide, &problem.clone().with_evaluations(EVALUATIONS), monitor) {
        // Where little fits, a longer search may still find a plan.
        Err(PlanError::Fragmented { .. } | PlanError::OverBudget { .. }) => {
            Ok(planner::plan(&Tide, &problem, monitor)?)
        }
        planned => Ok(planned?),
    }
}

/// What an op takes at least: its operations and its bytes at the device's speeds.
fn rough_time(trace: &Trace, index: usize, machine: &Machine) -> Nanos {
    let (op, compute) = (&trace.ops[index], &machine.device.compute);
    let share = |work: u64, speed: u64| work as f64 / speed.max(1) as f64;
    let seconds = share(op.flops.unwrap_or(0), compute.f32_flops)
        + share(op.bytes_moved.unwrap_or_default().0, compute.memory_bandwidth.0);
    Nanos((1e9 * seconds) as u64 + 1)
}
