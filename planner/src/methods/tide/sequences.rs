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
    Found, Judge, Parts, Prices, Rerun, Runs, Search, reruns_of, reruns_under, search, steps_of,
    whole,
};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress};

/// What the two searches draw from, and how far that is apart from leg to leg.
const SEEDS: [u64; 2] = [1, 2];
const SEEDS_APART: u64 = 10_000;

/// Shares of the memory, in thousandths, for which is searched until something can be packed. Where what is
/// found lacks something, the next is one in which that is there.
const ROOMS: [u64; 8] = [1000, 998, 994, 985, 970, 940, 900, 850];

/// The same for cuts that are carried out as they stand.
const CUT_ROOMS: [u64; 3] = [1000, 980, 950];

/// A search goes in legs of a quarter of its effort, each from the best of the one before, for as long as one makes
/// the overhead smaller by more than this part of it; and no more than so many.
const WORTH: u64 = 1000;
const LEGS: u64 = 12;

/// Quarters of the effort: of a leg, of the second where the first found nothing or there are no more than two, and of
/// the first where something may be copied or less is allowed.
const LEG: u64 = 1;
const ONCE_MORE: u64 = 3;
const AT_ONCE: u64 = 4;

/// Work per evaluation that the limits allow, where nothing is copied, where something may be, and
/// where something may be compressed.
const WORK: [u64; 3] = [80, 40, 80];

/// That is for traces of so many ops where something may be copied; less for longer ones, and more
/// for shorter.
const OPS: u64 = 2500;

/// Where less is allowed than the problem allows, so small a part of it is enough.
const LESS: u64 = 4;

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

impl<'a> Packed<'a> {
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

    /// Searches for the sequence that costs least: from what the cut at a place holds, from what DTR
    /// runs again and from nothing; then, leg after leg, from the best that was found and, where nothing is copied,
    /// from what several places together hold.
    pub fn search_sequences(&mut self, allowed: Allowed, place: usize) {
        let searched = self.searched(allowed, place);
        let Searched { problem, parts, .. } = &searched;
        let total = problem.trace.total_time().0;
        let is_long = problem.trace.ops.len() > LONG;
        let is_all = allowed == self.problem.allowed;
        let at_once = searched.waits() || !is_all;
        // On long traces, packing what legs find takes longer than all else.
        let legs = match (is_all, is_long) {
            (false, _) => 1,
            (true, true) => 1 + u64::from(!at_once),
            (true, false) => LEGS,
        };
        let tried = if is_long { 1 } else { (TRIED_OPS / parts.ops().max(1)).min(TRIED) };
        let mut given = searched.given.clone();
        let mut had_several = at_once;
        let mut enough = self.target;
        for room in ROOMS {
            let target = share(self.target, room);
            if target > enough {
                continue;
            }
            let mut fastest_yet = None;
            let mut begun_from = given.clone();
            for leg in 0..legs {
                if leg > 0 && !had_several {
                    had_several = true;
                    let several = self.several_places();
                    if self.is_within(total + several.extra) {
                        return;
                    }
                    begun_from.splice(0..0, several.sequences.iter().cloned());
                    given.splice(0..0, several.sequences.iter().cloned());
                }
                let quarters = match (leg, fastest_yet) {
                    (0, _) if at_once && room == ROOMS[0] => AT_ONCE,
                    (1, None) => ONCE_MORE,
                    (1, _) if is_long => ONCE_MORE,
                    _ => LEG,
                };
                let leg_of =
                    Leg { target, goes_on: leg > 0, seed: room + SEEDS_APART * leg, quarters };
                let found = match searched.found(self.monitor, leg_of, &begun_from) {
                    Ok(found) => found,
                    Err(nearest) => {
                        if let Some((peak, op)) = nearest {
                            self.came_near(Bytes(peak as u64), op);
                        }
                        // What no search makes fit into all that there is hardly fits into less.
                        if at_once || leg > 0 {
                            return;
                        }
                        continue;
                    }
                };
                let kept = self.time();
                let packed = self.pack(&searched, &found[..tried.min(found.len())], target);
                if !self.monitor.proceed(Progress { phase: "addresses", done: 1, of: 1 }) {
                    return;
                }
                let fastest = total + found[0].cost;
                begun_from = found.into_iter().take(2).map(|found| found.reruns).collect();
                given.splice(0..0, begun_from.iter().cloned());
                if let Err(lacking) = packed {
                    enough = if lacking > Bytes::ZERO { lacking } else { enough };
                    break;
                }
                // With less room, what is found is hardly faster.
                if room < ROOMS[0] && fastest >= kept {
                    return;
                }
                let before = fastest_yet.replace(fastest);
                let gained = before.is_none_or(|before: u64| {
                    before.saturating_sub(fastest) > (fastest - total) / WORTH
                });
                if gained && leg + 1 < legs {
                    continue;
                }
                // But a plan that was made to fit with copies that start later may be slower than one of the next room.
                if self.is_within(fastest.saturating_add(fastest / GOOD_ENOUGH)) {
                    return;
                }
                break;
            }
        }
    }

    /// What is searched for where so much is allowed, and from where.
    fn searched(&self, allowed: Allowed, place: usize) -> Searched<'a> {
        let mut problem = self.problem.restricted_to(allowed);
        let is_all = allowed == self.problem.allowed;
        let parts = Parts::new(&problem, policy_of_sequences(&problem));
        let waits = allowed.swap || allowed.compress;
        let budget = problem.budget;
        problem.budget = self.target;
        let cuts = self.cuts_at(allowed, &parts, place, 1000);
        let mut given: Vec<Vec<Rerun>> = cuts.sequences;
        if allowed.recompute {
            problem.slowest = Nanos(THRASHES.saturating_mul(problem.trace.total_time().0));
            problem.most_weighed = MOST_WEIGHED;
            given.extend(Dtr::run(&problem, self.target).map(|run| reruns_of(&run.steps)));
        }
        if is_all {
            let others =
                self.others.iter().filter_map(|(_, of)| reruns_under(&problem, &parts, of));
            given.splice(0..0, others.collect::<Vec<_>>());
        }
        problem.budget = budget;
        let kind = if allowed.compress { 2 } else { usize::from(waits) };
        let mut effort = problem.limits.evaluations * WORK[kind] / if is_all { 1 } else { LESS };
        if waits {
            // What a round takes grows with the trace; on a short one, there is less to find.
            let ops = (problem.trace.ops.len() as u64).clamp(OPS / 4, 3 * OPS);
            effort = effort * OPS / ops.max((ops * OPS).isqrt());
        }
        let lanes = cuts.lanes.unwrap_or([PRICE; 4]);
        Searched { problem, parts, place, effort, lanes, given }
    }

    /// Gives the fastest addresses, up to one that has some; or else says how little memory is enough by what they
    /// lacked. Mostly the first has addresses. Where it has none, the next are tried side by side.
    fn pack(
        &mut self,
        searched: &Searched,
        mut left: &[Found],
        target: Bytes,
    ) -> Result<(), Bytes> {
        let mut lacking = Bytes::ZERO;
        let mut count = 1;
        while !left.is_empty() {
            let (some, others) = left.split_at(count.min(left.len()));
            (left, count) = (others, ABREAST);
            let some = some.iter().map(|found| searched.decided(found, target)).collect();
            for outcome in self.lower_first(some) {
                match outcome {
                    Ok(()) => return Ok(()),
                    Err(PlanError::Fragmented { short_by, budget, .. }) => {
                        lacking = lacking.max(shrunk(target, budget, short_by));
                    }
                    Err(_) => {}
                }
            }
        }
        Err(lacking)
    }
}

/// What is searched for, the same in all legs, and what the first begins from.
struct Searched<'a> {
    problem: Problem<'a>,
    parts: Parts,
    place: usize,
    effort: u64,
    lanes: Prices,
    given: Vec<Vec<Rerun>>,
}

/// One leg of a search.
#[derive(Clone, Copy)]
struct Leg {
    target: Bytes,
    /// Whether another was before.
    goes_on: bool,
    seed: u64,
    /// Of the effort.
    quarters: u64,
}

impl Searched<'_> {
    /// Whether compute may wait for copies or codecs.
    fn waits(&self) -> bool {
        self.problem.allowed.swap || self.problem.allowed.compress
    }

    /// What one leg finds, the fastest first.
    ///
    /// # Errors
    ///
    /// If it finds nothing: the lowest peak that it reaches, and the op before whose end that is.
    fn found(
        &self,
        monitor: &dyn Monitor,
        leg: Leg,
        given: &[Vec<Rerun>],
    ) -> Result<Vec<Found>, Option<(i64, usize)>> {
        let Self { problem, parts, .. } = self;
        let proceed = |done: u64, of: u64| {
            monitor.proceed(Progress { phase: "sequences", done: done.min(of), of })
        };
        let chains = SEEDS.par_iter().map(|seed| {
            let evaluator = problem.evaluator(policy_of_sequences(problem), leg.target);
            let mut judge = Replayed { problem, parts, evaluator };
            let how = Search {
                budget: whole(leg.target),
                given,
                seed: seed + leg.seed,
                place: self.place,
                effort: self.effort * leg.quarters / 4,
                goes_on: leg.goes_on,
                lanes: self.lanes,
                proceed: &proceed,
            };
            search(parts, how, self.waits().then_some(&mut judge as &mut dyn Judge))
        });
        let (found, nearest): (Vec<Vec<Found>>, Vec<_>) =
            chains.map(|outcome| (outcome.found, outcome.nearest)).unzip();
        let mut found = found.concat();
        // Stable: of equals, the first search's comes first.
        found.sort_by_key(|found| found.cost);
        found.dedup_by(|other, one| other.reruns == one.reruns);
        if found.is_empty() { Err(nearest.into_iter().flatten().min()) } else { Ok(found) }
    }

    /// What was found for a target as decisions.
    fn decided(&self, found: &Found, target: Bytes) -> Decided {
        let Self { problem, parts, .. } = self;
        let policy = policy_of_sequences(problem);
        let steps = steps_of(problem, parts, &found.reruns);
        debug_assert!(
            self.waits()
                || (problem.evaluator(policy, target).evaluate_steps(&steps)).is_ok_and(
                    |outcome| {
                        let peak = Runs::with(parts, &found.reruns).peak();
                        outcome.peak.0 as i64 <= peak && outcome.recompute.0 == found.cost
                    }
                )
        );
        Decided::from_steps(problem, steps, policy).taken_from("sequences of runs")
    }
}
