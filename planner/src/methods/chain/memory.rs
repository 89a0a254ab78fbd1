//! What a chain's stages cost, in the terms of Beaumont et al. (see `rotor`).

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use schema::{Phase, TensorId};

use super::Chain;
use crate::Problem;

/// Times and sizes of a chain's stages; stage `l` of the paper is stage `l - 1` here. What stays
/// for good, as parameters and their gradients do, is no part of them.
#[derive(Debug, Clone, Default)]
pub(in crate::methods) struct Costs {
    /// `u_f`: time of each stage's forward, in nanoseconds.
    pub forward: Vec<u64>,
    /// `u_b`: time of each stage's backward, in nanoseconds.
    pub backward: Vec<u64>,
    /// `w_a`: bytes of each stage's output; of the last, none.
    pub output: Vec<u64>,
    /// `w_abar`: bytes of all that a stage's backward needs of it, its output included.
    pub all: Vec<u64>,
    /// `w_delta`: bytes of gradients on the device when a stage's backward begins.
    pub gradient: Vec<u64>,
    /// `w_a + o_f`: the peak beyond its input while a stage runs forward and only the output stays.
    pub forward_peak: Vec<u64>,
    /// `w_abar + o_f`: the same where all stays.
    pub forward_all_peak: Vec<u64>,
    /// `w_delta + w_abar + o_b`: the peak beyond its input while a stage runs backward. Read off
    /// the trace op by op, it may be less than that sum: what is used for the last time goes.
    pub backward_peak: Vec<u64>,
}

impl Costs {
    /// The costs of a chain.
    pub fn of(problem: &Problem, chain: &Chain) -> Self {
        let ops = &problem.trace.ops;
        let bytes = |t: &TensorId| problem.trace.tensors[t.index()].bytes.0;
        let sum = |tensors: &[TensorId]| tensors.iter().map(bytes).sum::<u64>();
        let time = |range: &Range<usize>| ops[range.clone()].iter().map(|op| op.duration.0).sum();
        let counts = |t: &TensorId| chain.droppable[t.index()];
        let end = chain.stages[0].backward.end;
        let mut costs = Self::default();
        for stage in &chain.stages {
            let output: Vec<TensorId> = stage.output.into_iter().filter(counts).collect();
            let mut all: Vec<TensorId> = stage.saved.iter().copied().filter(counts).collect();
            all.extend(output.iter().filter(|t| !stage.saved.contains(t)));
            let gradients = gradients_at(problem, stage.backward.start, end);
            let last_use = |t: &TensorId| problem.model.last_use(*t).map(|op| op.index());
            let begin = stage.backward.start;
            let needed = all.iter().copied().filter(|t| last_use(t).is_some_and(|op| op >= begin));
            let there: Vec<TensorId> = gradients.iter().copied().chain(needed).collect();
            let goes_on =
                |t: &TensorId| last_use(t).is_some_and(|op| op >= stage.backward.end && op < end);
            let passes = |t: &TensorId| last_use(t).is_some_and(|op| op < end);
            costs.forward.push(time(&stage.forward));
            costs.backward.push(time(&stage.backward));
            costs.output.push(sum(&output));
            costs.all.push(sum(&all));
            costs.gradient.push(sum(&gradients));
            let forward = |stays: &[TensorId]| {
                let stays: HashSet<TensorId> = stays.iter().copied().collect();
                peak(problem, &stage.forward, &[], counts, |t| stays.contains(t))
            };
            costs.forward_peak.push(forward(&output));
            costs.forward_all_peak.push(forward(&all));
            costs.backward_peak.push(peak(problem, &stage.backward, &there, passes, goes_on));
        }
        costs
    }

    /// Bytes with which no stage need run forward twice.
    pub fn to_keep_all(&self) -> u64 {
        let peaks = (0..self.len()).map(|s| {
            let forward = self.gradient[s] + self.forward_all_peak[s];
            forward.max(self.backward_peak[s])
        });
        self.all.iter().sum::<u64>() + peaks.max().unwrap_or(0)
    }

    /// How many stages there are.
    pub fn len(&self) -> usize {
        self.forward.len()
    }
}

/// Largest sum of what is there before a range of ops, what they make and their workspace: each
/// tensor until its last use in the range or, if it stays, until the end.
fn peak(
    problem: &Problem,
    range: &Range<usize>,
    there: &[TensorId],
    counts: impl Fn(&TensorId) -> bool,
    stays: impl Fn(&TensorId) -> bool,
) -> u64 {
    let ops = &problem.trace.ops[range.clone()];
    let bytes = |t: &TensorId| problem.trace.tensors[t.index()].bytes.0;
    let mut last_use = HashMap::new();
    for (index, op) in ops.iter().enumerate() {
        op.reads.iter().chain(&op.writes).for_each(|t| {
            last_use.insert(*t, index);
        });
    }
    // By op, what dies with it.
    let mut dies = vec![0; ops.len()];
    let made = ops.iter().flat_map(|op| &op.writes).filter(|t| counts(t));
    for tensor in there.iter().chain(made).filter(|t| !stays(t)) {
        if let Some(last) = last_use.get(tensor) {
            dies[*last] += bytes(tensor);
        }
    }
    let mut sum: u64 = there.iter().map(bytes).sum();
    let mut peak = sum;
    for (op, dies) in ops.iter().zip(dies) {
        sum += op.writes.iter().filter(|t| counts(t)).map(bytes).sum::<u64>();
        peak = peak.max(sum + op.workspace.0);
        sum -= dies;
    }
    peak
}

/// What the backward phase made before one of its ops and it or later ones use; not what goes on
/// to the update or beyond, such as the gradients of parameters.
fn gradients_at(problem: &Problem, begin: usize, end: usize) -> Vec<TensorId> {
    let ops = problem.trace.ops[..begin].iter().filter(|op| op.phase == Phase::Backward);
    let made = ops.flat_map(|op| op.writes.iter().copied());
    let crosses = |t: &TensorId| {
        let last = problem.model.last_use(*t).map(|op| op.index());
        last.is_some_and(|last| last >= begin && last < end)
    };
    made.filter(crosses).collect()
}
