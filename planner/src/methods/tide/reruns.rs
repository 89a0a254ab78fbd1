//! Where nothing is copied or compressed: the search over sequences of runs.

use rayon::prelude::*;
use schema::Bytes;

use super::options::policy;
use super::packed::Packed;
use crate::cut::lazy;
use crate::fit::share;
use crate::methods::Dtr;
use crate::runs::{Found, Parts, Rerun, Runs, reruns_of, search, steps_of};
use crate::{Decided, Progress};

/// What the two searches draw from.
const SEEDS: [u64; 2] = [1, 2];

/// Shares of the memory, in thousandths, for which is searched until something can be packed, and
/// the part of the effort that this takes.
const ROOMS: [(u64, u64); 8] =
    [(1000, 1), (998, 4), (994, 4), (985, 4), (970, 4), (940, 4), (900, 4), (850, 4)];

/// Work per evaluation that the limits allow.
const WORK: u64 = 50;

/// Of what was found, so many are tried until one can be packed.
const TRIED: usize = 6;

impl Packed<'_> {
    /// Searches for the reruns that cost least, from what cuts hold, from what DTR runs again and
    /// from nothing.
    pub fn search_reruns(&mut self, share_of_effort: u64) {
        let parts = Parts::new(self.problem);
        let mut problem = self.problem.restricted_to(self.problem.allowed);
        problem.budget = self.target;
        let mut given: Vec<Vec<Rerun>> = lazy(&problem).into_iter().flatten().collect();
        given.extend(Dtr::run(&problem, self.target).map(|run| reruns_of(&run.steps)));
        let effort = self.problem.limits.evaluations * WORK / share_of_effort;
        for (room, part) in ROOMS {
            let budget = share(self.target, room).0 as i64;
            let proceed = |done: u64, of: u64| {
                self.monitor.proceed(Progress { phase: "reruns", done: done.min(of), of })
            };
            let chains = SEEDS
                .par_iter()
                .map(|seed| search(&parts, budget, &given, (seed + room, effort / part), &proceed));
            let mut found: Vec<Found> = chains.collect::<Vec<_>>().concat();
            // Stable: of equals, the first search's comes first.
            found.sort_by_key(|found| found.cost);
            let mut packs = false;
            for found in found.iter().take(TRIED) {
                let steps = steps_of(self.problem, &found.reruns);
                debug_assert_eq!(
                    (self.problem.evaluator(policy(self.problem), Bytes(budget as u64)))
                        .evaluate_steps(&steps)
                        .map(|outcome| (outcome.peak.0, outcome.recompute.0)),
                    Ok((Runs::with(&parts, &found.reruns).peak() as u64, found.cost)),
                );
                if self.lower(Decided::from_steps(self.problem, steps, policy(self.problem))) {
                    packs = true;
                    break;
                }
            }
            if packs || !self.monitor.proceed(Progress { phase: "addresses", done: 1, of: 1 }) {
                return;
            }
            given.splice(0..0, found.into_iter().take(2).map(|found| found.reruns));
        }
    }
}
