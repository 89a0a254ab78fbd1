//! Which epochs share a plan.

use std::collections::BTreeMap;

use schema::{Bytes, EpochPlan, Plan, TensorId};

pub fn compressed(plan: &Plan) -> u64 {
    plan.decisions.iter().filter(|decision| decision.codec.is_some()).count() as u64
}

/// Adds an epoch's plan, or lets the last range go on where its plan serves the epoch as well:
/// decisions are the same, no compressed form needs more than was reserved for it, and a plan with what is
/// reserved for the epoch is not [faster](WORTHWHILE) by much. Says whether a range was added.
pub fn append(plans: &mut Vec<EpochPlan>, epoch: u32, plan: Plan) -> bool {
    if let Some(range) = plans.last_mut().filter(|range| serves(&range.plan, &plan)) {
        range.last_epoch = epoch;
        return false;
    }
    plans.push(EpochPlan { first_epoch: epoch, last_epoch: epoch, plan });
    true
}

/// A plan of its own is worth it where its iteration takes less than this many thousandths of what it
/// takes with the earlier one.
const WORTHWHILE: u64 = 990;

fn serves(earlier: &Plan, later: &Plan) -> bool {
    let (reserved, needed) = (compressed_forms(earlier), compressed_forms(later));
    earlier.codecs == later.codecs
        && earlier.decisions == later.decisions
        && later.predicted.iteration.0.saturating_mul(1000)
            >= earlier.predicted.iteration.0.saturating_mul(WORTHWHILE)
        && needed.iter().all(|(tensor, bytes)| reserved.get(tensor).is_some_and(|r| bytes <= r))
}

/// What is reserved for each tensor's compressed form.
fn compressed_forms(plan: &Plan) -> BTreeMap<TensorId, Bytes> {
    let small = plan.buffers.iter().filter(|buffer| buffer.compressed.is_some());
    small.filter_map(|buffer| Some((buffer.tensor?, buffer.bytes))).collect()
}
