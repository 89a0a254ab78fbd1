//! From the operations of a checkpointing schedule to steps.

use schema::{OpId, TensorId};
use simulator::Step;

use super::Chain;
use crate::Problem;

/// One operation of a schedule on a chain, in the terms of Beaumont et al.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::methods) enum ChainOp {
    Forward { stage: usize, keep: Keep },
    Backward { stage: usize },
}

/// What stays on the device after a stage has run forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::methods) enum Keep {
    /// Only its output (F without saving).
    Output,
    /// Its input, as a checkpoint, and its output (F ck).
    InputAndOutput,
    /// All that its backward needs (F all).
    All,
}

/// The steps that carry a schedule out. What a stage of those marked in `offloaded` keeps when the
/// forward phase runs for the first time goes to the host once the next stage has read it.
///
/// A schedule that leaves out what an op needs is still carried out: what is missing is made again
/// just before, from whatever is there.
pub(in crate::methods) fn carry_out(
    problem: &Problem,
    chain: &Chain,
    operations: &[ChainOp],
    offloaded: &[bool],
) -> Vec<Step> {
    let constant = |t: usize| problem.model.producer(TensorId::from_index(t)).is_none();
    let mut run = Run {
        problem,
        chain,
        there: (0..problem.model.tensors()).map(constant).collect(),
        on_host: vec![false; problem.model.tensors()],
        due: 0,
        steps: Vec::new(),
    };
    for operation in operations {
        match *operation {
            ChainOp::Forward { stage, keep } => run.forward(stage, keep, offloaded),
            ChainOp::Backward { stage } => run.backward(stage),
        }
    }
    run.run_until(problem.trace.ops.len());
    for tensor in (0..problem.model.tensors()).map(TensorId::from_index) {
        if problem.model.last_use(tensor).is_none() {
            run.bring(&[tensor]);
        }
    }
    run.steps
}

struct Run<'a> {
    problem: &'a Problem<'a>,
    chain: &'a Chain,
    /// On the device or on the host.
    there: Vec<bool>,
    on_host: Vec<bool>,
    /// The next op that has not run.
    due: usize,
    steps: Vec<Step>,
}

impl Run<'_> {
    fn forward(&mut self, index: usize, keep: Keep, offloaded: &[bool]) {
        let stage = &self.chain.stages[index];
        let first_time = self.due <= stage.forward.start;
        let mut wanted: Vec<TensorId> = stage.output.into_iter().collect();
        if keep == Keep::All {
            wanted.extend(&stage.saved);
        }
        // The last tensor of the chain may be dead by now.
        wanted.retain(|t| self.problem.model.last_use(*t).is_none_or(|op| op.index() >= self.due));
        if first_time {
            self.run_until(stage.forward.end);
            let made: Vec<TensorId> = self.chain.made(self.problem, index).collect();
            made.into_iter().filter(|t| !wanted.contains(t)).for_each(|t| self.drop_tensor(t));
        } else {
            self.bring(&wanted);
        }
        if let Some(input) = stage.input.filter(|_| keep == Keep::Output) {
            self.drop_tensor(input);
        }
        // The next stage has read what the one before made.
        if first_time && index > 0 && offloaded[index - 1] {
            self.swap_out_all(index - 1);
        }
    }

    fn swap_out_all(&mut self, stage: usize) {
        let tensors: Vec<TensorId> = self.chain.made(self.problem, stage).collect();
        for tensor in tensors {
            let needed =
                self.problem.model.last_use(tensor).is_some_and(|op| op.index() >= self.due);
            let may_leave = self.chain.droppable[tensor.index()];
            let bytes = self.problem.trace.tensors[tensor.index()].bytes.0;
            if needed && may_leave && bytes > 0 && self.there[tensor.index()] {
                self.steps.push(Step::SwapOut(tensor));
                self.on_host[tensor.index()] = true;
            }
        }
    }

    fn backward(&mut self, index: usize) {
        self.run_until(self.chain.stages[index].backward.end);
        let input = self.chain.stages[index].input;
        let tensors: Vec<TensorId> = self.chain.made(self.problem, index).chain(input).collect();
        for tensor in tensors {
            if self.problem.model.last_use(tensor).is_some_and(|op| op.index() < self.due) {
                self.drop_tensor(tensor);
            }
        }
    }

    /// Runs the trace's ops for the first time up to one.
    fn run_until(&mut self, end: usize) {
        let trace = self.problem.trace;
        while self.due < end {
            let op = &trace.ops[self.due];
            self.bring(&op.reads);
            self.steps.push(Step::Run(OpId::from_index(self.due)));
            op.reads.iter().for_each(|t| self.on_host[t.index()] = false);
            op.writes.iter().for_each(|t| self.there[t.index()] = true);
            self.due += 1;
        }
    }

    /// Makes tensors again that are not there, and drops what only that needed.
    fn bring(&mut self, wanted: &[TensorId]) {
        let trace = self.problem.trace;
        let mut made = Vec::new();
        let mut stack: Vec<TensorId> = wanted.iter().rev().copied().collect();
        while let Some(&tensor) = stack.last() {
            let op = match self.problem.model.producer(tensor) {
                Some(op) if !self.there[tensor.index()] => op,
                _ => {
                    stack.pop();
                    continue;
                }
            };
            let trace_op = &trace.ops[op.index()];
            match trace_op.reads_again().iter().find(|t| !self.there[t.index()]) {
                Some(input) => stack.push(*input),
                None => {
                    self.steps.push(Step::Again(op));
                    trace_op.reads_again().iter().for_each(|t| self.on_host[t.index()] = false);
                    for output in trace_op.writes_again() {
                        if !std::mem::replace(&mut self.there[output.index()], true) {
                            made.push(*output);
                        }
                    }
                }
            }
        }
        made.into_iter().filter(|t| !wanted.contains(t)).for_each(|t| self.drop_tensor(t));
    }

    fn drop_tensor(&mut self, tensor: TensorId) {
        if self.chain.droppable[tensor.index()] && self.there[tensor.index()] {
            self.there[tensor.index()] = false;
            if !self.on_host[tensor.index()] {
                self.steps.push(Step::Drop(tensor));
            }
        }
    }
}
