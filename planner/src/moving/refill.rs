//! What is left of memory and of the link is put to use: what leaves and comes back stays instead, or is copied
//! instead of made again.
//!
//! A method plans the rest with room set aside that copies may need beside every op, and with an estimate of what the
//! link has left. What of that no copy takes is known only when all copies are there.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use schema::{Bytes, Nanos, TensorId};
use simulator::{Evaluator, Profile, Step};

use super::absences::{Absence, Instead, absences, spent, stays, without};
use super::order::{ORDERS, alike};
use super::visits::{carried_out, load};
use crate::bound::time_again;
use crate::fit::share;
use crate::{Decided, Problem};

/// Shares of the memory, in thousandths, that may be full where something stays.
const FULL: [u64; 4] = [1000, 985, 970, 920];

/// What a nanosecond of the link is worth, in thousandths of one of compute.
const PRICES: [u64; 2] = [100, 700];

/// So many amounts are tried to be copied that were made again, and then as many around the best of these.
const AMOUNTS: u64 = 8;

/// What is spared may spare reruns that made what it was made from, so that there is more to choose from; as long as it
/// makes the iteration faster by such a part of it.
const ROUNDS: usize = 3;
const ENOUGH: u64 = 1000;

/// What is tried goes through so many steps together.
const TRIED: usize = 400_000;

/// What an absence spares is looked at together with all that its rerun needs, where that looks at no more steps.
const LOOKED_AT: usize = 2_000_000;

/// What was decided with more that stays or is copied, where that is faster, and how long it takes.
pub(super) fn refilled(
    moving: &Problem,
    (time, decided): &(Nanos, Decided),
) -> Option<(Nanos, Decided)> {
    let evaluator = moving.evaluator(decided.policy, moving.budget);
    let steps = decided.steps.clone()?;
    let left = TRIED / steps.len().max(1);
    let mut refill = Refill { moving, evaluator, time: *time, steps, left };
    for _ in 0..ROUNDS {
        let before = refill.time;
        refill.copy();
        refill.leave();
        refill.stay();
        if before - refill.time <= Nanos(before.0 / ENOUGH) {
            break;
        }
    }
    let Refill { time: faster, steps, .. } = refill;
    (faster < *time).then(|| (faster, carried_out(moving, decided, steps)))
}

/// The fastest steps so far.
struct Refill<'a> {
    moving: &'a Problem<'a>,
    evaluator: Evaluator<'a>,
    time: Nanos,
    steps: Vec<Step>,
    /// So many more may be tried.
    left: usize,
}

impl Refill<'_> {
    /// Copies what was made again, what takes longest for its bytes first.
    fn copy(&mut self) {
        let Some((_, mut again)) = self.absences() else { return };
        again.retain(|of| of.again.is_some());
        let steps = self.steps.clone();
        for order in ORDERS {
            again.sort_by_cached_key(|of| {
                let place = order.place(of.leaves, steps.len());
                (Reverse(alike(of.rerun, of.bytes)), place, of.leaves)
            });
            let bytes: Vec<u64> = again.iter().map(|of| of.bytes).collect();
            self.try_amounts(&bytes, |moving, count| {
                let leave = again[..count].iter().map(|of| of.leaves).collect();
                without(moving, &steps, &leave, Instead::Copied)
            });
        }
    }

    /// Has what stays for long leave and come back, where that gives what is copied more room.
    fn leave(&mut self) {
        let steps = self.steps.clone();
        let stays = stays(self.moving, &steps);
        let bytes = stays.iter().map(|(.., id)| self.moving.trace.tensors[id.index()].bytes.0);
        let bytes: Vec<u64> = bytes.collect();
        self.try_amounts(&bytes, |_, count| {
            let outs = stays[..count].iter().map(|(_, at, id)| (*at, *id));
            let mut outs: Vec<(usize, TensorId)> = outs.collect();
            outs.sort_unstable();
            let mut outs = outs.into_iter().peekable();
            let mut all = Vec::with_capacity(steps.len() + count);
            for (at, step) in steps.iter().enumerate() {
                all.push(*step);
                while let Some((_, id)) = outs.next_if(|(after, _)| *after == at) {
                    all.push(Step::SwapOut(id));
                }
            }
            all
        });
    }

    /// Has what leaves stay for which there is room, what is spared most for its bytes first.
    fn stay(&mut self) {
        let Some((load, mut all)) = self.absences() else { return };
        let steps = self.steps.clone();
        let mut tried = BTreeSet::from([BTreeSet::new()]);
        for price in PRICES {
            let worth = |of: &Absence| match of.again {
                Some(_) => alike(of.rerun, of.bytes),
                None => alike(of.copied, of.bytes) * u128::from(price) / 1000,
            };
            all.sort_by_cached_key(|of| (Reverse(worth(of)), of.leaves));
            for full in FULL {
                let stay = with_room(&all, &load, share(self.moving.budget, full));
                if tried.insert(stay.clone()) {
                    self.attempt(without(self.moving, &steps, &stay, Instead::Stays));
                }
            }
        }
    }

    /// The load at each run, and all that leaves and comes back, with what that takes.
    fn absences(&mut self) -> Option<(Vec<u64>, Vec<Absence>)> {
        let (moving, steps) = (self.moving, &self.steps);
        let record = self.evaluator.record_steps(steps).ok()?;
        let mut all = absences(moving, steps, &record);
        let before = spent(moving, steps);
        let is_short = all.len().saturating_mul(steps.len()) <= LOOKED_AT;
        for absence in &mut all {
            let Some(op) = absence.again else { continue };
            absence.rerun = if is_short {
                let leave = BTreeSet::from([absence.leaves]);
                let without = without(moving, steps, &leave, Instead::Stays);
                before.saturating_sub(spent(moving, &without))
            } else {
                time_again(moving, op)
            };
        }
        Some((load(moving, &record), all))
    }

    /// Tries steps with some amounts of the first of something, and then with others around the best of these.
    fn try_amounts(&mut self, bytes: &[u64], steps: impl Fn(&Problem, usize) -> Vec<Step>) {
        let sums = bytes.iter().scan(0, |sum, bytes| {
            *sum += bytes;
            Some(*sum)
        });
        let sums: Vec<u64> = sums.collect();
        let mut step = sums.last().map_or(0, |all| all / AMOUNTS);
        let mut from = 0;
        let mut tried = BTreeSet::from([0]);
        for _ in 0..2 {
            let mut best = None;
            for amount in (0..=AMOUNTS).map(|level| from + step * level) {
                let count = sums.partition_point(|sum| *sum <= amount);
                if !tried.insert(count) {
                    continue;
                }
                if self.attempt(steps(self.moving, count)) {
                    best = Some(amount);
                } else if best.is_some_and(|best| amount > best + 2 * step) {
                    break;
                }
            }
            from = best.unwrap_or(0).saturating_sub(step);
            step = step * 2 / AMOUNTS;
        }
    }

    /// Whether steps are faster than the fastest so far, which they are from then on.
    fn attempt(&mut self, steps: Vec<Step>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let outcome = self.evaluator.evaluate_steps(&steps);
        let faster = outcome.ok().map(|of| of.iteration).filter(|time| *time < self.time);
        if let Some(time) = faster {
            (self.time, self.steps) = (time, steps);
        }
        faster.is_some()
    }
}

/// The steps with which those leave for which there is room, the first of an order first.
fn with_room(order: &[Absence], load: &[u64], full: Bytes) -> BTreeSet<usize> {
    let mut profile = Profile::default();
    profile.reset(load);
    let mut stay = BTreeSet::new();
    for of in order {
        let Some(room) = full.0.checked_sub(of.bytes) else { continue };
        let room = room.min(i64::MAX as u64) as i64;
        let runs = of.runs.0 + 1..of.runs.1;
        if profile.last_above(runs.clone(), room).is_none() {
            profile.add(runs, of.bytes as i64);
            stay.insert(of.leaves);
        }
    }
    stay
}
