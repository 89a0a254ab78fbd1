//! What would be on the device at each op if nothing ever left.

use schema::{OpId, TensorId};

use crate::Problem;

/// Bytes on the device at each op if every tensor stays from its first use to its last: what the
/// op uses, the gaps that are open, and constants that wait for their first use.
pub(crate) fn kept_load(problem: &Problem) -> Vec<u64> {
    load(problem, true)
}

/// The same for bounds. Constants that wait for their first use may be elsewhere where anything is
/// copied or compressed: no method of ours has them leave, but a plan may.
pub(crate) fn certain_load(problem: &Problem) -> Vec<u64> {
    load(problem, !problem.allowed.swap && !problem.allowed.compress)
}

/// The op with the largest load, the first of those that have it.
pub(crate) fn fullest(load: &[u64]) -> usize {
    (0..load.len()).max_by_key(|op| (load[*op], std::cmp::Reverse(*op))).unwrap_or(0)
}

fn load(problem: &Problem, with_waiting: bool) -> Vec<u64> {
    let ops = problem.trace.ops.len();
    // Bytes of the gaps that are open at each op, as differences from op to op.
    let mut opens = vec![0i128; ops + 2];
    for gap in problem.model.gaps() {
        let end = gap.before.map_or(ops, |op| op.index());
        opens[gap.after.index() + 1] += i128::from(gap.bytes.0);
        opens[end] -= i128::from(gap.bytes.0);
    }
    for (tensor, first) in first_uses(problem).into_iter().enumerate() {
        let id = TensorId::from_index(tensor);
        if with_waiting && problem.model.producer(id).is_none() && !problem.model.is_held(id) {
            let bytes = i128::from(problem.trace.tensors[tensor].bytes.0);
            opens[0] += bytes;
            opens[first] -= bytes;
        }
    }
    let mut open = 0;
    let load = opens[..ops].iter().enumerate().map(|(op, change)| {
        open += change;
        (open + i128::from(used_bytes(problem, op))) as u64
    });
    load.collect()
}

/// The first op that reads each tensor; the number of ops where none does.
fn first_uses(problem: &Problem) -> Vec<usize> {
    let mut first = vec![problem.trace.ops.len(); problem.trace.tensors.len()];
    for (index, op) in problem.trace.ops.iter().enumerate().rev() {
        op.reads.iter().for_each(|t| first[t.index()] = index);
    }
    first
}

/// What there is on the device while an op runs, whatever the plan: what it uses, outputs laid over
/// inputs counted once, and what is held.
pub(crate) fn used_bytes(problem: &Problem, index: usize) -> u64 {
    let op = &problem.trace.ops[index];
    let bytes = |t: &TensorId| problem.trace.tensors[t.index()].bytes.0;
    let used = op.reads.iter().chain(&op.writes).filter(|t| !problem.model.is_held(**t));
    let tensors: u64 = used.map(bytes).sum();
    let held = problem.model.held_bytes(OpId::from_index(index)).0;
    let shared: u64 = op.in_place.iter().map(|p| bytes(&p.input).min(bytes(&p.output))).sum();
    tensors + held + op.workspace.0 - shared
}
