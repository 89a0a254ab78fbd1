//! The search over sequences of runs.

use std::borrow::Cow;

use schema::Bytes;
use simulator::Step;

use super::course::{Course, LONG};
use super::options::policy_of_sequences;
use super::packed::Packed;
use super::reserve::{Left, Reserve, Stage};
use super::searched::{Leg, Searched};
use crate::cut::{Carried, Several, carried, lazy};
use crate::fit::{share, shrunk};
use crate::kept_load::{certain_load, fullest};
use crate::lower::Effort;
use crate::runs::{Parts, steps_of};
use crate::{Allowed, Beyond, Decided, PlanError, Progress};

/// Shares of the memory, in thousandths, for which is searched until something can be packed. Where what is
/// found lacks something, the next is one in which that is there.
const ROOMS: [u64; 8] = [1000, 998, 994, 985, 970, 940, 900, 850];

/// The same for cuts that are carried out as they stand.
const CUT_ROOMS: [u64; 3] = [1000, 980, 950];

/// A plan is good enough that is slower than what a search found by no more than this part.
const GOOD_ENOUGH: u64 = 2000;

/// Of what was found, so many are given addresses side by side.
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
    pub(super) fn cuts_at(
        &self,
        allowed: Allowed,
        parts: &Parts,
        place: usize,
        room: u64,
    ) -> Carried {
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
            all.retain(|(time, _)| !self.is_within(*time));
            let decided = all.into_iter().map(|(_, steps)| {
                Decided::from_steps(self.problem, steps, policy).taken_from("a minimum cut")
            });
            match self.pack(decided, self.target, Effort::Little) {
                Ok(()) => return,
                Err(lacks) if lacks.room > Bytes::ZERO => enough = lacks.room,
                Err(_) => {}
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

    /// Goes leg after leg in a share of the memory. Where what is found has no addresses when legs gain nothing more, some of
    /// it is left free when that lacked some ([`Reserve`]), and legs go on. Returns how little memory is enough to search
    /// for next; nothing where that would be of no use.
    fn search_in(&mut self, room: u64, searched: &mut Searched) -> Option<Bytes> {
        let target = share(self.target, room);
        let total = searched.problem.trace.total_time().0;
        let course = Course::new(searched, self.problem.allowed);
        let (mut reserve, mut begun) = (Reserve::default(), 0);
        searched.parts.reserved.clear();
        let mut given = searched.given.clone();
        let (mut enough, mut before) = (self.target, None);
        for number in 0.. {
            if number > 0 && !course.at_once && !searched.had_several {
                searched.had_several = true;
                let several = self.several_places();
                if self.is_within(total + several.extra) {
                    return None;
                }
                given.splice(0..0, several.sequences.iter().cloned());
                searched.given.splice(0..0, several.sequences.iter().cloned());
            }
            let stage = reserve.stage();
            let quarters = course.quarters(room == ROOMS[0], number, stage, before.is_some());
            let leg = Leg { target, number, room, quarters };
            let found = match searched.found(self.monitor, leg, &given) {
                Ok(found) => found,
                Err(_) if stage != Stage::Free => return Some(enough),
                Err(nearest) => {
                    if let Some((peak, op)) = nearest {
                        self.came_near(Bytes(peak as u64), op);
                    }
                    // What no search makes fit into all that there is hardly fits into less.
                    if course.at_once || number > 0 {
                        return None;
                    }
                    continue;
                }
            };
            let (cost, kept) = (found[0].cost, self.time());
            let goes_on = course.goes_on(number + 1 - begun, before.replace(cost), cost);
            let faster = found.iter().take_while(|found| total + found.cost < kept).count();
            let tries = course.tries(stage, goes_on);
            let faster = found[..faster.min(tries)].iter();
            // Where nothing is to have addresses, nothing lacks.
            let packed = match faster.len() {
                0 => Ok(()),
                _ => {
                    let decided = faster.map(|found| searched.decided(found, target));
                    self.pack(decided, target, Effort::Full)
                }
            };
            if !self.monitor.proceed(Progress { phase: "addresses", done: 1, of: 1 }) {
                return None;
            }
            given = found.into_iter().take(2).map(|found| found.reruns).collect();
            searched.given.splice(0..0, given.iter().cloned());
            let fastest = total + cost;
            let is_enough = self.is_within(fastest.saturating_add(fastest / GOOD_ENOUGH));
            let bytes = searched.parts.reserved.clone();
            let left = Left { bytes, found: given.clone(), cost };
            let next = match packed {
                Err(_) if goes_on && stage == Stage::Free && course.may_reserve() => continue,
                Err(_) if goes_on && stage == Stage::Last => continue,
                Err(_) if is_enough => return None,
                Err(lacks) => {
                    enough = if lacks.room > Bytes::ZERO { lacks.room } else { enough };
                    let next = (course.may_reserve())
                        .then(|| reserve.was_too_little(left, &lacks.beyond, target));
                    match next.flatten() {
                        Some(next) => next,
                        None => return Some(enough),
                    }
                }
                Ok(()) if matches!(stage, Stage::Grown(_) | Stage::Halved(_)) => {
                    reserve.was_enough(left)
                }
                // With less room, what is found is hardly faster.
                Ok(()) if room < ROOMS[0] && fastest >= kept => return None,
                // But a plan that was made to fit with copies that start later may be slower than one of the next room.
                Ok(()) if !goes_on => return (!is_enough).then_some(enough),
                Ok(()) => continue,
            };
            searched.parts.reserved = next.bytes;
            (given, begun) = (next.found, number);
            before = (reserve.stage() == Stage::Last).then_some(next.cost);
        }
        None
    }

    /// Gives the fastest addresses, up to one that has some; or else says what that lacked which lacked least. Mostly
    /// the first has addresses. Where it has none, the next are tried side by side.
    fn pack(
        &mut self,
        mut fastest: impl Iterator<Item = Decided>,
        target: Bytes,
        effort: Effort,
    ) -> Result<(), Lacks> {
        let mut lacks = Lacks::default();
        let mut count = 1;
        loop {
            let some: Vec<Decided> = fastest.by_ref().take(count).collect();
            if some.is_empty() {
                return Err(lacks);
            }
            count = ABREAST;
            for outcome in self.lower_first(some, effort) {
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
    }
}
