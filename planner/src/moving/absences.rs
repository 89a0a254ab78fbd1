//! What leaves and comes back in a list of steps, what stays, and the steps without some of that.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use schema::{Direction, OpId, TensorId};
use simulator::{Record, Step};

use crate::Problem;
use crate::bound::time_again;

/// What stays for no more runs than these has no time to leave and come back.
const SHORT: usize = 8;

/// A tensor that leaves and comes back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absence {
    pub tensor: TensorId,
    pub bytes: u64,
    /// The step with which it leaves.
    pub leaves: usize,
    /// The last run before that uses it, and the first after.
    pub runs: (usize, usize),
    /// What brings it back: a run, if not a copy.
    pub again: Option<OpId>,
    /// What its copies take, in nanoseconds, and the reruns that are for nothing else.
    pub copied: u64,
    pub rerun: u64,
}

/// What becomes of a tensor in place of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instead {
    Stays,
    Copied,
}

/// What stays between two runs that use it and that some op makes, what stays longest first: for so many runs, after
/// such a step.
pub(super) fn stays(moving: &Problem, steps: &[Step]) -> Vec<(Reverse<usize>, usize, TensorId)> {
    let Problem { trace, model, .. } = moving;
    let mut last: Vec<Option<(usize, usize)>> = vec![None; trace.tensors.len()];
    let mut all = Vec::new();
    let mut run = 0;
    for (at, step) in steps.iter().enumerate() {
        let (reads, writes) = match *step {
            Step::Run(op) if model.runs_there(op) => continue,
            Step::Run(op) => (&trace.ops[op.index()].reads[..], &trace.ops[op.index()].writes[..]),
            Step::Again(op) => {
                let of = &trace.ops[op.index()];
                (of.reads_again(), of.writes_again())
            }
            Step::Drop(id) | Step::SwapOut(id) => {
                last[id.index()] = None;
                continue;
            }
            Step::Compress { .. } => continue,
        };
        for id in reads {
            if let Some((before, after)) = last[id.index()].replace((run, at))
                && run - before > SHORT
                && model.producer(*id).is_some()
                && !model.is_held(*id)
            {
                all.push((Reverse(run - before), after, *id));
            }
        }
        writes.iter().for_each(|id| last[id.index()] = Some((run, at)));
        run += 1;
    }
    all.sort_unstable();
    all
}

/// The time of all reruns.
pub(super) fn spent(moving: &Problem, steps: &[Step]) -> u64 {
    let again = steps.iter().filter_map(|step| match *step {
        Step::Again(op) => Some(time_again(moving, op)),
        _ => None,
    });
    again.sum()
}

/// All that leaves and comes back, in the order in which it does.
pub(super) fn absences(moving: &Problem, steps: &[Step], record: &Record) -> Vec<Absence> {
    let Problem { trace, model, machine, .. } = moving;
    let out: BTreeSet<(TensorId, u32)> = (record.outs.iter())
        .filter(|out| out.home.is_none_or(|home| !home.at_start))
        .map(|out| (out.tensor, out.position))
        .collect();
    // By tensor: the step with which it left, its last run before, and whether it is on the host.
    let mut left: Vec<Option<(usize, usize, bool)>> = vec![None; trace.tensors.len()];
    let mut last_use = vec![0; trace.tensors.len()];
    let mut all = Vec::new();
    let mut run = 0;
    for (at, step) in steps.iter().enumerate() {
        let (reads, writes, again) = match *step {
            Step::Run(op) if model.runs_there(op) => {
                // That is what it has left for.
                let reads = &trace.ops[op.index()].reads;
                reads.iter().for_each(|id| left[id.index()] = None);
                continue;
            }
            Step::Run(op) => {
                let of = &trace.ops[op.index()];
                (&of.reads[..], &of.writes[..], None)
            }
            Step::Again(op) => {
                let of = &trace.ops[op.index()];
                (of.reads_again(), of.writes_again(), Some(op))
            }
            Step::Drop(id) | Step::SwapOut(id) => {
                let on_host = matches!(step, Step::SwapOut(_));
                left[id.index()] = Some((at, last_use[id.index()], on_host));
                continue;
            }
            Step::Compress { .. } => continue,
        };
        let mut back = |id: TensorId, again: Option<OpId>| {
            // What is on the host is copied, whatever runs again.
            let is_back = |of: &mut (usize, usize, bool)| !of.2 || again.is_none();
            let Some((leaves, last, on_host)) = left[id.index()].take_if(is_back) else { return };
            let bytes = trace.tensors[id.index()].bytes;
            let copy = |way| machine.link.copy_time(way, bytes).0;
            let is_free = !on_host || !out.contains(&(id, last as u32));
            let copied = copy(Direction::H2d) + if is_free { 0 } else { copy(Direction::D2h) };
            let runs = (last, run);
            all.push(Absence { tensor: id, bytes: bytes.0, leaves, runs, again, copied, rerun: 0 });
        };
        reads.iter().for_each(|id| back(*id, None));
        writes.iter().for_each(|id| back(*id, again));
        reads.iter().chain(writes).for_each(|id| last_use[id.index()] = run);
        run += 1;
    }
    all.retain(|of| !model.is_held(of.tensor));
    all
}

/// The steps in which some tensors, which leave with these, stay or are copied instead, without the reruns that nothing
/// needs then.
pub(super) fn without(
    moving: &Problem,
    steps: &[Step],
    leave: &BTreeSet<usize>,
    instead: Instead,
) -> Vec<Step> {
    let ops = &moving.trace.ops;
    let steps = steps.iter().enumerate().filter_map(|(at, step)| {
        match (leave.contains(&at), instead, *step) {
            (false, ..) => Some(*step),
            (true, Instead::Copied, Step::Drop(id)) => Some(Step::SwapOut(id)),
            (true, ..) => None,
        }
    });
    let steps: Vec<Step> = steps.collect();
    // By tensor: whether it is neither on the device nor on the host; by step: what a rerun makes of that.
    let mut gone = vec![false; moving.trace.tensors.len()];
    let mut made: Vec<TensorId> = Vec::new();
    let mut makes: Vec<std::ops::Range<usize>> = Vec::with_capacity(steps.len());
    for step in &steps {
        let from = made.len();
        match *step {
            Step::Again(op) => {
                let writes = ops[op.index()].writes_again().iter();
                made.extend(writes.filter(|id| std::mem::take(&mut gone[id.index()])));
            }
            Step::Drop(id) => gone[id.index()] = true,
            _ => {}
        }
        makes.push(from..made.len());
    }
    let mut wanted = vec![false; moving.trace.tensors.len()];
    let mut is_needed = vec![true; steps.len()];
    for (at, step) in steps.iter().enumerate().rev() {
        let (reads, writes) = match *step {
            Step::Run(op) => (&ops[op.index()].reads[..], &ops[op.index()].writes[..]),
            Step::Again(op) => (ops[op.index()].reads_again(), &made[makes[at].clone()]),
            _ => continue,
        };
        if matches!(step, Step::Again(_)) {
            is_needed[at] = writes.iter().any(|id| wanted[id.index()]);
        }
        if is_needed[at] {
            writes.iter().for_each(|id| wanted[id.index()] = false);
            reads.iter().for_each(|id| wanted[id.index()] = true);
        }
    }
    // Nothing leaves that is not there.
    let mut is_there = vec![true; moving.trace.tensors.len()];
    let mut all = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate().filter(|(at, _)| is_needed[*at]) {
        let (reads, writes) = match *step {
            Step::Run(op) if moving.model.runs_there(op) => (&[][..], &[][..]),
            Step::Run(op) => (&ops[op.index()].reads[..], &ops[op.index()].writes[..]),
            Step::Again(op) => (ops[op.index()].reads_again(), &made[makes[at].clone()]),
            Step::Drop(id) | Step::SwapOut(id) => {
                if std::mem::take(&mut is_there[id.index()]) {
                    all.push(*step);
                }
                continue;
            }
            Step::Compress { .. } => (&[][..], &[][..]),
        };
        reads.iter().chain(writes).for_each(|id| is_there[id.index()] = true);
        all.push(*step);
    }
    all
}
