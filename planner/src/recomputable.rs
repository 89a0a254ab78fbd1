//! Which tensors can be given up and made again.

use std::collections::BTreeSet;

use schema::OpId;
use simulator::GapId;

use crate::Problem;

/// For each tensor, whether it may be dropped at any time: whenever it is used after that, its op
/// and all that this needs can be run again. False for what no op makes, and for what is held.
pub(crate) fn droppable(problem: &Problem) -> Vec<bool> {
    let ops = problem.trace.ops.len();
    // The last op before which a tensor can be made again from what is always there.
    let mut until = vec![ops; problem.trace.tensors.len()];
    let mut droppable = vec![false; until.len()];
    for (index, op) in problem.trace.ops.iter().enumerate() {
        let own = problem.model.rerunnable_until(OpId::from_index(index));
        let all = op.reads.iter().map(|t| until[t.index()]).fold(own, usize::min);
        for tensor in &op.writes {
            until[tensor.index()] = all;
            let last_use = problem.model.last_use(*tensor).map_or(ops, |op| op.index());
            droppable[tensor.index()] = last_use <= all && !problem.model.is_held(*tensor);
        }
    }
    droppable
}

/// Whether a gap's tensor can be made again when it is needed next, if all is there by then that is
/// used later: its op, and those of inputs whose last use is over, can be run again until then.
pub(crate) fn recomputable_in_time(problem: &Problem, gap: GapId) -> bool {
    let model = &problem.model;
    let gap = &model.gaps()[gap];
    let ops = problem.trace.ops.len();
    let at = gap.before.map_or(ops, |op| op.index());
    let Some(maker) = model.producer(gap.tensor) else { return false };
    let (mut visited, mut stack) = (BTreeSet::from([maker]), vec![maker]);
    while let Some(op) = stack.pop() {
        if model.rerunnable_until(op) < at {
            return false;
        }
        for input in model.reads(op) {
            let Some(maker) = model.producer(input) else { continue };
            let is_dead = model.last_use(input).is_some_and(|last| last.index() < at);
            if is_dead && visited.insert(maker) {
                stack.push(maker);
            }
        }
    }
    true
}
