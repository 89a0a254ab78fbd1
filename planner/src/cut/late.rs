//! When copies run: those in as late as they can, those out as soon as they can, each way one after
//! the other beside ops that wait for none.

use schema::{Direction, TensorId};

use crate::Problem;

/// By run, those that are items, numbered after the ops: the run at which the copy in begins, and
/// the run after which its tensor has been copied out before.
pub(super) struct Late {
    pub begins: Vec<usize>,
    pub leaves: Vec<usize>,
}

/// What copies a tensor.
struct Copied {
    run: usize,
    tensor: usize,
    /// The run after which it may be copied out.
    made: usize,
    /// The last to read it before.
    read: usize,
}

impl Late {
    /// Of runs, each with the op before which it takes place.
    pub fn new(problem: &Problem, runs: &[(usize, usize)]) -> Self {
        let trace = problem.trace;
        let ops = trace.ops.len();
        let mut late = Self { begins: Vec::new(), leaves: Vec::new() };
        if runs.iter().all(|(_, op)| *op < ops) {
            return late;
        }
        late.begins = (0..runs.len()).collect();
        late.leaves = vec![0; runs.len()];
        let mut starts = Vec::with_capacity(runs.len());
        let mut time = 0;
        let mut copied = Vec::new();
        // By tensor: the run that makes it, and the last that reads it.
        let mut used = vec![(0, 0); trace.tensors.len()];
        let mut is_out = vec![false; trace.tensors.len()];
        for (run, (stage, op)) in runs.iter().enumerate() {
            starts.push(time);
            let Some(of) = trace.ops.get(*op) else {
                let tensor = op - ops;
                let (made, read) = used[tensor];
                if !std::mem::replace(&mut is_out[tensor], true) {
                    copied.push(Copied { run, tensor, made, read });
                }
                used[tensor] = (run, run);
                continue;
            };
            let again = op != stage;
            time += if again { of.device_time_again().0 } else { of.device_time().0 };
            of.reads.iter().for_each(|tensor| used[tensor.index()].1 = run);
            of.writes.iter().for_each(|tensor| used[tensor.index()] = (run, run));
        }
        let copy = |way, tensor: usize| {
            let bytes = trace.tensors[TensorId::from_index(tensor).index()].bytes;
            problem.machine.link.copy_time(way, bytes).0
        };
        let mut free = time;
        for (run, (_, item)) in runs.iter().enumerate().rev().filter(|(_, (_, op))| *op >= ops) {
            free = free.min(starts[run]).saturating_sub(copy(Direction::H2d, item - ops));
            late.begins[run] = starts.partition_point(|start| *start <= free).max(1) - 1;
        }
        copied.sort_by_key(|copied| (copied.read, copied.run));
        free = 0;
        for Copied { run, tensor, made, .. } in copied {
            let ready = starts.get(made + 1).copied().unwrap_or(time);
            free = free.max(ready).saturating_add(copy(Direction::D2h, tensor));
            late.leaves[run] = starts.partition_point(|start| *start < free).max(1) - 1;
        }
        late
    }
}
