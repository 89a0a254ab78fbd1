//! Sequences of runs as steps of an explicit schedule, and back.

use schema::{OpId, TensorId};
use simulator::Step;

use super::{LABEL_BITS, Rerun, SPACING, stage};
use crate::Problem;

/// The steps of a schedule with these reruns, in their order. Whatever is not read again before it
/// is made again is dropped.
pub(crate) fn steps_of(problem: &Problem, reruns: &[Rerun]) -> Vec<Step> {
    let ops = problem.trace.ops.len();
    let mut runs = Vec::with_capacity(ops + reruns.len());
    let mut next = reruns.iter().peekable();
    for op in 0..=ops {
        while let Some((_, again)) = next.next_if(|(key, _)| stage(*key) == op) {
            runs.push(Step::Again(OpId(*again)));
        }
        if op < ops {
            runs.push(Step::Run(OpId::from_index(op)));
        }
    }
    let stays = |tensor: usize| {
        let tensor = TensorId::from_index(tensor);
        problem.model.producer(tensor).is_none() || problem.model.last_use(tensor).is_none()
    };
    let mut is_needed: Vec<bool> = (0..problem.trace.tensors.len()).map(stays).collect();
    let mut steps = Vec::with_capacity(2 * runs.len());
    for run in runs.into_iter().rev() {
        let (Step::Run(op) | Step::Again(op)) = run else { continue };
        let op = &problem.trace.ops[op.index()];
        for tensor in op.reads.iter().chain(&op.writes) {
            if !std::mem::replace(&mut is_needed[tensor.index()], true) {
                steps.push(Step::Drop(*tensor));
            }
        }
        op.writes.iter().for_each(|tensor| is_needed[tensor.index()] = false);
        steps.push(run);
    }
    steps.reverse();
    steps
}

/// Reruns that are listed one after the other.
#[derive(Default)]
pub(crate) struct Reruns {
    pub all: Vec<Rerun>,
}

impl Reruns {
    /// One more rerun of an op before another, after all that were put there until now.
    pub fn push(&mut self, before: usize, op: u32) {
        let begin = (before as u64) << LABEL_BITS;
        let last = self.all.last().map_or(begin, |(key, _)| begin.max(*key));
        self.all.push((last + SPACING, op));
    }
}

/// The reruns of an explicit schedule.
pub(crate) fn reruns_of(steps: &[Step]) -> Vec<Rerun> {
    let (mut reruns, mut due) = (Reruns::default(), 0);
    for step in steps {
        match step {
            Step::Run(_) => due += 1,
            Step::Again(op) => reruns.push(due, op.0),
            Step::Drop(_) | Step::SwapOut(_) => {}
        }
    }
    reruns.all
}
