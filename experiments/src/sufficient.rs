//! A budget that would do, where a comparison has no plan: planned, not guessed.

use planner::Monitor;
use planner::methods::Method;
use reports::{Comparison, Status, Sufficient};
use schema::Bytes;

use crate::largest::Question;
use crate::{Inputs, Result};

/// People write budgets in these.
const STEP: u64 = 1_000_000;

/// How often what lies between too little and enough is halved: whoever waits has no plan as it is, and
/// searches take longest where little is missing.
const HALVINGS: u32 = 3;

/// States a budget with which one of the methods has a plan: the one that comes nearest, and the first of
/// those that come as near. Nothing where there is a plan already.
///
/// # Errors
/// If a plan cannot be proven safe.
pub fn find_sufficient(
    comparison: &mut Comparison,
    inputs: &Inputs,
    methods: &[Box<dyn Method>],
    monitor: &dyn Monitor,
) -> Result<()> {
    comparison.sufficient = match sufficient(comparison, inputs, methods, monitor) {
        Err(error) if error.is_interruption() => None,
        found => found?,
    };
    Ok(())
}

fn sufficient(
    comparison: &Comparison,
    inputs: &Inputs,
    methods: &[Box<dyn Method>],
    monitor: &dyn Monitor,
) -> Result<Option<Sufficient>> {
    let rows = &comparison.methods;
    if rows.iter().any(|row| row.status == Status::Ok) {
        return Ok(None);
    }
    let named = |name: &str| methods.iter().find(|method| method.name() == name);
    let nearest = rows.iter().filter_map(|row| Some((row.shortfall?, named(&row.method)?)));
    let Some((shortfall, method)) = nearest.min_by_key(|(shortfall, _)| *shortfall) else {
        return Ok(None);
    };
    let question = Question {
        machine: &inputs.machine,
        decided_on: None,
        method: method.as_ref(),
        conditions: &inputs.conditions,
        probes: false,
        epoch: None,
    };
    let fits = |budget: Bytes| {
        monitor.step(&format!("budget {budget}"));
        question.fits(&inputs.trace, budget, monitor)
    };
    let in_megabytes = |bytes: u64| Bytes(bytes.div_ceil(STEP) * STEP);
    // With room for packing.
    let peak = inputs.in_core.peak.0;
    let tries = [inputs.budget.0.saturating_add(shortfall.0), peak + peak / 200];
    let mut enough = None;
    for budget in tries.map(in_megabytes) {
        if enough.is_none() && fits(budget)? {
            enough = Some(budget);
        }
    }
    let Some(mut enough) = enough else { return Ok(None) };
    let mut under = comparison.least_budget.unwrap_or(inputs.budget).max(inputs.budget);
    for _ in 0..HALVINGS {
        let middle = in_megabytes(under.0 + enough.saturating_sub(under).0 / 2);
        if middle >= enough {
            break;
        }
        if fits(middle)? { enough = middle } else { under = middle }
    }
    Ok(Some(Sufficient { method: method.name().into(), budget: enough }))
}
