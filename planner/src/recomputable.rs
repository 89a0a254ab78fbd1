//! Which tensors can be given up and made again.

use schema::{OpId, TensorId};

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

/// For each tensor the last op before which it can be made again if all is there by then that is used
/// later: its op, and those of inputs whose last use is over, can be run again until then. No op, where
/// none makes it again. Later than [`remade_until`] or the same.
pub(crate) fn remade_in_time(problem: &Problem) -> Vec<usize> {
    let model = &problem.model;
    let ops = problem.trace.ops.len();
    let mut until = vec![0; problem.trace.tensors.len()];
    for index in 0..ops {
        let op = OpId::from_index(index);
        let made = model.reads_again(op).filter(|input| model.producer(*input).is_some());
        let there = made.map(|input| {
            model.last_use(input).map_or(ops, |last| last.index().max(until[input.index()]))
        });
        let all = there.fold(model.rerunnable_until(op), usize::min);
        let again = problem.trace.ops[index].writes_again();
        again
            .iter()
            .filter(|tensor| model.remade_by(**tensor) == Some(op))
            .for_each(|tensor| until[tensor.index()] = all);
    }
    until
}
