//! What a method decided about the rest, together with the tensors that have their homes on the host.

use schema::{Bytes, Nanos, OpId, TensorId};
use simulator::{Infeasible, Materialised, Profile, Record, Step, Work};

use crate::fit::share;
use crate::{Decided, Problem};

/// Which tensors that have their homes on the host stay from one use to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stays {
    /// Those for which there is room, as many as make it fastest.
    Some,
    /// All, or none.
    All(bool),
}

/// Shares of the memory, in thousandths, that may be full where a tensor stays for its next use; what is
/// left is for copies that come in early.
pub(super) const FULL: [u64; 6] = [1000, 970, 920, 850, 700, 0];

/// The one to tell ways from each other by.
pub(super) const TELLING: [u64; 1] = [920];

/// The ways to carry out what was decided about the rest, each with the time that it takes. A tensor that has its home
/// on the host leaves after each use, unless it stays for the next: those first whose next use is soonest,
/// as long as there is room.
///
/// # Errors
/// If none fits, or something is compressed.
pub(super) fn with_homes(
    rest: &Problem,
    decided: &Decided,
    moving: &Problem,
    stays: Stays,
    full: &[u64],
) -> Result<Vec<(Nanos, Decided)>, Infeasible> {
    let steps = match &decided.steps {
        Some(steps) => steps.clone(),
        None => {
            let mut evaluator = rest.evaluator(decided.policy, Bytes(1 << 60));
            steps_of(rest, &evaluator.record(&decided.treatments)?)
        }
    };
    let steps = for_updates_there(moving, steps);
    let visits = Visits::of(moving, &steps);
    if let Stays::All(stay) = stays {
        let steps = visits.steps(moving, &steps, &vec![stay; visits.stays.len()]);
        return Ok(vec![(Nanos::ZERO, carried_out(moving, decided, steps))]);
    }
    let everywhere = visits.steps(moving, &steps, &vec![false; visits.stays.len()]);
    let mut unlimited = moving.evaluator(decided.policy, Bytes(1 << 60));
    let record = unlimited.record_steps(&everywhere)?;
    let load = load(moving, &record);
    let mut evaluator = moving.evaluator(decided.policy, moving.budget);
    let (mut found, mut failure): (Vec<(Nanos, _)>, _) = (Vec::new(), None);
    for full in full {
        let kept = visits.kept(moving, &load, share(moving.budget, *full));
        let steps = visits.steps(moving, &steps, &kept);
        match evaluator.evaluate_steps(&steps) {
            Ok(_) if found.iter().any(|(_, other)| *other == steps) => {}
            Ok(outcome) => found.push((outcome.iteration, steps)),
            Err(cause) => failure = failure.or(Some(cause)),
        }
    }
    match (found.is_empty(), failure) {
        (true, Some(cause)) => Err(cause),
        _ => Ok(found.into_iter().map(|(t, s)| (t, carried_out(moving, decided, s))).collect()),
    }
}

pub(super) fn carried_out(moving: &Problem, decided: &Decided, steps: Vec<Step>) -> Decided {
    let way = Decided::from_steps(moving, steps, decided.policy);
    Decided { from: decided.from, ..way }
}

/// The steps in which what an update on the host reads leaves for there as soon as the device is done
/// with it: to the rest, which has no such updates, it was of no more use then.
fn for_updates_there(moving: &Problem, steps: Vec<Step>) -> Vec<Step> {
    let Problem { trace, model, .. } = moving;
    let mut read_there = vec![0; trace.tensors.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        if model.runs_there(OpId::from_index(index)) {
            op.reads.iter().for_each(|id| read_there[id.index()] = index);
        }
    }
    // Ops of the device come before all updates there.
    let waits = |id: TensorId, due: usize| {
        let read = read_there[id.index()];
        model.producer(id).is_some() && read > 0 && due <= read
    };
    let mut last_use = vec![None; trace.tensors.len()];
    let mut all = Vec::with_capacity(steps.len());
    let mut due = 0;
    for (at, step) in steps.into_iter().enumerate() {
        let used = match step {
            Step::Run(op) => {
                due = op.index() + 1;
                let of = &trace.ops[op.index()];
                if model.runs_there(op) { [&[][..], &[]] } else { [&of.reads[..], &of.writes] }
            }
            Step::Again(op) => {
                let of = &trace.ops[op.index()];
                [of.reads_again(), of.writes_again()]
            }
            _ => [&[][..], &[]],
        };
        for id in used.into_iter().flatten().filter(|id| waits(**id, due)) {
            last_use[id.index()] = Some(at);
        }
        all.push(match step {
            Step::Drop(id) if waits(id, due) => Step::SwapOut(id),
            step => step,
        });
        if let Some(Step::SwapOut(id)) = all.last() {
            last_use[id.index()] = None;
        }
    }
    // What the steps leave to be given back after its last use.
    let mut leaves: Vec<Vec<Step>> = vec![Vec::new(); all.len()];
    for (index, at) in last_use.into_iter().enumerate() {
        if let Some(at) = at {
            leaves[at].push(Step::SwapOut(TensorId::from_index(index)));
        }
    }
    let steps = all.into_iter().zip(leaves);
    steps.flat_map(|(step, leaves)| std::iter::once(step).chain(leaves)).collect()
}

/// A record as explicit steps, which need no codecs.
fn steps_of(problem: &Problem, record: &Record) -> Vec<Step> {
    let end = record.positions.len() as u32 - 1;
    let mut by_tensor: Vec<Vec<usize>> = vec![Vec::new(); problem.trace.tensors.len()];
    let mut order: Vec<usize> = (0..record.residencies.len()).collect();
    order.sort_by_key(|i| (record.residencies[*i].first, record.residencies[*i].last));
    for index in order {
        by_tensor[record.residencies[index].tensor as usize].push(index);
    }
    let mut leaves: Vec<Vec<Step>> = vec![Vec::new(); end as usize];
    for of in &by_tensor {
        // What was made while it was there is thrown away by itself.
        let mut lasting: Vec<usize> = Vec::new();
        for index in of {
            let here = &record.residencies[*index];
            let is_there = |i: &usize| record.residencies[*i].last > here.first;
            if !lasting.last().is_some_and(is_there) {
                lasting.push(*index);
            }
        }
        for (place, index) in lasting.iter().enumerate() {
            let here = record.residencies[*index];
            let id = TensorId(here.tensor);
            if here.last == end {
                continue;
            }
            let next = lasting.get(place + 1).map(|next| record.residencies[*next].origin);
            let leaves = &mut leaves[here.last as usize];
            match next {
                Some(Materialised::CopiedIn(_)) => leaves.push(Step::SwapOut(id)),
                _ if problem.model.producer(id).is_none() => {}
                _ => leaves.push(Step::Drop(id)),
            }
        }
    }
    let mut steps = Vec::new();
    for (position, leaves) in record.positions[..end as usize].iter().zip(leaves) {
        let op = schema::OpId(position.op);
        match position.work {
            Work::Run => steps.push(Step::Run(op)),
            Work::Again => steps.push(Step::Again(op)),
            Work::Compress(_) | Work::Decompress(_) => {}
        }
        steps.extend(leaves);
    }
    steps
}

/// The load at each run of a record, in bytes.
pub(super) fn load(problem: &Problem, record: &Record) -> Vec<u64> {
    let mut changes = vec![0i64; record.positions.len() + 1];
    for residency in &record.residencies {
        let bytes = problem.trace.tensors[residency.tensor as usize].bytes.0 as i64;
        changes[residency.first as usize] += bytes;
        changes[residency.last as usize + 1] -= bytes;
    }
    let mut load = 0;
    let at = |(position, run): (usize, &simulator::Position)| {
        load += changes[position];
        let op = problem.trace.ops.get(run.op as usize);
        load as u64 + op.map_or(0, |op| op.workspace.0)
    };
    record.positions.iter().enumerate().map(at).collect()
}

/// The uses of the tensors that move, by the runs of a schedule.
struct Visits {
    /// By run: the tensors that leave after it, each with the stay until its next use if there is one.
    leaves: Vec<Vec<(TensorId, Option<usize>)>>,
    /// Stays from one use to the next: the tensor, the run that uses it and the next that does.
    stays: Vec<(TensorId, usize, usize)>,
}

impl Visits {
    fn of(moving: &Problem, steps: &[Step]) -> Self {
        let (mut leaves, mut stays): (Vec<Vec<_>>, _) = (Vec::new(), Vec::new());
        let mut last: Vec<Option<usize>> = vec![None; moving.trace.tensors.len()];
        for step in steps {
            let reads = match *step {
                Step::Run(op) if moving.model.runs_there(op) => continue,
                Step::Run(op) => &moving.trace.ops[op.index()].reads[..],
                Step::Again(op) => moving.trace.ops[op.index()].reads_again(),
                _ => continue,
            };
            let run = leaves.len();
            leaves.push(Vec::new());
            for id in reads.iter().filter(|id| moving.model.is_at_home(**id)) {
                if let Some(before) = last[id.index()].replace(run) {
                    leaves[before].push((*id, Some(stays.len())));
                    stays.push((*id, before, run));
                }
            }
        }
        for (index, run) in last.iter().enumerate() {
            if let Some(run) = run {
                leaves[*run].push((TensorId::from_index(index), None));
            }
        }
        Self { leaves, stays }
    }

    /// Which stays there is room for, the shortest first.
    fn kept(&self, moving: &Problem, load: &[u64], full: Bytes) -> Vec<bool> {
        let mut profile = Profile::default();
        profile.reset(load);
        let mut order: Vec<usize> = (0..self.stays.len()).collect();
        order.sort_by_key(|stay| {
            let (_, from, to) = self.stays[*stay];
            (to - from, from, *stay)
        });
        let mut kept = vec![false; self.stays.len()];
        for stay in order {
            let (id, from, to) = self.stays[stay];
            let bytes = moving.trace.tensors[id.index()].bytes.0;
            let Some(room) = full.0.checked_sub(bytes) else { continue };
            let room = room.min(i64::MAX as u64) as i64;
            if profile.last_above(from + 1..to, room).is_none() {
                profile.add(from + 1..to, bytes as i64);
                kept[stay] = true;
            }
        }
        kept
    }

    /// The schedule, in which a tensor leaves after each use from which it does not stay.
    fn steps(&self, moving: &Problem, steps: &[Step], kept: &[bool]) -> Vec<Step> {
        let mut all = Vec::with_capacity(steps.len() + self.stays.len());
        let mut run = 0;
        for step in steps {
            all.push(*step);
            match *step {
                Step::Run(op) if !moving.model.runs_there(op) => {}
                Step::Again(_) => {}
                _ => continue,
            }
            let leaves = self.leaves[run].iter().filter(|(_, stay)| !stay.is_some_and(|s| kept[s]));
            all.extend(leaves.map(|(id, _)| Step::SwapOut(*id)));
            run += 1;
        }
        all
    }
}
