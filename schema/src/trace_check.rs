//! What makes a trace well formed.

use std::collections::HashSet;

use crate::file::{Malformed, malformed};
use crate::untimed::has_no_time;
use crate::{InPlace, Nanos, Op, OpId, Processor, TensorId, Trace};

/// Sums of bytes stay far from the end of `u64`, so that a search may add several without a check.
const LARGEST_SUM: u128 = 1 << 60;

struct Checker<'a> {
    trace: &'a Trace,
    written_by: Vec<Option<OpId>>,
    freed_by: Vec<Option<OpId>>,
    /// The last op that had the tensor in the list being checked, so that a repetition shows.
    seen: Vec<Option<OpId>>,
}

pub(crate) fn check(trace: &Trace) -> Result<(), Malformed> {
    if trace.ops.is_empty() {
        return malformed("ops is empty: an iteration has an op");
    }
    check_sums(trace)?;
    let count = trace.tensors.len();
    let mut checker = Checker {
        trace,
        written_by: vec![None; count],
        freed_by: vec![None; count],
        seen: vec![None; count],
    };
    checker.collect_writers()?;
    checker.check_tensors()?;
    for index in 0..trace.ops.len() {
        checker.check_op(OpId::from_index(index))?;
    }
    checker.check_in_place_inputs_die()
}

fn check_sums(trace: &Trace) -> Result<(), Malformed> {
    let ops = || trace.ops.iter();
    let timed = ops().filter(|op| !has_no_time(&op.duration));
    let time = timed.map(|op| u128::from(op.duration.0)).sum::<u128>()
        + ops().filter_map(|op| op.recompute).map(|t| u128::from(t.0)).sum::<u128>();
    let bytes = trace.tensors.iter().map(|t| u128::from(t.bytes.0)).sum::<u128>()
        + ops().map(|op| u128::from(op.workspace.0) + u128::from(op.random.0)).sum::<u128>();
    if time > u128::from(Nanos::MOST.0) {
        return malformed("the time of the whole trace exceeds 2^50 ns: no real iteration does");
    }
    if bytes > LARGEST_SUM {
        return malformed("the memory of the whole trace exceeds 2^60: no real iteration does");
    }
    Ok(())
}

impl Checker<'_> {
    fn collect_writers(&mut self) -> Result<(), Malformed> {
        for (index, op) in self.trace.ops.iter().enumerate() {
            let id = OpId::from_index(index);
            self.check_list(id, "writes", &op.writes)?;
            for &tensor in &op.writes {
                if let Some(first) = self.written_by[tensor.index()] {
                    return malformed(format!(
                        "ops[{}] writes {tensor}, which ops[{}] wrote: an in-place write makes a \
                         new tensor",
                        id.0, first.0
                    ));
                }
                self.written_by[tensor.index()] = Some(id);
            }
        }
        Ok(())
    }

    fn check_tensors(&self) -> Result<(), Malformed> {
        for (index, tensor) in self.trace.tensors.iter().enumerate() {
            let error =
                |field: &str, why: &str| malformed(format!("tensors[{index}].{field} {why}"));
            if tensor.sparsity.is_some_and(|s| !(0.0..=1.0).contains(&s)) {
                return error("sparsity", "is a share from 0 to 1");
            }
            if tensor.texture.is_some_and(|texture| !texture.is_one()) {
                return error("texture", "has two magnitudes and a share from 0 to 1");
            }
            if let Some(op) = tensor.appears_before {
                if op.index() >= self.trace.ops.len() {
                    return error("appears_before", "is not an op of the trace");
                }
                if self.written_by[index].is_some() {
                    return error("appears_before", "is for tensors that no op writes");
                }
            }
        }
        Ok(())
    }

    /// All ids in range, none twice.
    fn check_list(
        &mut self,
        op: OpId,
        list: &'static str,
        tensors: &[TensorId],
    ) -> Result<(), Malformed> {
        for &tensor in tensors {
            let (names, count) =
                (format_args!("ops[{}].{list} names {tensor}", op.0), self.seen.len());
            let Some(seen) = self.seen.get_mut(tensor.index()) else {
                return malformed(format!("{names}, but the trace has {count} tensors"));
            };
            if seen.replace(op) == Some(op) {
                return malformed(format!("{names} twice: name it once"));
            }
        }
        for tensor in tensors {
            self.seen[tensor.index()] = None;
        }
        Ok(())
    }

    fn check_op(&mut self, id: OpId) -> Result<(), Malformed> {
        let op = &self.trace.ops[id.index()];
        self.check_list(id, "reads", &op.reads)?;
        self.check_list(id, "frees", &op.frees)?;
        self.check_rerun(id, op)?;
        if op.on == Processor::Host {
            let why = "is for plans to say: a trace has the device and the net";
            return malformed(format!("ops[{}].on {why}", id.0));
        }
        let not_there =
            |tensor: TensorId, when: &str| malformed(format!("ops[{}] uses {tensor} {when}", id.0));
        for &tensor in &op.reads {
            let not_there = |when| not_there(tensor, when);
            if self.written_by[tensor.index()].is_some_and(|writer| writer >= id) {
                return not_there("before it is written");
            }
            if self.trace.tensors[tensor.index()].appears_before.is_some_and(|op| op > id) {
                return not_there("before it appears");
            }
            if self.freed_by[tensor.index()].is_some() {
                return not_there("after it is freed");
            }
        }
        for &tensor in &op.frees {
            let not_there = |when| not_there(tensor, when);
            if self.written_by[tensor.index()].is_some_and(|writer| writer > id) {
                return not_there("(frees it) before it is written");
            }
            if self.trace.tensors[tensor.index()].appears_before.is_some_and(|op| op > id) {
                return not_there("(frees it) before it appears");
            }
            if self.freed_by[tensor.index()].replace(id).is_some() {
                return not_there("(frees it) after it is freed");
            }
        }
        if op.in_place.is_empty() {
            return Ok(());
        }
        let reads: HashSet<TensorId> = op.reads.iter().copied().collect();
        let mut paired = HashSet::new();
        for pair in &op.in_place {
            let (input, output) = (pair.input, pair.output);
            let error = |why| in_place(id, pair, why);
            if !reads.contains(&input) {
                return error("the op does not read the input");
            }
            if self.written_by.get(output.index()) != Some(&Some(id)) {
                return error("the op does not write the output");
            }
            // No tensor is both read and written by one op, so that one set serves for both.
            if !paired.insert(output) || !paired.insert(input) {
                return error("one of them is in another pair of the same op");
            }
            if self.written_by[input.index()].is_none() {
                return error("the input exists before the iteration and must outlive it");
            }
        }
        Ok(())
    }

    /// What the op changes in place, and what a rerun of it has to do with.
    fn check_rerun(&mut self, id: OpId, op: &Op) -> Result<(), Malformed> {
        let error = |list: &str, tensor: TensorId, why: &str| {
            malformed(format!("ops[{}].{list} names {tensor}, {why}", id.0))
        };
        let mutates = op.mutates.as_deref().unwrap_or_default();
        self.check_list(id, "mutates", mutates)?;
        for tensor in mutates {
            if !op.reads.contains(tensor) {
                return error("mutates", *tensor, "which the op does not read");
            }
            if self.written_by[tensor.index()].is_some() {
                let why = "which an op writes: an in-place write to it makes a new tensor";
                return error("mutates", *tensor, why);
            }
            if op.rerunnable && op.reads_again().contains(tensor) {
                let why = "which a rerun would read as it is by then: leave it out of rerun.reads";
                return error("mutates", *tensor, why);
            }
        }
        let Some(rerun) = &op.rerun else { return Ok(()) };
        if !op.rerunnable {
            return malformed(format!("ops[{}].rerun is for ops that may run again", id.0));
        }
        let lists =
            [("rerun.reads", &rerun.reads, &op.reads), ("rerun.writes", &rerun.writes, &op.writes)];
        for (name, list, of) in lists {
            self.check_list(id, name, list)?;
            if let Some(tensor) = list.iter().find(|tensor| !of.contains(tensor)) {
                return error(name, *tensor, "which the op's first run does not");
            }
        }
        Ok(())
    }

    fn check_in_place_inputs_die(&self) -> Result<(), Malformed> {
        let mut last_read = vec![None; self.trace.tensors.len()];
        for (index, op) in self.trace.ops.iter().enumerate() {
            for tensor in &op.reads {
                last_read[tensor.index()] = Some(OpId::from_index(index));
            }
        }
        for (index, op) in self.trace.ops.iter().enumerate() {
            let id = OpId::from_index(index);
            for pair in &op.in_place {
                let input = pair.input;
                let error = |why| in_place(id, pair, why);
                if last_read[input.index()] > Some(id) {
                    return error("a later op reads the input");
                }
                if self.freed_by[input.index()] != Some(id) {
                    return error("this op does not free the input");
                }
            }
        }
        Ok(())
    }
}

/// What is wrong with an in-place pair.
fn in_place(op: OpId, pair: &InPlace, why: &str) -> Result<(), Malformed> {
    malformed(format!("ops[{}].in_place lays {} over {}: {why}", op.0, pair.output, pair.input))
}
