//! A budget that would do, where a comparison has no plan: planned, not guessed.

use planner::Monitor;
use planner::methods::Method;
use reports::{Comparison, Status, Sufficient};
use schema::Bytes;

use crate::largest::{Question, smallest_budget};
use crate::{Inputs, Result};

/// People write budgets in these.
const STEP: u64 = 1_000_000;

/// States the smallest budget, to a thousandth of the in-core peak and rounded up, with which one of the
/// methods is known to have a plan: the one that comes nearest, and the first of those that come as near.
/// Nothing where there is a plan already.
///
/// # Errors
/// If it is interrupted, or a plan cannot be proven safe.
pub fn find_sufficient(
    comparison: &mut Comparison,
    inputs: &Inputs,
    methods: &[Box<dyn Method>],
    monitor: &dyn Monitor,
) -> Result<()> {
    let rows = &comparison.methods;
    if rows.iter().any(|row| row.status == Status::Ok) {
        return Ok(());
    }
    let named = |name: &str| methods.iter().find(|method| method.name() == name);
    let nearest = rows.iter().filter_map(|row| Some((row.shortfall?, named(&row.method)?)));
    let Some((_, method)) = nearest.min_by_key(|(shortfall, _)| *shortfall) else { return Ok(()) };
    let question = Question {
        machine: &inputs.machine,
        decided_on: None,
        method: method.as_ref(),
        conditions: &inputs.conditions,
        probes: true,
        epoch: None,
    };
    let found = smallest_budget(&question, inputs.trace.clone(), monitor)?;
    if found.found.plan.is_err() {
        return Ok(());
    }
    // More memory is other memory: what is said is what was planned.
    let budget = Bytes(found.budget.0.div_ceil(STEP) * STEP);
    if question.answer(&inputs.trace, budget, monitor)?.plan.is_ok() {
        comparison.sufficient = Some(Sufficient { method: method.name().into(), budget });
    }
    Ok(())
}
