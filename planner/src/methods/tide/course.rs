//! How a search over sequences is done: how many legs it may have, how long each is, and how much of what they find is
//! given addresses.

use super::reserve::Stage;
use super::searched::Searched;
use crate::Allowed;

/// A search goes in legs of a quarter of its effort, each from the best of the one before, for as long as one makes
/// the overhead smaller by more than [`WORTH`] of it; and no more than so many.
const LEGS: u64 = 12;
const WORTH: u64 = 1000;

/// Quarters of the effort: of a leg, of the second where the first found nothing or there are no more than two, and of
/// the first where something may be copied or less is allowed.
const LEG: u64 = 1;
const ONCE_MORE: u64 = 3;
const AT_ONCE: u64 = 4;

/// On traces of more ops than these, packing takes longer than searching: of what was found, the best
/// alone is tried, and of cuts for less memory those for what the last one lacked.
pub(super) const LONG: usize = 20_000;

/// Of what was found, so many of the best are given addresses until one has some: where memory is short, many have
/// none. While legs still gain something, fewer. No more than have so many ops together.
const TRIED: usize = 6;
const TRIED_AT_FIRST: usize = 2;
const TRIED_OPS: usize = 30_000;

/// The same in all that a search does.
pub(super) struct Course {
    /// Whether all is allowed that the problem allows.
    is_all: bool,
    pub is_long: bool,
    /// Whether the first leg is the whole effort.
    pub at_once: bool,
    tries: usize,
}

impl Course {
    pub fn new(searched: &Searched, allowed: Allowed) -> Self {
        let ops = searched.parts.ops();
        let is_all = searched.problem.allowed == allowed;
        let is_long = ops > LONG;
        let at_once = searched.waits() || !is_all;
        let tries = if is_long { 1 } else { (TRIED_OPS / ops.max(1)).min(TRIED) };
        Self { is_all, is_long, at_once, tries }
    }

    /// Whether there is to be another leg after so many, of which the last changed what the best costs.
    pub fn goes_on(&self, legs: u64, before: Option<u64>, cost: u64) -> bool {
        // On long traces, packing what legs find takes longer than all else.
        let most = match (self.is_all, self.is_long) {
            (false, _) => 1,
            (true, true) => 1 + u64::from(!self.at_once),
            (true, false) => LEGS,
        };
        legs < most && before.is_none_or(|before| before.saturating_sub(cost) > cost / WORTH)
    }

    /// How long a leg is, in quarters of the effort: the one of a number in all of the memory or less, before which
    /// something was found or not.
    pub fn quarters(&self, is_all_memory: bool, number: u64, stage: Stage, is_found: bool) -> u64 {
        match number {
            _ if stage != Stage::Free => LEG,
            0 if self.at_once && is_all_memory => AT_ONCE,
            1 if self.is_long || !is_found => ONCE_MORE,
            _ => LEG,
        }
    }

    /// How many of what a leg found are given addresses, where there is to be another after it or not.
    pub fn tries(&self, stage: Stage, goes_on: bool) -> usize {
        let is_first = self.may_reserve() && goes_on && stage == Stage::Free;
        if is_first { self.tries.min(TRIED_AT_FIRST) } else { self.tries }
    }

    /// Whether memory is left free where what is found has no addresses, once legs gain nothing more. On long traces, and
    /// where compute may wait for copies, as much less everywhere has some sooner; and less is allowed only to have a
    /// plan at all.
    pub fn may_reserve(&self) -> bool {
        !self.at_once && !self.is_long
    }
}
