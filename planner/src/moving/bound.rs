//! A time that no plan can beat, wherever what outlives the iteration begins and ends it.
//!
//! Cut the ops into stretches. What is on the device when a stretch begins is no more than the budget,
//! what is on its way in included. So of the tensors that its ops read and that were there before it, all
//! but so many bytes come back while it runs: by a copy in that begins then, or, of what an op makes, by
//! running that op again. And of the constants that it changes, all but so many bytes leave by a copy. The
//! copies run one after the other on their lanes, reruns and ops on compute; so a stretch takes at least
//! the time in which lanes and reruns bring back enough, fractions of a rerun allowed, as well as that of
//! the copies out. Stretches run one after the other. Any way to cut gives a bound; the best is found among
//! some places.
//!
//! Where tensors may be compressed, fewer bytes than theirs may be on the way, and only ops count.

use std::collections::BTreeMap;

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
    let total = trace.total_time().0;
    if problem.allowed.compress || !problem.allowed.swap {
        return Bound::Time(Nanos(total));
    }
    Bound::Time(Nanos(stretches(problem).max(total)))
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
    for (from, begin) in places.iter().enumerate() {
        let mut stretch = Stretch::new(problem, *begin);
        let mut to = from + 1;
        for op in *begin..ops {
            stretch.add(op);
            if places.get(to) == Some(&(op + 1)) {
                least[to] = least[to].max(least[from] + stretch.least_time());
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
    time: u64,
    read: Vec<bool>,
    changed: Vec<bool>,
    /// Bytes and number of the tensors that are read and were there before, and of those that change.
    wanted: (u64, u64),
    leaving: (u64, u64),
    /// Bytes of those that are read that an op's rerun makes.
    made_by: BTreeMap<OpId, u64>,
}

impl<'a> Stretch<'a> {
    fn new(problem: &'a Problem<'a>, begin: usize) -> Self {
        let none = vec![false; problem.trace.tensors.len()];
        Self {
            problem,
            begin,
            time: 0,
            read: none.clone(),
            changed: none,
            wanted: (0, 0),
            leaving: (0, 0),
            made_by: BTreeMap::new(),
        }
    }

    fn add(&mut self, op: usize) {
        let Problem { trace, model, .. } = self.problem;
        self.time += trace.ops[op].duration.0;
        for id in &trace.ops[op].reads {
            let bytes = trace.tensors[id.index()].bytes.0;
            let is_there = model.producer(*id).is_none_or(|made| made.index() < self.begin);
            if is_there && !std::mem::replace(&mut self.read[id.index()], true) {
                self.wanted = (self.wanted.0 + bytes, self.wanted.1 + 1);
                let again = model.remade_by(*id).filter(|op| self.problem.may_run_again(*op));
                if let Some(again) = again {
                    *self.made_by.entry(again).or_default() += bytes;
                }
            }
            let changes = model.changes(OpId::from_index(op), *id);
            if changes && !std::mem::replace(&mut self.changed[id.index()], true) {
                self.leaving = (self.leaving.0 + bytes, self.leaving.1 + 1);
            }
        }
    }

    fn least_time(&self) -> u64 {
        let link = &self.problem.machine.link;
        let budget = self.problem.budget.0;
        // A copy's time is rounded to the nearest nanosecond.
        let carried = |speed: f64, time: u64, copies: u64| {
            speed * (time as f64 * (1.0 + 1e-9) + copies as f64) / 1e9
        };
        let again = |(op, bytes): (&OpId, &u64)| (time_again(self.problem, *op), *bytes);
        let reruns = Runs::new(self.made_by.iter().map(again).collect());
        let back = |time: u64| {
            carried(fastest(&link.h2d), time, self.wanted.1) + reruns.brought_back(time - self.time)
                >= self.wanted.0.saturating_sub(budget) as f64
        };
        let out = |time: u64| {
            carried(fastest(&link.d2h), time, self.leaving.1)
                >= self.leaving.0.saturating_sub(budget) as f64
        };
        first(self.time, |time| back(time) && out(time))
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
