//! The search over sequences of runs.

use std::borrow::Cow;

use rayon::prelude::*;
use schema::{Bytes, Nanos};
use simulator::{Evaluator, Step};

use super::options::policy_of_sequences;
use super::others::MOST_WEIGHED;
use super::packed::Packed;
use crate::cut::{Carried, Several, carried, lazy};
use crate::fit::{share, shrunk};
use crate::kept_load::{certain_load, fullest};
use crate::methods::Dtr;
use crate::runs::{
    Found, Judge, Parts, Rerun, Runs, Search, reruns_of, reruns_under, search, steps_of, whole,
};
use crate::{Allowed, Decided, PlanError, Problem, Progress};

/// What the two searches draw from.
const SEEDS: [u64; 2] = [1, 2];

/// Shares of the memory, in thousandths, for which is searched until something can be packed, and
/// the part of the effort that this takes, in quarters. Where what is found lacks something, the next is one
/// in which that is there. The first time it is not yet known what
/// several places hold, where they say anything.
const ROOMS: [(u64, u64); 9] =
    [(1000, 1), (1000, 3), (998, 1), (994, 1), (985, 1), (970, 1), (940, 1), (900, 1), (850, 1)];

/// The same for cuts that are carried out as they stand.
const CUT_ROOMS: [u64; 3] = [1000, 980, 950];

/// Work per evaluation that the limits allow, where nothing is copied, where something may be, and
/// where something may be compressed.
const WORK: [u64; 3] = [80, 40, 80];

/// That is for traces of so many ops where something may be copied; less for longer ones, and more
/// for shorter.
const OPS: u64 = 2500;

/// Work that it takes to evaluate a run of a sequence in which something is copied or compressed.
const PER_RUN: u64 = 2;

/// On traces of more ops than these, packing takes longer than searching: of what was found, the best
/// alone is tried, and of cuts for less memory those for what the last one lacked.
pub(super) const LONG: usize = 20_000;

/// A plan is good enough that is slower than what a search found by no more than this part.
const GOOD_ENOUGH: u64 = 2000;

/// Of what was found, so many of the best are given addresses until one has some: where memory is short, many have
/// none. No more than have so many ops together.
const TRIED: usize = 40;
const TRIED_OPS: usize = 30_000;

/// So many of them side by side.
const ABREAST: usize = 2;

/// A lane's price against compute's, where no cut says one.
const PRICE: f64 = 0.1;

/// What DTR makes is no start where it takes so many times as long as an iteration in core.
const THRASHES: u64 = 4;

/// How a search goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// With all effort.
    Whole,
    /// From the best plan so far, further from it than a search from nothing, and with memory to spare.
    Roaming,
    /// With part of the effort: less is allowed.
    Little,
}

impl Course {
    /// Of the effort, one of so many parts.
    fn part(self) -> u64 {
        match self {
            Self::Whole => 1,
            Self::Roaming => 2,
            Self::Little => 4,
        }
    }
}

/// What the evaluator says of sequences.
struct Replayed<'a> {
    problem: &'a Problem<'a>,
    parts: &'a Parts,
    evaluator: Evaluator<'a>,
}

impl Judge for Replayed<'_> {
    fn cost(&mut self, reruns: &[Rerun]) -> (Option<u64>, u64) {
        let steps = steps_of(self.problem, self.parts, reruns);
        let time = self.evaluator.evaluate_steps(&steps).map(|found| found.iteration.0);
        let total = self.problem.trace.total_time().0;
        (time.ok().map(|time| time - total), PER_RUN * steps.len() as u64)
    }
}

impl Packed<'_> {
    /// What the cut at a place says, for shares of the memory.
    fn cuts_at(&self, allowed: Allowed, parts: &Parts, place: usize, room: u64) -> Carried {
        let mut problem = self.problem.restricted_to(allowed);
        problem.budget = share(self.target, room);
        if allowed.swap || allowed.compress {
            return carried(&problem, parts, place);
        }
        let sequences = lazy(&problem).into_iter().flatten().collect();
        Carried { sequences, lanes: None }
    }

    /// Carries out the cuts that bound the problem, as they stand. That takes milliseconds, and
    /// holds dead tensors where treatments of gaps cannot. What fits at its place need not fit
    /// elsewhere, nor have addresses at the first look, so they are made for less memory, too.
    pub fn try_cuts(&mut self, allowed: Allowed, place: usize) {
        let policy = policy_of_sequences(self.problem);
        let parts = Parts::new(self.problem, policy);
        let is_long = self.problem.trace.ops.len() > LONG;
        let mut enough = self.target;
        for room in CUT_ROOMS {
            if share(self.target, room) > enough {
                continue;
            }
            let mut all: Vec<(u64, Vec<Step>)> = Vec::new();
            for sequence in self.cuts_at(allowed, &parts, place, room).sequences {
                let steps = steps_of(self.problem, &parts, &sequence);
                let mut evaluator = self.problem.evaluator(policy, self.target);
                if let Ok(outcome) = evaluator.evaluate_steps(&steps) {
                    all.push((outcome.iteration.0, steps));
                }
            }
            all.sort_by_key(|(time, _)| *time);
            all.truncate(if is_long { 1 } else { all.len() });
            for (_, steps) in all {
                let decided = Decided::from_steps(self.problem, steps, policy);
                match self.lower_quickly(decided.taken_from("a minimum cut")) {
                    Ok(()) => return,
                    Err(PlanError::Fragmented { short_by, budget, .. }) if is_long => {
                        enough = shrunk(self.target, budget, short_by);
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// What several places say, and hold.
    fn several_places(&self) -> Cow<'_, Several> {
        let proceed =
            |done, of| self.monitor.proceed(Progress { phase: "several places", done, of });
        self.problem.more_places(&proceed)
    }

    /// The op with most on the device.
    pub fn fullest(&self) -> usize {
        fullest(&certain_load(self.problem))
    }

    /// Searches for the sequence that costs least, from what the cut at a place holds, from what DTR
    /// runs again and from nothing; and where nothing is copied, once more from what several places
    /// together hold, which is found meanwhile.
    pub fn search_sequences(&mut self, allowed: Allowed, place: usize, course: Course) {
        let mut problem = self.problem.restricted_to(allowed);
        let policy = policy_of_sequences(&problem);
        let parts = Parts::new(&problem, policy);
        let waits = allowed.swap || allowed.compress;
        let budget = problem.budget;
        problem.budget = self.target;
        let cuts = self.cuts_at(allowed, &parts, place, 1000);
        let mut given: Vec<Vec<Rerun>> = cuts.sequences;
        let total = problem.trace.total_time().0;
        if allowed.recompute {
            problem.slowest = Nanos(THRASHES.saturating_mul(total));
            problem.most_weighed = MOST_WEIGHED;
            given.extend(Dtr::run(&problem, self.target).map(|run| reruns_of(&run.steps)));
        }
        if allowed == self.problem.allowed {
            let others =
                self.others.iter().filter_map(|(_, of)| reruns_under(&problem, &parts, of));
            given.splice(0..0, others.collect::<Vec<_>>());
        }
        if course == Course::Roaming {
            given.splice(0..0, self.best().and_then(|best| reruns_under(&problem, &parts, best)));
        }
        problem.budget = budget;
        let kind = if allowed.compress { 2 } else { usize::from(waits) };
        let mut effort = problem.limits.evaluations * WORK[kind] / course.part();
        if waits {
            // What a round takes grows with the trace; on a short one, there is less to find.
            let ops = (problem.trace.ops.len() as u64).clamp(OPS / 4, 3 * OPS);
            effort = effort * OPS / ops.max((ops * OPS).isqrt());
        }
        let is_long = problem.trace.ops.len() > LONG;
        let tried = if is_long { 1 } else { (TRIED_OPS / parts.ops().max(1)).min(TRIED) };
        let mut enough = self.target;
        for (round, (room, mut part)) in ROOMS.into_iter().enumerate() {
            if share(self.target, room) > enough {
                continue;
            }
            match round {
                0 if waits || allowed != self.problem.allowed => continue,
                1 if waits || allowed != self.problem.allowed => part = 4,
                1 => {
                    let several = self.several_places();
                    if self.is_within(total + several.extra) {
                        return;
                    }
                    given.splice(0..0, several.sequences.iter().cloned());
                }
                _ => {}
            }
            let target = share(self.target, room);
            let proceed = |done: u64, of: u64| {
                self.monitor.proceed(Progress { phase: "sequences", done: done.min(of), of })
            };
            let chains = SEEDS.par_iter().map(|seed| {
                let evaluator = problem.evaluator(policy, target);
                let mut judge = Replayed { problem: &problem, parts: &parts, evaluator };
                let how = Search {
                    budget: whole(target),
                    given: &given,
                    seed: seed + room,
                    place,
                    effort: effort * part / 4,
                    roams: course == Course::Roaming,
                    lanes: cuts.lanes.unwrap_or([PRICE; 4]),
                    proceed: &proceed,
                };
                search(&parts, how, waits.then_some(&mut judge as &mut dyn Judge))
            });
            let (found, nearest): (Vec<Vec<Found>>, Vec<_>) =
                chains.map(|outcome| (outcome.found, outcome.nearest)).unzip();
            let mut found = found.concat();
            if let (true, Some((peak, op))) =
                (found.is_empty(), nearest.into_iter().flatten().min())
            {
                self.came_near(Bytes(peak as u64), op);
            }
            // Stable: of equals, the first search's comes first.
            found.sort_by_key(|found| found.cost);
            found.dedup_by(|other, one| other.reruns == one.reruns);
            let (before, mut packs) = (self.time(), false);
            let mut lacking = Bytes::ZERO;
            let decided = |found: &Found| {
                let steps = steps_of(&problem, &parts, &found.reruns);
                debug_assert!(
                    waits
                        || (problem.evaluator(policy, target).evaluate_steps(&steps)).is_ok_and(
                            |outcome| {
                                let peak = Runs::with(&parts, &found.reruns).peak();
                                outcome.peak.0 as i64 <= peak && outcome.recompute.0 == found.cost
                            }
                        )
                );
                Decided::from_steps(&problem, steps, policy).taken_from("sequences of runs")
            };
            // Mostly the first has addresses. Where it has none, the next are tried side by side.
            let (mut left, mut count) = (&found[..tried.min(found.len())], 1);
            while !packs && !left.is_empty() {
                let (some, others) = left.split_at(count.min(left.len()));
                (left, count) = (others, ABREAST);
                for outcome in self.lower_first(some.iter().map(decided).collect()) {
                    match outcome {
                        Ok(()) => packs = true,
                        Err(PlanError::Fragmented { short_by, budget, .. }) => {
                            lacking = lacking.max(shrunk(target, budget, short_by));
                        }
                        Err(_) => {}
                    }
                }
            }
            if !packs && lacking > Bytes::ZERO {
                enough = lacking;
            }
            // What no search makes fit into all that there is hardly fits into less. With less room,
            // what is found is hardly faster; but a plan that was made to fit with copies that start
            // later may be slower than one of the next room.
            let fastest = found.first().map_or(u64::MAX, |found| total + found.cost);
            let good_enough = fastest.saturating_add(fastest / GOOD_ENOUGH);
            let better = self.time() < before;
            if (round == 1 && found.is_empty())
                || (round > 0 && self.is_within(good_enough))
                || (packs && !better && room < 1000)
                || !self.monitor.proceed(Progress { phase: "addresses", done: 1, of: 1 })
            {
                return;
            }
            given.splice(0..0, found.into_iter().take(2).map(|found| found.reruns));
        }
    }
}
