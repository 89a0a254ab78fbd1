//! What a search over sequences of runs is about, and what one leg of it finds.

use rayon::prelude::*;
use schema::{Bytes, Nanos};
use simulator::Evaluator;

use super::options::policy_of_sequences;
use super::others::MOST_WEIGHED;
use super::packed::Packed;
use crate::methods::Dtr;
use crate::runs::{
    Found, Judge, Parts, Prices, Rerun, Runs, Search, reruns_of, reruns_under, search, steps_of,
    whole,
};
use crate::{Allowed, Decided, Monitor, Problem, Progress};

/// What the two searches draw from, and how far that is apart from leg to leg.
const SEEDS: [u64; 2] = [1, 2];
const SEEDS_APART: u64 = 10_000;

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
    /// What is searched for where so much is allowed, and from where.
    pub fn searched(&self, allowed: Allowed, place: usize) -> Searched<'a> {
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
        Searched { problem, parts, place, effort, lanes, had_several: false, given }
    }
}

/// What is searched for, the same in all legs, and what the first begins from.
pub(super) struct Searched<'a> {
    pub problem: Problem<'a>,
    pub parts: Parts,
    place: usize,
    effort: u64,
    lanes: Prices,
    /// Whether what several places hold is among what is given.
    pub had_several: bool,
    /// Sequences to begin from, the best first.
    pub given: Vec<Vec<Rerun>>,
}

/// One leg of a search.
#[derive(Clone, Copy)]
pub(super) struct Leg {
    pub target: Bytes,
    /// Its number in its room, in thousandths of the memory: what is drawn depends on both.
    pub number: u64,
    pub room: u64,
    /// Of the effort.
    pub quarters: u64,
}

impl Searched<'_> {
    /// Whether compute may wait for copies or codecs.
    pub fn waits(&self) -> bool {
        self.problem.allowed.swap || self.problem.allowed.compress
    }

    /// What one leg finds, the fastest first.
    ///
    /// # Errors
    ///
    /// If it finds nothing: the lowest peak that it reaches, and the op before whose end that is.
    pub fn found(
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
                seed: seed + leg.room + SEEDS_APART * leg.number,
                place: self.place,
                effort: self.effort * leg.quarters / 4,
                goes_on: leg.number > 0,
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
    pub fn decided(&self, found: &Found, target: Bytes) -> Decided {
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
