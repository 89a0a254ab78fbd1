//! Whether something fits a machine, what its memory is made of, and what would help: each remedy planned.

mod peak;
mod remedies;

use std::path::Path;

use planner::Monitor;
use profiler::import::Figures;
use reports::{Certainty, DeviceMemory, Explanation, Part, Peak};
use schema::{Bytes, Machine, Nanos, Plan, Recipe};
use simulator::{Reserved, reserved_by_plan, reserved_in_core};

use crate::{Inputs, Result};

pub use remedies::command;

/// Predictions of reserved memory from nothing but sizes and their order have been off by 7.4 % at most, on
/// thirteen recordings that nothing was fitted to.
const SURE: f64 = 0.08;

/// What is explained.
pub enum Subject<'a> {
    /// A network, which can be built otherwise, and the file of its efficiencies where it is not ours.
    Network(&'a Recipe, Option<&'a Path>),
    /// An iteration as it is.
    Trace,
    /// A plan of it.
    Plan(&'a Plan),
}

/// Explains a trace on a machine. `asked` are its name and the machine's, as they were given.
///
/// # Errors
/// If a search is interrupted, or a plan cannot be proven safe.
pub fn explain(
    subject: &Subject,
    inputs: &Inputs,
    asked: [&str; 2],
    monitor: &dyn Monitor,
) -> Result<Explanation> {
    let Inputs { trace, machine, budget, in_core, .. } = inputs;
    let limit = Some(*budget);
    let (whole, fits, iteration, explains, peak) = match subject {
        Subject::Plan(plan) => (
            reserved_by_plan(plan, None),
            plan.predicted.arena <= *budget,
            plan.predicted.iteration,
            format!("the plan of {} by {}", trace.title(), plan.method),
            peak::of_plan(plan, trace),
        ),
        _ => (
            reserved_in_core(trace, None),
            reserved_in_core(trace, limit).is_ok(),
            in_core.iteration,
            trace.title(),
            peak::of_trace(trace),
        ),
    };
    // Without a limit it is out of memory only where sizes are no device's.
    let Reserved { allocated, reserved } = whole
        .unwrap_or_else(|error| Reserved { allocated: error.allocated, reserved: error.reserved });
    let needed = match subject {
        // Its buffers have addresses in one segment, which is as large as they reach.
        Subject::Plan(plan) => plan.predicted.arena,
        _ => reserved,
    };
    let memory = DeviceMemory {
        allocated: if let Subject::Plan(plan) = subject {
            plan.predicted.peak
        } else {
            in_core.peak
        },
        fixed: in_core.fixed,
        ..memory_of(machine, *budget, needed)
    };
    let mut notes = Vec::new();
    if let Subject::Plan(_) = subject {
        notes.push(format!(
            "with a block for each buffer in place of one segment, PyTorch's allocator would reserve {reserved}"
        ));
    } else if fits && reserved > *budget {
        notes.push(format!(
            "the allocator would give back segments on its way: with enough memory it would hold {reserved}"
        ));
    } else {
        notes.push(format!("rounded up, tensors take {allocated} of it at once"));
    }
    let mut explanation = Explanation {
        explains,
        about: inputs.carry_over.lines().map(String::from).collect(),
        machine: machine.name.clone(),
        fits: Some(fits),
        certainty: certainty(fits, needed.max(memory.allocated), *budget),
        spare: apart(fits, needed, memory.allocated, *budget),
        memory,
        iteration,
        peak,
        remedies: Vec::new(),
        notes,
    };
    if !fits || explanation.certainty == Certainty::Close {
        explanation.remedies = remedies::remedies(subject, inputs, asked, monitor)?;
    }
    Ok(explanation)
}

/// Explains the history of an allocator on a machine, of which nothing can be planned.
pub fn explain_snapshot(
    figures: &Figures,
    machine: &Machine,
    budget: Bytes,
    name: &str,
) -> Explanation {
    let allocated = Bytes(figures.recorded_peak_bytes.unwrap_or(0));
    let predicted = figures.reserved_from_empty_bytes.or(figures.reserved_peak_bytes);
    let reserved = predicted.map_or(allocated, Bytes);
    let fits = reserved <= budget;
    let held = |holder: &profiler::import::Holder| Part {
        what: holder.place.clone(),
        tensors: holder.allocations,
        bytes: Bytes(holder.bytes),
    };
    let mut notes = figures.notes.clone();
    if let Some(recorded) = figures.reserved_peak_bytes {
        let recorded = Bytes(recorded);
        notes.insert(0, format!(
            "the recorded process held {recorded}, with what steps before the recording left behind"
        ));
    }
    let fixed = figures.at_peak.iter().find(|holder| holder.place == "from before the history");
    Explanation {
        explains: name.to_string(),
        about: vec!["a history of PyTorch's allocator; nothing says what its ops were".into()],
        machine: machine.name.clone(),
        fits: Some(fits),
        certainty: certainty(fits, reserved, budget),
        spare: apart(fits, reserved, allocated, budget),
        memory: DeviceMemory {
            allocated,
            fixed: fixed.map_or(Bytes::ZERO, |holder| Bytes(holder.bytes)),
            ..memory_of(machine, budget, reserved)
        },
        iteration: Nanos::ZERO,
        peak: Peak {
            at: "where the history is highest".into(),
            layers: figures.at_peak.iter().map(held).collect(),
            ..Peak::default()
        },
        remedies: Vec::new(),
        notes,
    }
}

fn memory_of(machine: &Machine, budget: Bytes, reserved: Bytes) -> DeviceMemory {
    let source = machine.sources.get("device.reserved");
    DeviceMemory {
        device: machine.device.memory,
        outside: machine.device.reserved,
        outside_source: source.cloned().unwrap_or_else(|| "nobody says where from".into()),
        budget,
        allocated: Bytes::ZERO,
        reserved,
        fixed: Bytes::ZERO,
    }
}

/// Whether the answer would be the same were the prediction as far off as it has been.
fn certainty(fits: bool, needed: Bytes, budget: Bytes) -> Certainty {
    let (needed, budget) = (needed.0 as f64, budget.0 as f64);
    let sure = if fits { needed * (1.0 + SURE) <= budget } else { needed * (1.0 - SURE) > budget };
    if sure { Certainty::Sure } else { Certainty::Close }
}

/// What is left, or missing.
fn apart(fits: bool, reserved: Bytes, allocated: Bytes, budget: Bytes) -> Bytes {
    match fits {
        true => budget.saturating_sub(reserved),
        false => reserved.max(allocated).saturating_sub(budget),
    }
}
