//! The problem that is left when some tensors have their homes on the host.

use schema::{
    Bandwidth, Bytes, BytesPerSec, Direction, Machine, Nanos, Op, OpId, Phase, TensorId, Trace,
};

use crate::Problem;

/// Of the room that an op leaves, the part that is set aside for what comes in for the next op and what
/// an earlier one sends out, in quarters.
const AHEAD: u64 = 3;

/// The least share of its speed that the link is left with, in thousandths.
const LEAST: u64 = 50;

/// A trace without some tensors: they weigh nothing in it, and ops that read them work in as much more
/// memory, together with the room that copies need to run beside them.
pub(super) struct Rest {
    pub trace: Trace,
    /// Time that the tensors' ways in take before the updates, and the time of the ops there.
    coming_in: (Nanos, Nanos),
}

impl Rest {
    /// The rest of a problem whose model says which updates the host's processor runs: they take no time
    /// and no memory, and what they read has left.
    pub fn new(problem: &Problem, homes: &[TensorId]) -> Self {
        let mut trace = problem.trace.clone();
        let is_there = |index: usize| problem.model.runs_there(OpId::from_index(index));
        for (_, op) in trace.ops.iter_mut().enumerate().filter(|(index, _)| is_there(*index)) {
            op.reads.clear();
            op.mutates = None;
            op.workspace = Bytes::ZERO;
            op.duration = Nanos::ZERO;
        }
        let mut moves = vec![false; trace.tensors.len()];
        homes.iter().for_each(|id| moves[id.index()] = true);
        for id in homes {
            trace.tensors[id.index()].bytes = Bytes::ZERO;
        }
        let bytes = |id: &TensorId| problem.trace.tensors[id.index()].bytes.0;
        let ops = trace.ops.clone();
        let read = |op: &Op| -> Vec<TensorId> {
            op.reads.iter().copied().filter(|id| moves[id.index()]).collect()
        };
        let beside = |of: &[TensorId], here: &[TensorId]| -> u64 {
            of.iter().filter(|id| !here.contains(id)).map(bytes).sum()
        };
        let stay: u64 = (0..trace.tensors.len())
            .map(TensorId::from_index)
            .filter(|id| problem.model.producer(*id).is_none() && !moves[id.index()])
            .map(|id| bytes(&id))
            .sum();
        let all: Vec<Vec<TensorId>> = ops.iter().map(read).collect();
        let next = next_of(&all, true);
        let previous = next_of(&all, false);
        // Updates at the end have the link to themselves, but for what they read.
        let others = ops.iter().rposition(|op| op.phase != Phase::Update);
        let last_other = others.unwrap_or(0);
        let mut coming_in = (Nanos::ZERO, Nanos::ZERO);
        let mut last: &[TensorId] = &[];
        for (index, op) in ops.iter().enumerate() {
            let here = &all[index];
            let own: u64 = here.iter().map(bytes).sum();
            let ahead = next[index].map_or(0, |next| beside(&all[next], here));
            let behind = previous[index].map_or(0, |previous| {
                let changes =
                    |id: &TensorId| problem.model.changes(OpId::from_index(previous), *id);
                let changed: Vec<TensorId> =
                    all[previous].iter().copied().filter(changes).collect();
                beside(&changed, here)
            });
            let room = problem.budget.0.saturating_sub(used(problem, op, &moves) + stay + own);
            let aside = (ahead + behind).min(room / 4 * AHEAD);
            trace.ops[index].workspace += Bytes(own + aside);
            if op.phase != Phase::Update || index < last_other {
                let link = &problem.machine.link;
                let time = link.copy_time(Direction::H2d, Bytes(beside(here, last)));
                coming_in = (coming_in.0 + time, coming_in.1 + op.duration);
            }
            if !here.is_empty() {
                last = here;
            }
        }
        // What reads what an update there changes cannot run again after it.
        let lasts = |id: &TensorId| problem.model.producer(*id).is_none();
        for (index, op) in trace.ops.iter_mut().enumerate().filter(|(index, _)| is_there(*index)) {
            let update = &problem.trace.ops[index];
            op.reads = update.reads.iter().copied().filter(lasts).collect();
            op.mutates.clone_from(&update.mutates);
            op.mutates.iter_mut().for_each(|changed| changed.retain(lasts));
        }
        Self { trace, coming_in }
    }

    /// The most that some op, or the end of the iteration, has on the device at once, and which: the last op where it
    /// is the end.
    pub fn needed(&self) -> (Bytes, OpId) {
        let made: std::collections::HashSet<TensorId> =
            self.trace.ops.iter().flat_map(|op| op.writes.iter().copied()).collect();
        let freed: std::collections::HashSet<TensorId> =
            self.trace.ops.iter().flat_map(|op| op.frees.iter().copied()).collect();
        let bytes = |id: &TensorId| self.trace.tensors[id.index()].bytes.0;
        let tensors = || (0..self.trace.tensors.len()).map(TensorId::from_index);
        let stay: u64 = tensors().filter(|id| !made.contains(id)).map(|id| bytes(&id)).sum();
        let left = tensors().filter(|id| made.contains(id) && !freed.contains(id));
        let end = stay + left.map(|id| bytes(&id)).sum::<u64>();
        let during = |op: &Op| {
            let used = op.reads.iter().chain(&op.writes).filter(|id| made.contains(id));
            let shared = |pair: &schema::InPlace| bytes(&pair.input).min(bytes(&pair.output));
            let shared: u64 = op.in_place.iter().map(shared).sum();
            stay + used.map(bytes).sum::<u64>() + op.workspace.0 - shared
        };
        let ops = self.trace.ops.iter().enumerate().map(|(index, op)| {
            let is_last = index + 1 == self.trace.ops.len();
            let needed = during(op).max(if is_last { end } else { 0 });
            (Bytes(needed), OpId::from_index(index))
        });
        ops.max().unwrap_or((Bytes::ZERO, OpId(0)))
    }

    /// The machine, whose link brings in no more than what is left of it before the updates. Where they
    /// run, what the method copies in is already there or waits with all else.
    pub fn machine(&self, problem: &Problem) -> Machine {
        let (taken, time) = self.coming_in;
        let taken = u128::from(taken.0) * 1000 / u128::from(time.0.max(1));
        let left = 1000u64.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX)).max(LEAST);
        let mut machine = problem.machine.clone();
        machine.link.h2d = slowed(&machine.link.h2d, left);
        machine
    }
}

/// For each op the next one that reads something, or the one before.
fn next_of(all: &[Vec<TensorId>], forward: bool) -> Vec<Option<usize>> {
    let (mut of, mut known) = (vec![None; all.len()], None);
    for step in 0..all.len() {
        let op = if forward { all.len() - 1 - step } else { step };
        of[op] = known;
        if !all[op].is_empty() {
            known = Some(op);
        }
    }
    of
}

/// What an op has on the device beside tensors that move and constants.
fn used(problem: &Problem, op: &Op, moves: &[bool]) -> u64 {
    let bytes = |id: &TensorId| problem.trace.tensors[id.index()].bytes.0;
    let is_made = |id: &&TensorId| problem.model.producer(**id).is_some() && !moves[id.index()];
    let made: u64 = op.reads.iter().chain(&op.writes).filter(is_made).map(bytes).sum();
    made + op.workspace.0
}

fn slowed(bandwidth: &Bandwidth, permille: u64) -> Bandwidth {
    let mut slowed = bandwidth.clone();
    for point in &mut slowed.pinned {
        let speed = u128::from(point.bytes_per_sec.0) * u128::from(permille) / 1000;
        point.bytes_per_sec = BytesPerSec((speed as u64).max(1));
    }
    slowed
}
