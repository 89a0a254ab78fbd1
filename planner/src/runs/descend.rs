//! Bringing a sequence's peak down to the budget by small steps.

use super::repair::Room;
use super::search::{PER_RERUN, Search};
use super::{Rerun, Runs};
use crate::split_mix::SplitMix;

/// So many reruns are taken out at once at most.
const MOST_RUINED: f64 = 10.0;

/// Of what is too much, the part that the first step is to take away, and bounds of that.
const STEP: f64 = 0.25;
const STEPS: (f64, f64) = (1e-3, 1.0);

/// What a step may cost at first, as a part of an iteration, and bounds of that.
const COST: f64 = 0.02;
const COSTS: (f64, f64) = (1e-3, 10.0);

/// A step that is made makes the next so many times as long, and what it may cost so many times as much; a step
/// that is not, the other two.
const MADE: (f64, f64) = (2.0, 0.7);
const FAILED: (f64, f64) = (0.8, 1.2);

impl Search<'_> {
    /// Ruins a sequence that is over the budget a little and repairs it, again and again: in half of the
    /// rounds for a lower peak, at what that may cost, in the others for less cost under the same peak.
    /// Where a repair in one go has to give up all at once what is cheapest at the first look, and near the
    /// least memory often finds no room for reruns, a step finds most of its surroundings in order.
    ///
    /// Returns whether it fits; if not, it has the lowest peak that was found.
    pub(super) fn descend(
        &self,
        runs: &mut Runs,
        most: u64,
        random: &mut SplitMix,
        room: &mut Room,
    ) -> bool {
        let end = room.work + most;
        let iteration = runs.parts.clock[runs.parts.ops()] as f64;
        let (mut step, mut cost) = (STEP, COST);
        while runs.peak() > self.budget && room.work < end {
            if !(self.proceed)(room.work, end) {
                return false;
            }
            let lowers = random.below(2) == 0;
            let (target, limit) = match lowers {
                true => {
                    let by = 1 + ((runs.peak() - self.budget) as f64 * step) as i64;
                    (runs.peak() - by, runs.cost() + (cost * iteration) as u64)
                }
                false => (runs.peak(), runs.cost()),
            };
            let target = target.max(self.budget);
            let is_made = self.try_lower(runs, (target, limit), random, room);
            if lowers {
                let (longer, dearer) = if is_made { MADE } else { FAILED };
                step = (step * longer).clamp(STEPS.0, STEPS.1);
                cost = (cost * dearer).clamp(COSTS.0, COSTS.1);
            }
        }
        runs.peak() <= self.budget
    }

    /// One round: whether the sequence takes no more memory and costs no more than that now. It is as it
    /// was if not.
    fn try_lower(
        &self,
        runs: &mut Runs,
        (target, limit): (i64, u64),
        random: &mut SplitMix,
        room: &mut Room,
    ) -> bool {
        runs.settle();
        // Half of the time where memory is fullest.
        let fullest = runs.load.fullest();
        let there = runs.reruns().partition_point(|(key, _)| *key < fullest);
        let center = (random.below(2) == 0).then_some(there);
        let weights = self.weights(random, true);
        runs.ruin(MOST_RUINED, center, random);
        room.until = room.work + self.effort / Self::ROUNDS;
        let mut is_made = runs.repair(target, limit, weights, random, room);
        if is_made {
            let touched: Vec<Rerun> = runs.touched();
            runs.prune(touched, target, random, room);
            is_made = runs.cost() <= limit;
        }
        room.work += PER_RERUN * (1 + runs.mark() as u64);
        if !is_made {
            runs.back_to(0);
        }
        is_made
    }
}
