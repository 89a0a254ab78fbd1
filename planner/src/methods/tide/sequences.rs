//! The search over sequences of runs.

use std::borrow::Cow;

use schema::Bytes;
use simulator::Step;

use super::options::policy_of_sequences;
use super::packed::Packed;
use super::searched::{Leg, Searched};
use crate::cut::{Carried, Several, carried, lazy};
use crate::fit::{share, shrunk};
use crate::kept_load::{certain_load, fullest};
use crate::runs::{Found, Parts, steps_of};
use crate::{Allowed, Beyond, Decided, PlanError, Progress};

/// Shares of the memory, in thousandths, for which is searched until something can be packed. Where what is
/// found lacks something, the next is one in which that is there.
const ROOMS: [u64; 8] = [1000, 998, 994, 985, 970, 940, 900, 850];

/// The same for cuts that are carried out as they stand.
const CUT_ROOMS: [u64; 3] = [1000, 980, 950];

/// A search goes in legs of a quarter of its effort, each from the best of the one before, for as long as one makes
/// the overhead smaller by more than this part of it; and no more than so many.
const WORTH: u64 = 1000;
const LEGS: u64 = 12;

/// Where what was found has no addresses, for so much of what reaches beyond the budget there is no room in the next leg,
/// in the ops during which it does: a half of it, or all up to so many thousandths of the memory. So often, at most.
const MENDED: (u64, u64) = (2, 5);
const MENDS: u64 = 8;

/// Quarters of the effort: of a leg, of the second where the first found nothing or there are no more than two, and of
/// the first where something may be copied or less is allowed.
const LEG: u64 = 1;
const ONCE_MORE: u64 = 3;
const AT_ONCE: u64 = 4;

/// On traces of more ops than these, packing takes longer than searching: of what was found, the best
/// alone is tried, and of cuts for less memory those for what the last one lacked.
pub(super) const LONG: usize = 20_000;

/// A plan is good enough that is slower than what a search found by no more than this part.
const GOOD_ENOUGH: u64 = 2000;

/// Of what was found, so many of the best are given addresses until one has some: where memory is short, many have
/// none. While legs still gain something, fewer. No more than have so many ops together.
const TRIED: usize = 12;
const TRIED_AT_FIRST: usize = 2;
const TRIED_OPS: usize = 30_000;

/// So many of them side by side.
const ABREAST: usize = 2;

/// What a sequence lacked to have addresses.
#[derive(Default)]
struct Lacks {
    /// How little memory is enough, as far as that goes.
    room: Bytes,
    beyond: Vec<Beyond>,
}

impl<'a> Packed<'a> {
    /// What the cut at a place says, for shares of the memory.
    pub(super) fn cuts_at(&self, allowed: Allowed, parts: &Parts, place: usize, room: u64) -> Carried {
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
        let mut searched = self.searched(allowed, place);
        let mut enough = self.target;
        for room in ROOMS {
            if share(self.target, room) > enough {
                continue;
            }
            match self.search_in(room, &mut searched) {
                Some(lacking) => enough = lacking,
                None => return,
            }
        }
    }

    /// Goes leg after leg in a share of the memory. Where what is found has no addresses when legs gain nothing more, that
    /// part of the memory is left free that it lacked, when it lacked it, and legs go on. Returns how little memory
    /// is enough to search for next; nothing where that would be of no use.
    fn search_in(&mut self, room: u64, searched: &mut Searched) -> Option<Bytes> {
        let target = share(self.target, room);
        let total = searched.problem.trace.total_time().0;
        let ops = searched.parts.ops();
        let is_long = ops > LONG;
        let is_all = searched.problem.allowed == self.problem.allowed;
        let at_once = searched.waits() || !is_all;
        // On long traces, packing what legs find takes longer than all else.
        let legs = match (is_all, is_long) {
            (false, _) => 1,
            (true, true) => 1 + u64::from(!at_once),
            (true, false) => LEGS,
        };
        let most_mends = if is_all && !is_long { MENDS } else { 0 };
        let tries = if is_long { 1 } else { (TRIED_OPS / ops.max(1)).min(TRIED) };
        searched.parts.reserve_nothing();
        let mut given = searched.given.clone();
        let mut enough = self.target;
        let (mut before, mut mends, mut is_mended) = (None, 0, false);
        for number in 0.. {
            if number > 0 && !at_once && !searched.had_several {
                searched.had_several = true;
                let several = self.several_places();
                if self.is_within(total + several.extra) {
                    return None;
                }
                given.splice(0..0, several.sequences.iter().cloned());
                searched.given.splice(0..0, several.sequences.iter().cloned());
            }
            let quarters = match (number, before) {
                _ if is_mended => LEG,
                (0, _) if at_once && room == ROOMS[0] => AT_ONCE,
                (1, None) => ONCE_MORE,
                (1, _) if is_long => ONCE_MORE,
                _ => LEG,
            };
            let leg = Leg { target, number, room, quarters };
            let found = match searched.found(self.monitor, leg, &given) {
                Ok(found) => found,
                Err(_) if mends > 0 => return Some(enough),
                Err(nearest) => {
                    if let Some((peak, op)) = nearest {
                        self.came_near(Bytes(peak as u64), op);
                    }
                    // What no search makes fit into all that there is hardly fits into less.
                    if at_once || number > 0 {
                        return None;
                    }
                    continue;
                }
            };
            let fastest = total + found[0].cost;
            let gained = before.replace(fastest).is_none_or(|before: u64| {
                before.saturating_sub(fastest) > (fastest - total) / WORTH
            });
            let is_settled = !gained || number + 1 >= legs + mends;
            let kept = self.time();
            let faster = found.iter().take_while(|found| total + found.cost < kept).count();
            let some = if is_settled || is_mended { tries } else { tries.min(TRIED_AT_FIRST) };
            let packed = self.pack(searched, &found[..faster.min(some)], target);
            if !self.monitor.proceed(Progress { phase: "addresses", done: 1, of: 1 }) {
                return None;
            }
            given = found.into_iter().take(2).map(|found| found.reruns).collect();
            searched.given.splice(0..0, given.iter().cloned());
            if let Err(lacks) = packed {
                if !is_settled && !is_mended && !is_long {
                    continue;
                }
                enough = if lacks.room > Bytes::ZERO { lacks.room } else { enough };
                if mends == most_mends || lacks.beyond.is_empty() {
                    return Some(enough);
                }
                (mends, is_mended, before) = (mends + 1, true, None);
                let all = share(target, MENDED.1).0;
                searched.parts.reserve(lacks.beyond.iter().map(|beyond| {
                    let bytes = (beyond.bytes.0 / MENDED.0).max(beyond.bytes.0.min(all));
                    (beyond.first, beyond.last, bytes as i64)
                }));
                continue;
            }
            is_mended = false;
            // With less room, what is found is hardly faster.
            if room < ROOMS[0] && fastest >= kept {
                return None;
            }
            if is_settled {
                // But a plan that was made to fit with copies that start later may be slower than one of the next room.
                let is_enough = self.is_within(fastest.saturating_add(fastest / GOOD_ENOUGH));
                return (!is_enough).then_some(enough);
            }
        }
        None
    }

    /// Gives the fastest addresses, up to one that has some; or else says what that lacked which lacked least. Where
    /// nothing is to have some, nothing lacks. Mostly the first has addresses. Where it has none, the next are tried side by side.
    fn pack(
        &mut self,
        searched: &Searched,
        mut left: &[Found],
        target: Bytes,
    ) -> Result<(), Lacks> {
        let mut lacks = Lacks::default();
        let mut count = 1;
        if left.is_empty() {
            return Ok(());
        }
        while !left.is_empty() {
            let (some, others) = left.split_at(count.min(left.len()));
            (left, count) = (others, ABREAST);
            let some = some.iter().map(|found| searched.decided(found, target)).collect();
            for outcome in self.lower_first(some) {
                match outcome {
                    Ok(()) => return Ok(()),
                    Err(PlanError::Fragmented { short_by, budget, beyond, .. }) => {
                        let room = shrunk(target, budget, short_by);
                        if room > lacks.room {
                            lacks = Lacks { room, beyond };
                        }
                    }
                    Err(_) => {}
                }
            }
        }
        Err(lacks)
    }
}
