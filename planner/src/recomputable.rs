//! Which tensors can be given up and made again.

use schema::OpId;

use crate::Problem;

/// For each tensor, whether it may be dropped at any time: whenever it is used after that, its op
/// and all that this needs can be run again. False for what no op makes.
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
            droppable[tensor.index()] = last_use <= all;
        }
    }
    droppable
}
