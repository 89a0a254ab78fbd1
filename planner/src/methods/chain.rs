//! A trace as a chain of stages, as checkpointing schedules see it.
//!
//! The forward phase is cut wherever a single tensor is all that later forward ops read of what
//! earlier ones made. Small tensors that cross a cut do not prevent it; they stay.

mod memory;
mod schedule;

use std::ops::Range;

use schema::{Phase, TensorId};

use crate::recomputable::droppable;
use crate::{PlanError, Problem, Result};

pub(super) use memory::Costs;
pub(super) use schedule::{ChainOp, Keep, carry_out};

/// Tensors smaller than this share of the largest activation do not make a cut impossible.
const SMALL: u64 = 1000;

/// Chains with more stages are coarsened: programmes over chains take time with the cube of their
/// length, and their authors apply them to blocks of layers.
const MOST_STAGES: usize = 64;

/// A chain: stage i computes its output from that of stage i-1.
#[derive(Debug)]
pub(super) struct Chain {
    /// The stages, from the input on.
    pub stages: Vec<Stage>,
    /// What may be dropped: not what no op makes, what cannot be made again, and what goes on to
    /// more than the next stage.
    pub droppable: Vec<bool>,
}

#[derive(Debug, Clone)]
pub(super) struct Stage {
    /// Its forward ops.
    pub forward: Range<usize>,
    /// The ops of the backward phase that need its inner tensors or its input.
    pub backward: Range<usize>,
    /// What it reads of the stage before; none for the first.
    pub input: Option<TensorId>,
    /// What the next stage reads; none for the last.
    pub output: Option<TensorId>,
    /// What it makes and the backward phase reads.
    pub saved: Vec<TensorId>,
}

impl Chain {
    /// Finds the chain in a trace.
    ///
    /// # Errors
    ///
    /// If there are not at least two stages.
    pub fn of(problem: &Problem) -> Result<Self> {
        let trace = problem.trace;
        let is_backward = |op: &schema::Op| op.phase != Phase::Forward;
        let forward_end = trace.ops.iter().position(is_backward).unwrap_or(trace.ops.len());
        let (cuts, small) = cuts(problem, forward_end);
        let cuts = coarsen(problem, forward_end, cuts);
        if cuts.is_empty() || forward_end == trace.ops.len() {
            return Err(PlanError::NotApplicable {
                what: "a forward phase that is a chain of stages, and a backward phase",
            });
        }
        let mut droppable = droppable(problem);
        small.iter().for_each(|t| droppable[t.index()] = false);
        let mut begin = 0;
        let mut input = None;
        let mut stages = Vec::with_capacity(cuts.len() + 1);
        let ends = cuts.into_iter().map(|(end, t)| (end, Some(t))).chain([(forward_end, None)]);
        for (end, output) in ends {
            let saved = saved(problem, begin..end, forward_end);
            stages.push(Stage { forward: begin..end, backward: 0..0, input, output, saved });
            (begin, input) = (end, output);
        }
        share_backward_phase(problem, &mut stages, forward_end);
        Ok(Self { stages, droppable })
    }

    /// How many stages there are.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// What a stage's forward ops make.
    pub fn made<'a>(
        &self,
        problem: &'a Problem,
        stage: usize,
    ) -> impl Iterator<Item = TensorId> + 'a {
        let ops = &problem.trace.ops[self.stages[stage].forward.clone()];
        ops.iter().flat_map(|op| op.writes.iter().copied())
    }
}

/// Where the forward phase can be cut: after how many ops, and what crosses there. Also the small
/// tensors that cross cuts.
fn cuts(problem: &Problem, forward_end: usize) -> (Vec<(usize, TensorId)>, Vec<TensorId>) {
    let trace = problem.trace;
    let mut last_read = vec![0; trace.tensors.len()];
    for (index, op) in trace.ops[..forward_end].iter().enumerate() {
        op.reads.iter().for_each(|t| last_read[t.index()] = index);
    }
    let bytes = |t: &TensorId| trace.tensors[t.index()].bytes.0;
    let made = trace.ops[..forward_end].iter().flat_map(|op| &op.writes);
    let large = made.map(bytes).max().unwrap_or(0) / SMALL;
    let mut cuts: Vec<(usize, TensorId)> = Vec::new();
    let mut small = Vec::new();
    let mut crossing: Vec<TensorId> = Vec::new();
    for (index, op) in trace.ops[..forward_end].iter().enumerate() {
        crossing.extend(&op.writes);
        crossing.retain(|t| last_read[t.index()] > index);
        let mut wide = crossing.iter().filter(|t| bytes(t) > large);
        if let (Some(only), None) = (wide.next(), wide.next())
            && cuts.last().is_none_or(|(_, last)| last != only)
        {
            cuts.push((index + 1, *only));
            small.extend(crossing.iter().filter(|t| *t != only));
        }
    }
    (cuts, small)
}

/// Joins neighbouring stages, those first that together save the least, until there are few enough.
fn coarsen(
    problem: &Problem,
    forward_end: usize,
    mut cuts: Vec<(usize, TensorId)>,
) -> Vec<(usize, TensorId)> {
    let made = |ops: Range<usize>| -> u64 {
        let tensors = saved(problem, ops, forward_end);
        tensors.iter().map(|t| problem.trace.tensors[t.index()].bytes.0).sum()
    };
    let begin_of = |cuts: &[(usize, TensorId)], i: usize| if i == 0 { 0 } else { cuts[i - 1].0 };
    let mut sizes: Vec<u64> =
        (0..cuts.len()).map(|i| made(begin_of(&cuts, i)..cuts[i].0)).collect();
    sizes.push(made(begin_of(&cuts, cuts.len())..forward_end));
    while sizes.len() > MOST_STAGES {
        let joined = |i: &usize| (sizes[*i] + sizes[*i + 1], *i);
        let least = (0..cuts.len()).min_by_key(joined).expect("there are cuts");
        sizes[least] += sizes.remove(least + 1);
        cuts.remove(least);
    }
    cuts
}

/// What forward ops make and later phases read.
fn saved(problem: &Problem, ops: Range<usize>, forward_end: usize) -> Vec<TensorId> {
    let made = problem.trace.ops[ops].iter().flat_map(|op| op.writes.iter().copied());
    let read_later = |t: &TensorId| {
        let last = problem.model.last_use(*t);
        last.is_some_and(|op| op.index() >= forward_end)
    };
    made.filter(read_later).collect()
}

/// Gives each stage its ops of the backward phase, from the last stage on: up to the last that
/// reads what the stage made, but its output, or its input.
fn share_backward_phase(problem: &Problem, stages: &mut [Stage], forward_end: usize) {
    let ops = &problem.trace.ops;
    let mut last_backward = vec![0; problem.trace.tensors.len()];
    for (index, op) in ops.iter().enumerate().skip(forward_end) {
        if op.phase == Phase::Backward {
            op.reads.iter().for_each(|t| last_backward[t.index()] = index + 1);
        }
    }
    let mut begin = forward_end;
    for stage in stages.iter_mut().rev() {
        let inner = stage.saved.iter().filter(|t| Some(**t) != stage.output);
        let needed = inner.chain(&stage.input);
        let end = needed.map(|t| last_backward[t.index()]).max().unwrap_or(0).max(begin);
        stage.backward = begin..end;
        begin = end;
    }
    // What is left of the backward phase belongs to the first stage.
    let is_update = |op: &schema::Op| op.phase == Phase::Update;
    let end = ops[begin..].iter().position(is_update).map_or(ops.len(), |i| begin + i);
    stages[0].backward.end = end;
}
