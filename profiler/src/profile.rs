//! A network's ops, timed.

use planner::Monitor;
use runtime::network::{Measured, Network};
use scenarios::Budget;
use schema::{Link, Machine, Origin, Provenance, Trace};

use crate::device::{Target, count_zeros, in_core_plan};
use crate::error::Result;
use crate::op_times::OpTimes;
use crate::runs::{Execution, Runs};
use crate::within::{self, measure_within};

/// The command that measures networks and machines.
pub const SOURCE: &str = "tidegate profile";

/// How a network's ops, and the machine, are measured.
#[derive(Debug, Clone)]
pub struct Measuring {
    /// On what.
    pub target: Target,
    /// The link that the host device's copies are as slow as.
    pub link: Link,
    /// Iterations before the first that counts.
    pub warmup: usize,
    /// Iterations that count.
    pub repeats: usize,
    /// Seed of weights, samples and labels.
    pub seed: u64,
    /// Whether iterations are launched as graphs.
    pub graph: bool,
    /// The device memory of the plan that runs meanwhile; with none, everything is kept where there is
    /// room for it.
    pub budget: Option<Budget>,
}

/// Measures a network's ops on a machine that was measured. `source` is the command.
///
/// # Errors
/// If there is no room for the network, or an iteration does not end.
pub fn measure_ops(
    network: &Network,
    source: String,
    how: &Measuring,
    machine: &Machine,
    monitor: &dyn Monitor,
) -> Result<(Trace, OpTimes)> {
    let Measuring { warmup, repeats, seed, graph, .. } = *how;
    let unknown = Measured { durations: Vec::new(), sparsity: Vec::new() };
    let mut trace = network.trace(&unknown, provenance(source, how, machine));
    let runs = Runs { warmup, iterations: repeats, seed, graph, fingerprint: false };
    let (budget, on) = (within::budget(how.budget, &how.target, &trace, machine), &how.target);
    let subject = (network, &mut trace);
    let (mut times, execution) = match budget {
        Some(budget) => measure_within(budget, subject, (on, machine), runs, monitor)?,
        None => measure_in_core(subject, (on, machine), runs, monitor)?,
    };
    (times.computed_by, times.within) = (execution.computed_by, budget);
    let note = times.computed_by.as_ref().map(|whose| format!("Computed by {whose}."));
    trace.provenance.notes.extend(note);
    if graph {
        trace.provenance.notes.push("Each iteration was launched as one CUDA graph.".into());
    }
    Ok((trace, times))
}

/// Times ops while everything is kept, and counts zeros; gives the trace both.
fn measure_in_core(
    (network, trace): (&Network, &mut Trace),
    (on, machine): (&Target, &Machine),
    runs: Runs,
    monitor: &dyn Monitor,
) -> Result<(OpTimes, Execution)> {
    // Times are those of the device itself, from which predictions are made.
    let plan = in_core_plan(trace, machine)?;
    // What is zero shows once it trains.
    let first = (runs.warmup.max(1), runs.seed);
    let zeros = count_zeros(on, (network, trace), &plan, first, monitor)?;
    let execution = on.run((network, trace, machine), &plan, runs, &[], monitor)?;
    let times = OpTimes::of(trace.ops.len(), &execution.timelines);
    for (op, duration) in trace.ops.iter_mut().zip(&times.durations) {
        op.duration = *duration;
    }
    for (tensor, zeros) in trace.tensors.iter_mut().zip(zeros) {
        tensor.sparsity = zeros;
    }
    trace.provenance.notes.extend([
        "Times are from the start of an op to the start of the next; everything was kept.".into(),
        format!("Sparsity is that of iteration {}; zeros are counted.", runs.warmup.max(1)),
    ]);
    Ok((times, execution))
}

fn provenance(source: String, how: &Measuring, machine: &Machine) -> Provenance {
    let Measuring { warmup, repeats, seed, .. } = *how;
    let notes = vec![format!(
        "Durations are medians over {repeats} iterations after {warmup} of warm-up, on one random batch (seed \
         {seed})."
    )];
    Provenance {
        framework: Some("tidegate runtime".into()),
        date: Some(chrono::Utc::now().format("%Y-%m-%d").to_string()),
        notes,
        ..Provenance::new(Origin::Measured, machine.device.name.clone(), source)
    }
}
