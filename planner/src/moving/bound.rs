//! A time that no plan can beat, wherever what outlives the iteration begins and ends it.
//!
//! Cut the ops into stretches. When the first op of a stretch starts, what is on the device is no more
//! than the budget, what is on its way in and what that op writes and works in included. So of the
//! tensors that its ops read and that were there before, all but so many bytes come back while it runs: by a
//! copy in that begins then, or, of what an op makes, by running that op again. What that op reads has
//! to come from somewhere, too: a tensor that nothing else wants is shared out among the ops that might read
//! it again, so that a rerun brings back what it makes less its share of what it reads. What is
//! not run again was on the device or the host when the stretch began, beside all that no op makes, and the
//! host has its limit. And of the constants that a stretch changes, all but so many bytes
//! leave by a copy.
//!
//! The copies run one after the other on their lanes, reruns and ops on compute; so a stretch takes at least
//! the time in which lanes and reruns bring back enough, fractions of a rerun allowed, as well as that of
//! the copies out. Stretches run one after the other. Any way to cut gives a bound; the best is found among
//! some places.
//!
//! An update that the host's processor may run takes none of that time on the device, and reads and changes
//! nothing there: whether a plan has it there is not asked.
//!
//! Where tensors may be compressed, fewer bytes than theirs may be on the way, and only ops count.

use schema::{Bytes, Nanos, OpId, TensorId};

use crate::bound::{Runs, fastest, time_again};
use crate::cut::needed_at_least;
use crate::{Bound, Problem};

/// Stretches begin and end at so many places at most, and where another phase begins.
const PLACES: usize = 48;

/// What no plan beats that may have on the host, between iterations, what outlives them and no op makes.
pub fn bound(problem: &Problem) -> Bound {
    let (needed, op) = needed_at_least(problem, true);
    if needed > problem.budget {
        return Bound::Infeasible { needed, op };
    }
    let trace = problem.trace;
    let tensors = || (0..trace.tensors.len()).map(TensorId::from_index);
    let outlives = tensors().filter(|id| problem.model.last_use(*id).is_none());
    let all: Bytes = outlives.map(|id| trace.tensors[id.index()].bytes).sum();
    let needed = all.saturating_sub(problem.host_budget);
    if needed > problem.budget {
        let op = OpId::from_index(trace.ops.len().saturating_sub(1));
        return Bound::Infeasible { needed, op };
    }
    let ops = (0..trace.ops.len()).map(OpId::from_index);
    let here = ops.filter(|op| problem.update_time_there(*op).is_none());
    let total = here.map(|op| trace.ops[op.index()].device_time().0).sum::<u64>();
    if problem.allowed.compress || !problem.allowed.swap {
        return Bound::Time(Nanos(total));
    }
    Bound::Time(Nanos(stretches(problem).max(total).max(trace.net_time().0)))
}

/// The least time of the best stretches.
fn stretches(problem: &Problem) -> u64 {
    let trace = problem.trace;
    let ops = trace.ops.len();
    let every = ops.div_ceil(PLACES).max(1);
    let is_place = |op: &usize| {
        let turns = *op > 0 && *op < ops && trace.ops[*op].phase != trace.ops[*op - 1].phase;
        op.is_multiple_of(every) || *op == ops || turns
    };
    let places: Vec<usize> = (0..=ops).filter(is_place).collect();
    let mut least = vec![0u64; places.len()];
    for (from, begin) in places.iter().enumerate().take(places.len() - 1) {
        let mut stretch = Stretch::new(problem, *begin);
        let mut to = from + 1;
        for op in *begin..ops {
            stretch.add(op);
            if places.get(to) == Some(&(op + 1)) {
                let beyond = least[to].saturating_sub(least[from]);
                least[to] = least[to].max(least[from] + stretch.least_time(beyond));
                to += 1;
            }
        }
    }
    least.last().copied().unwrap_or(0)
}

/// Ops in a row, and what they want.
struct Stretch<'a> {
    problem: &'a Problem<'a>,
    begin: usize,
    /// What of the budget the first op leaves for what it does not make.
    room: u64,
    time: u64,
    read: Vec<bool>,
    changed: Vec<bool>,
    /// Bytes and number of the tensors that are read and were there before, and of those that change.
    wanted: (u64, u64),
    leaving: (u64, u64),
    /// Bytes of what has to be somewhere when it begins, or to be made again: constants, and what is read.
    there: u64,
}

impl<'a> Stretch<'a> {
    fn new(problem: &'a Problem<'a>, begin: usize) -> Self {
        let none = vec![false; problem.trace.tensors.len()];
        let bytes = |id: &TensorId| problem.trace.tensors[id.index()].bytes.0;
        let op = &problem.trace.ops[begin];
        let over = op.in_place.iter().map(|pair| bytes(&pair.input).min(bytes(&pair.output)));
        let made = op.writes.iter().map(bytes).sum::<u64>().saturating_sub(over.sum());
        let is_constant = |id: &TensorId| problem.model.producer(*id).is_none();
        let tensors = (0..none.len()).map(TensorId::from_index);
        Self {
            problem,
            begin,
            room: problem.budget.0.saturating_sub(made + op.workspace.0),
            time: 0,
            read: none.clone(),
            changed: none,
            wanted: (0, 0),
            leaving: (0, 0),
            there: tensors.filter(is_constant).map(|id| bytes(&id)).sum(),
        }
    }

    fn add(&mut self, op: usize) {
        let Problem { trace, model, .. } = self.problem;
        if self.problem.update_time_there(OpId::from_index(op)).is_some() {
            return;
        }
        self.time += trace.ops[op].device_time().0;
        for id in &trace.ops[op].reads {
            let bytes = trace.tensors[id.index()].bytes.0;
            if self.was_there(*id) && !std::mem::replace(&mut self.read[id.index()], true) {
                self.wanted = (self.wanted.0 + bytes, self.wanted.1 + 1);
                self.there += if model.producer(*id).is_some() { bytes } else { 0 };
            }
            let changes = model.changes(OpId::from_index(op), *id);
            if changes && !std::mem::replace(&mut self.changed[id.index()], true) {
                self.leaving = (self.leaving.0 + bytes, self.leaving.1 + 1);
            }
        }
    }

    /// Whether a tensor is made before the stretch begins, or by no op.
    fn was_there(&self, id: TensorId) -> bool {
        self.problem.model.producer(id).is_none_or(|made| made.index() < self.begin)
    }

    /// What ops that ran before the stretch bring back when they run again in it.
    fn reruns(&self) -> Runs {
        let Problem { trace, model, .. } = self.problem;
        let bytes = |id: TensorId| trace.tensors[id.index()].bytes.0;
        // Of what only reruns read: how many of them do. An op is later than those that make what it reads.
        let mut readers = vec![0u64; trace.tensors.len()];
        let is_more = |id: TensorId| model.producer(id).is_some() && !self.read[id.index()];
        let mut again = Vec::new();
        for op in (0..self.begin).rev().map(OpId::from_index) {
            let of = &trace.ops[op.index()];
            let made = of.writes_again().iter().filter(|id| model.remade_by(**id) == Some(op));
            let made = made.filter(|id| self.read[id.index()] || readers[id.index()] > 0);
            let made: u64 = made.map(|id| bytes(*id)).sum();
            if made > 0 && self.problem.may_run_again(op) {
                again.push((op, made));
                of.reads_again().iter().for_each(|id| readers[id.index()] += 1);
            }
        }
        let less = |(op, made): (OpId, u64)| {
            let reads = trace.ops[op.index()].reads_again().iter().filter(|id| is_more(**id));
            let shares: u64 = reads.map(|id| bytes(*id) / readers[id.index()]).sum();
            (time_again(self.problem, op), made.saturating_sub(shares))
        };
        Runs::new(again.into_iter().map(less).filter(|(_, bytes)| *bytes > 0).collect())
    }

    /// The least time; or, where that is no longer than `beyond`, any time that is not.
    fn least_time(&self, beyond: u64) -> u64 {
        let link = &self.problem.machine.link;
        let budget = self.problem.budget.0;
        // A copy's time is rounded to the nearest nanosecond.
        let carried = |speed: f64, time: u64, copies: u64| {
            speed * (time as f64 * (1.0 + 1e-9) + copies as f64) / 1e9
        };
        let missing = self.wanted.0.saturating_sub(self.room) as f64;
        let back = |time: u64| carried(fastest(&link.h2d), time, self.wanted.1);
        let out = |time: u64| {
            carried(fastest(&link.d2h), time, self.leaving.1)
                >= self.leaving.0.saturating_sub(budget) as f64
        };
        let held = self.room.saturating_add(self.problem.host_budget.0);
        let nowhere = self.there.saturating_sub(held) as f64;
        // Without a rerun it takes no less.
        let alone = first(self.time, |time| back(time) >= missing && out(time));
        if nowhere == 0.0 && alone <= beyond.max(self.time) {
            return alone;
        }
        let reruns = self.reruns();
        // Where nothing suffices there is no plan, which is for others to say.
        let nowhere = nowhere.min(reruns.brought_back(1 << 60));
        first(self.time, |time| {
            let again = reruns.brought_back(time - self.time);
            back(time) + again >= missing && again >= nowhere && out(time)
        })
    }
}

/// The first time from a time on at which something holds, as it does from then on.
fn first(from: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(from) {
        return from;
    }
    let (mut too_little, mut enough) = (from, from.saturating_add(Nanos::MOST.0));
    while enough - too_little > 1 {
        let middle = too_little + (enough - too_little) / 2;
        if holds(middle) { enough = middle } else { too_little = middle }
    }
    enough
}
