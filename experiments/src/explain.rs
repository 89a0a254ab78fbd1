//! Whether something fits a machine, what its memory is made of, and what would help: each remedy planned.

mod named;
mod peak;
mod remedies;

use std::path::Path;

use planner::Monitor;
use profiler::import::Figures;
use reports::{Certainty, DeviceMemory, Explanation, Part, Peak};
use scenarios::Budget;
use schema::{Bytes, Machine, Nanos, OpKind, Phase, Plan, Recipe, Trace};
use simulator::{Reserved, reserved_by_plan, reserved_in_core};

use crate::{Inputs, Result};

pub use named::Named;
pub use remedies::command;

/// How far predictions of what PyTorch holds have been off, as shares of the prediction: how much more it may
/// be, and how much less. A test holds them against recordings that nothing was fitted to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// How much more.
    pub more: f64,
    /// How much less.
    pub less: f64,
}

impl Band {
    /// Of recorded allocations.
    pub const RECORDED: Self = Self { more: 0.13, less: 0.08 };
    /// Of described networks without convolutions, but for one that cuts patches.
    pub const DESCRIBED: Self = Self { more: 0.06, less: 0.08 };
    /// Of those with convolutions: what libraries take to work in is known to them alone, up to gigabytes.
    pub const CONVOLUTIONS: Self = Self { more: 0.38, less: 0.12 };

    /// Of a trace.
    pub fn of(trace: &Trace) -> Self {
        let convolutions = trace
            .ops
            .iter()
            .filter(|op| op.kind == OpKind::Convolution && op.phase == Phase::Forward);
        match convolutions.count() {
            0 | 1 => Self::DESCRIBED,
            _ => Self::CONVOLUTIONS,
        }
    }
}

/// What is explained.
pub enum Subject<'a> {
    /// A network, which can be built otherwise, and the file of its efficiencies where it is not ours.
    Network(&'a Recipe, Option<&'a Path>),
    /// An iteration as it is.
    Trace,
    /// One whose allocations were recorded, and what the model of the allocator reserves for them.
    Recording(Bytes),
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
        // A trace has what is known of tensors; what else was allocated is of one piece there.
        Subject::Recording(reserved) => (
            Ok(Reserved { allocated: in_core.peak, reserved: *reserved }),
            reserved <= budget,
            in_core.iteration,
            trace.title(),
            peak::of_trace(trace),
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
    let band = match subject {
        // Its addresses are what they are.
        Subject::Plan(_) => Band { more: 0.0, less: 0.0 },
        Subject::Recording(_) => Band::RECORDED,
        _ => Band::of(trace),
    };
    let mut explanation = Explanation {
        explains,
        about: inputs.carry_over.lines().map(String::from).collect(),
        machine: machine.name.clone(),
        fits: Some(fits),
        certainty: certainty(fits, needed, *budget, band),
        may_need_more: band.more,
        may_need_less: band.less,
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
    budget: Option<Budget>,
    file: &Path,
) -> Explanation {
    let allocated = Bytes(figures.recorded_peak_bytes.unwrap_or(0));
    let budget = Budget::resolve(budget, machine, allocated);
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
        explains: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        about: vec!["a history of PyTorch's allocator; nothing says what its ops were".into()],
        machine: machine.name.clone(),
        fits: Some(fits),
        certainty: certainty(fits, reserved, budget, Band::RECORDED),
        may_need_more: Band::RECORDED.more,
        may_need_less: Band::RECORDED.less,
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
fn certainty(fits: bool, needed: Bytes, budget: Bytes, band: Band) -> Certainty {
    let (needed, budget) = (needed.0 as f64, budget.0 as f64);
    let sure = match fits {
        true => needed * (1.0 + band.more) <= budget,
        false => needed * (1.0 - band.less) > budget,
    };
    if sure { Certainty::Sure } else { Certainty::Close }
}

fn apart(fits: bool, reserved: Bytes, allocated: Bytes, budget: Bytes) -> Bytes {
    match fits {
        true => budget.saturating_sub(reserved),
        false => reserved.max(allocated).saturating_sub(budget),
    }
}
