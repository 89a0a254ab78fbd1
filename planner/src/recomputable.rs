//! Which tensors can be given up and made again.

use std::collections::BTreeSet;

use schema::{OpId, TensorId};
use simulator::GapId;

use crate::Problem;

/// For each tensor, whether it may be dropped at any time: whenever it is used after that, its op
/// and all that this needs can be run again. False for what no op makes, and for what is held.
pub(crate) fn droppable(problem: &Problem) -> Vec<bool> {
    let (ops, until) = (problem.trace.ops.len(), remade_until(problem));
    let is_droppable = |tensor: usize| {
        let id = TensorId::from_index(tensor);
        let last_use = problem.model.last_use(id).map_or(ops, OpId::index);
        let is_remade = problem.model.remade_by(id).is_some();
        is_remade && last_use <= until[tensor] && !problem.model.is_held(id)
    };
    (0..until.len()).map(is_droppable).collect()
}

/// For each tensor the last op before which it can be made again from what is always there.
pub(crate) fn remade_until(problem: &Problem) -> Vec<usize> {
    let mut until = vec![problem.trace.ops.len(); problem.trace.tensors.len()];
    for (index, op) in problem.trace.ops.iter().enumerate() {
        let own = problem.model.rerunnable_until(OpId::from_index(index));
        let all = op.reads_again().iter().map(|t| until[t.index()]).fold(own, usize::min);
        // What a rerun leaves out cannot be made again at all.
        op.writes.iter().for_each(|tensor| until[tensor.index()] = 0);
        op.writes_again().iter().for_each(|tensor| until[tensor.index()] = all);
    }
    until
}

/// Whether a gap's tensor can be made again when it is needed next, if all is there by then that is
/// used later: its op, and those of inputs whose last use is over, can be run again until then. What
/// can be [made again](remade_until) from what is always there is quickly decided.
pub(crate) fn recomputable_in_time(problem: &Problem, remade_until: &[usize], gap: GapId) -> bool {
    let model = &problem.model;
    let gap = &model.gaps()[gap];
    let ops = problem.trace.ops.len();
    let at = gap.before.map_or(ops, |op| op.index());
    let Some(maker) = model.remade_by(gap.tensor) else { return false };
    if at <= remade_until[gap.tensor.index()] {
        return true;
    }
    let (mut visited, mut stack) = (BTreeSet::from([maker]), vec![maker]);
    while let Some(op) = stack.pop() {
        if model.rerunnable_until(op) < at {
            return false;
        }
        for input in model.reads_again(op).filter(|input| model.producer(*input).is_some()) {
            let is_dead = model.last_use(input).is_some_and(|last| last.index() < at);
            match model.remade_by(input) {
                None if is_dead => return false,
                Some(maker) if is_dead && visited.insert(maker) => stack.push(maker),
                _ => {}
            }
        }
    }
    true
}
