//! The search for the sequence that costs least.

use super::repair::{Prices, Room, Stretch, Weights};
use super::{Item, Key, Parts, Rerun, Runs, stage};
use crate::split_mix::SplitMix;

/// A sequence that fits: what it costs, and its reruns and items.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub cost: u64,
    pub reruns: Vec<Rerun>,
}

/// What a search comes to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// What was the best one after the other, the last few, the best last.
    pub found: Vec<Found>,
    /// Where nothing fits: the lowest peak of what was tried, and the op before whose end it is reached.
    pub nearest: Option<(i64, usize)>,
}

/// So many starts are made of nothing, beside those that are given.
const STARTS: usize = 12;

/// Temperatures of the first and the last round, as parts of what the reruns cost at first.
const TEMPERATURES: [f64; 2] = [3e-3, 1e-4];

/// So many reruns are taken out at once at most.
const MOST_RUINED: f64 = 20.0;

/// What costs more than so many times as much as a given sequence that does not fit is not all: that one is brought
/// down by small steps, too.
const DEAR: f64 = 1.1;

/// So many of the given ones are brought down, until one fits.
const BROUGHT_DOWN: usize = 3;

/// Where something is copied or compressed, no more than this part of all, or so many: stalls of other
/// copies say little of what much else would take.
const RUINED: (f64, f64) = (0.05, 3.0);

/// There, of a hundred tensors, one of these is how many a repair does not look at, nine times in ten:
/// what is cheapest by prices is seldom what copies have time for.
const SKIPPED: [u64; 3] = [50, 80, 95];

/// There, one in so many repairs has tensors on the device while they are copied. In the others what
/// time copies have is left to the evaluator.
const SLOW: u64 = 5;

/// One in so many repairs, of starts and of rounds, may hold inputs at a price where there is no room.
const HOLDING: u64 = 4;

/// How much slower a round may be expected to be than the sequence from which it comes to be judged
/// all the same, as a part of what the first sequence costs.
const GUESS: f64 = 0.03;

/// What goes on begins at so many times the temperature, where nothing is copied or compressed, and where something is.
const HOTTER: [f64; 2] = [3.0, 10.0];

/// In half of its repairs it leaves up to this part of the memory free: where memory is full to the brim at all times,
/// nothing can move but by leaving first.
const SPARE: f64 = 0.15;

/// So many rounds pass between two looks at whether to go on.
const LOOK: u64 = 64;

/// Work that a rerun counts for which is put in, taken out or tried, in tensors and ops looked at.
pub(super) const PER_RERUN: u64 = 30;

/// Of what was the best, so much is kept: what comes after may have addresses where the best has none.
const KEPT: usize = 20;

/// How far a search goes, and from where.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub budget: i64,
    /// Sequences to begin with, beside some made of nothing.
    pub given: &'a [Vec<Rerun>],
    pub seed: u64,
    /// The op at which what is given has all away that is to be.
    pub place: usize,
    /// Work, so that the same seed finds the same.
    pub effort: u64,
    /// Whether another search was before: none begins with nothing then, this one begins hotter, and where something is
    /// copied or compressed, it leaves some memory free now and then.
    pub goes_on: bool,
    /// What a nanosecond of each lane costs, against one of compute.
    pub lanes: Prices,
    /// Whether to go on, given the work done and the effort.
    pub proceed: &'a (dyn Fn(u64, u64) -> bool + Sync),
}

/// What says of sequences in which something is copied or compressed what they take, with the work that
/// saying so takes.
pub(crate) trait Judge {
    /// How much longer an iteration takes than without reruns, if it fits.
    fn cost(&mut self, reruns: &[Rerun]) -> (Option<u64>, u64);
}

/// Searches for the sequence that costs least: from given ones and some made of nothing, the best of
/// which is ruined a little and repaired, again and again (ruin and recreate, Schrimpf et al.,
/// 2000), where what costs a little more is now and then taken (simulated annealing). Where nothing
/// is copied a sequence costs what its reruns take; else a judge says.
pub(crate) fn search(parts: &Parts, search: Search, mut judge: Option<&mut dyn Judge>) -> Outcome {
    let Search { budget, effort, proceed, .. } = search;
    let mut random = SplitMix::new(search.seed);
    let mut room = Room::default();
    let mut started = search.start(parts, &mut judge, &mut random, &mut room);
    // What begins later has as much left as what needed none of bringing down.
    let begin = room.work.min(effort / 3);
    let nearest = search.bring_down(parts, &mut started, &mut judge, &mut random, &mut room);
    room.work = begin;
    let Started { mut found, fastest, .. } = started;
    let Some((mut best, mut runs)) = fastest.filter(|_| proceed(begin, effort)) else {
        return Outcome { found, nearest };
    };
    let mut current = best;
    let begin = room.work;
    let mut guessed = runs.guess();
    let first = best as f64;
    let roams = search.goes_on && judge.is_some();
    let hotter = if search.goes_on { HOTTER[usize::from(roams)] } else { 1.0 };
    let hottest = TEMPERATURES[0] * hotter;
    let mut rounds = 0u64;
    while room.work < effort && best > 0 {
        rounds += 1;
        if rounds.is_multiple_of(LOOK) && !proceed(room.work, effort) {
            break;
        }
        let done = (room.work - begin) as f64 / (effort - begin) as f64;
        let temperature = first * hottest * (TEMPERATURES[1] / hottest).powf(done);
        let limit = current as f64 - temperature * random.unit().max(1e-12).ln();
        runs.settle();
        let mut weights = search.weights(&mut random, true);
        let mut most = MOST_RUINED;
        if judge.is_some() {
            most = most.min((RUINED.0 * runs.reruns().len() as f64).max(RUINED.1));
            weights.slow = random.below(SLOW) == 0;
            if random.below(10) > 0 {
                weights.skipped = SKIPPED[random.below(3) as usize];
            }
        }
        runs.ruin(most, None, &mut random);
        let slack = limit * 1.01;
        room.until = room.work + effort / Search::ROUNDS;
        let spare = match roams && random.below(2) == 0 {
            true => (budget as f64 * SPARE * random.unit()) as i64,
            false => 0,
        };
        let mut fits = runs.repair(budget - spare, slack as u64, weights, &mut random, &mut room);
        if fits {
            let touched = runs.touched();
            runs.prune(touched, budget, &mut random, &mut room);
        }
        room.work += PER_RERUN * runs.mark() as u64;
        let guess = runs.guess();
        if parts.has_codecs {
            // What is likely to be slower is seldom worth the judge's time.
            fits &= guess < guessed - GUESS * first * random.unit().max(1e-12).ln();
        }
        let cost = if fits { cost_of(&runs, limit, &mut judge, &mut room) } else { None };
        match cost.filter(|cost| *cost as f64 <= limit) {
            None => runs.back_to(0),
            Some(cost) => {
                current = cost;
                guessed = guess;
                if cost < best {
                    best = cost;
                    keep(&mut found, cost, &runs);
                }
            }
        }
    }
    Outcome { found, nearest: None }
}

/// What a sequence costs, if it fits and that is no more than a limit.
fn cost_of(
    runs: &Runs,
    limit: f64,
    judge: &mut Option<&mut dyn Judge>,
    room: &mut Room,
) -> Option<u64> {
    if runs.cost() as f64 > limit {
        return None;
    }
    let Some(judge) = judge else { return Some(runs.cost()) };
    let (cost, work) = judge.cost(runs.reruns());
    room.work += work;
    cost
}

fn keep(found: &mut Vec<Found>, cost: u64, runs: &Runs) {
    if found.len() == KEPT {
        found.remove(0);
    }
    found.push(Found { cost, reruns: runs.reruns().to_vec() });
}

/// Where a search begins.
#[derive(Default)]
struct Started<'a> {
    /// What was the best one after the other, and the best of it.
    found: Vec<Found>,
    fastest: Option<(u64, Runs<'a>)>,
    /// What failed to be repaired with the lowest peak.
    unrepaired: Option<Runs<'a>>,
}

impl<'a> Started<'a> {
    /// Keeps a sequence that fits, if it is the best.
    fn note(&mut self, cost: u64, runs: Runs<'a>) {
        if self.found.last().is_none_or(|best| cost < best.cost) {
            keep(&mut self.found, cost, &runs);
            self.fastest = Some((cost, runs));
        }
    }
}

impl Search<'_> {
    /// Of all work, one of so many parts is spent on one round at most.
    pub(super) const ROUNDS: u64 = 100;

    /// Repairs what is given and some made of nothing.
    fn start<'a>(
        &self,
        parts: &'a Parts,
        judge: &mut Option<&mut dyn Judge>,
        random: &mut SplitMix,
        room: &mut Room,
    ) -> Started<'a> {
        let Search { budget, given, effort, .. } = *self;
        let mut limit = parts.clock[parts.ops()].saturating_mul(8);
        let starts = (given.iter().map(|reruns| (reruns.as_slice(), true)))
            .filter(|(reruns, _)| {
                parts.has_codecs && !reruns.iter().any(|(_, op)| parts.is_hold(*op))
            })
            .chain(given.iter().map(|reruns| (reruns.as_slice(), false)))
            .chain((0..if self.goes_on { 0 } else { STARTS }).map(|_| (&[][..], false)));
        let mut started = Started::default();
        // As they stand, first: with copies, what seems to be of no use may give others their time.
        for runs in given.iter().map(|reruns| Runs::with(parts, reruns)) {
            if runs.peak() <= budget
                && let Some(cost) = cost_of(&runs, f64::MAX, judge, room)
            {
                limit = (cost + cost / 2).min(limit);
                started.note(cost, runs);
            }
        }
        for (start, (reruns, is_spread)) in starts.enumerate() {
            let none_yet = started.found.is_empty();
            let most = if none_yet { effort } else { effort / 3 };
            if room.work > most {
                break;
            }
            let mut runs = Runs::with(parts, reruns);
            if is_spread {
                runs.spread(self.place);
            }
            room.until = if none_yet { effort } else { room.work + effort / 6 };
            let rough = start > 0 && reruns.is_empty();
            let weights = self.weights(random, rough);
            if runs.repair(budget, limit, weights, random, room) {
                let all = runs.reruns().to_vec();
                runs.prune(all, budget, random, room);
                if let Some(cost) = cost_of(&runs, f64::MAX, judge, room) {
                    limit = (cost + cost / 2).min(limit);
                    started.note(cost, runs);
                }
            } else if started.unrepaired.as_ref().is_none_or(|other| runs.peak() < other.peak()) {
                started.unrepaired = Some(runs);
            }
            if !(self.proceed)(room.work, effort) {
                break;
            }
        }
        started
    }

    /// Brings down by small steps what does not fit: of what is given the first, if nothing costs about as little; or
    /// where nothing fits, some, and last what could not be repaired. Returns the lowest peak that is reached, where
    /// nothing fits then, and the op before whose end that is.
    fn bring_down<'a>(
        &self,
        parts: &'a Parts,
        started: &mut Started<'a>,
        judge: &mut Option<&mut dyn Judge>,
        random: &mut SplitMix,
        room: &mut Room,
    ) -> Option<(i64, usize)> {
        let fastest = started.fastest.as_ref().map(|(cost, _)| *cost as f64);
        let is_above = |runs: &Runs| {
            let is_dear = fastest.is_none_or(|cost| cost > DEAR * runs.cost() as f64);
            runs.peak() > self.budget && is_dear
        };
        let most = if fastest.is_some() { 1 } else { BROUGHT_DOWN };
        let given = self.given.iter().take(most).map(|reruns| Runs::with(parts, reruns));
        let unrepaired = started.unrepaired.take().filter(|_| fastest.is_none());
        let mut lowest = None;
        for mut runs in given.filter(is_above).chain(unrepaired) {
            if !(self.proceed)(room.work, self.effort) {
                return None;
            }
            let fits = self.descend(&mut runs, self.effort, random, room);
            let cost = fits.then(|| cost_of(&runs, f64::MAX, judge, room)).flatten();
            match cost {
                Some(cost) => started.note(cost, runs),
                None => {
                    let place = (runs.peak(), stage(runs.load.fullest()));
                    lowest = lowest.into_iter().chain([place]).min();
                }
            }
            if started.fastest.is_some() {
                return None;
            }
        }
        lowest
    }

    /// The weights of one repair.
    pub(super) fn weights(&self, random: &mut SplitMix, rough: bool) -> Weights {
        let factor = if rough { [0.3, 1.0, 3.0][random.below(3) as usize] } else { 1.0 };
        let [out, back, code, decode] = self.lanes;
        Weights {
            noise: if rough { [0.1, 0.3, 1.0][random.below(3) as usize] } else { 0.0 },
            stretch: [Stretch::Not, Stretch::AsItsRoot, Stretch::Fully][random.below(3) as usize],
            skipped: if rough { [0, 10, 30][random.below(3) as usize] } else { 0 },
            holding: (random.below(HOLDING) == 0).then_some(1.0),
            lanes: {
                let codecs = factor * (0.5 + 1.5 * random.unit());
                [out * factor, back * factor, code * codecs, decode * codecs]
            },
            slow: random.below(6) > 0,
        }
    }
}

impl Runs<'_> {
    /// Takes out some reruns that are near each other, by when they run or by what runs: about the one at a place
    /// among them, or about any.
    pub(super) fn ruin(&mut self, most: f64, center: Option<usize>, random: &mut SplitMix) {
        let all = self.reruns().len();
        if all == 0 {
            return;
        }
        let count = (most.powf(random.unit()) as usize).clamp(1, all);
        let any = random.below(all as u64) as usize;
        let center = center.map_or(any, |center| center.min(all - 1));
        let (key, op) = self.reruns()[center];
        let place = |op: u32| self.parts.near[op as usize];
        let chosen: Vec<Rerun> = match random.below(3) {
            0 => {
                let begin = center.saturating_sub(random.below(count as u64) as usize);
                self.reruns()[begin..(begin + count).min(all)].to_vec()
            }
            near => {
                let far = |(other, again): &Rerun| {
                    let by_stage = stage(*other).abs_diff(stage(key));
                    let by_op = place(*again).abs_diff(place(op)) as usize;
                    by_op + if near == 1 { 0 } else { by_stage }
                };
                let mut sorted: Vec<(usize, Rerun)> =
                    self.reruns().iter().map(|rerun| (far(rerun), *rerun)).collect();
                sorted.select_nth_unstable(count - 1);
                sorted.truncate(count);
                sorted.into_iter().map(|(_, rerun)| rerun).collect()
            }
        };
        for rerun in chosen {
            self.erase_with_needless(rerun);
        }
    }

    /// The reruns that were put in since the journal was begun, and those beside them.
    pub(super) fn touched(&self) -> Vec<Rerun> {
        let reruns = self.reruns();
        let mut touched: Vec<Rerun> = Vec::new();
        for (inserted, (key, _)) in &self.journal {
            if *inserted {
                let at = reruns.partition_point(|(other, _)| other < key);
                touched.extend(&reruns[at.saturating_sub(2)..(at + 3).min(reruns.len())]);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Takes out, of some reruns, what the rest does without, the dearest first.
    pub(super) fn prune(
        &mut self,
        some: Vec<Rerun>,
        budget: i64,
        random: &mut SplitMix,
        room: &mut Room,
    ) {
        let mut by_time: Vec<(u64, Rerun)> = (some.into_iter())
            .map(|(key, op)| {
                let time = self.parts.time[op as usize] as f64;
                let back = |item: &Item| (item.copies[1] + item.codec[1]) as f64;
                let time =
                    (time + self.parts.item(op).map_or(0.0, back)) * (0.7 + 0.6 * random.unit());
                (time as u64, (key, op))
            })
            .collect();
        by_time.sort_unstable_by(|a, b| b.cmp(a));
        room.work += PER_RERUN * by_time.len() as u64;
        for (_, rerun) in by_time {
            if !self.is_there(rerun.0) || self.parts.is_hold(rerun.1) {
                continue;
            }
            let mark = self.mark();
            self.erase_with_needless(rerun);
            if self.peak() > budget {
                self.back_to(mark);
            }
        }
    }

    fn is_there(&self, key: Key) -> bool {
        self.reruns().binary_search_by_key(&key, |(key, _)| *key).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use schema::Bytes;
    use simulator::Policy;

    use super::*;
    use crate::Problem;
    use crate::runs::whole;

    /// What is found leaves free what is reserved, while it is.
    #[test]
    fn reserved_memory_is_left_free() {
        let machine = scenarios::machine("p100").expect("it is bundled");
        let mut found_in = 0;
        for family in crate::families::all() {
            let name = format!("{}:seed=7,ops=150", family.name);
            let trace = crate::families::family(&name).expect("a family");
            let peak = simulator::in_core(&trace).peak;
            let problem = Problem::new(&trace, &machine, Bytes(peak.0 * 3 / 4));
            let mut parts = Parts::new(&problem, Policy::ONCE_MADE);
            let all = Parts::new(&problem, Policy::ONCE_MADE);
            let (budget, ops) = (whole(problem.budget), trace.ops.len());
            let (first, last, bytes) = (ops / 4, ops / 2, budget / 20);
            let is_less = |op: usize| (first..=last).contains(&op);
            parts.reserved = (0..ops).map(|op| if is_less(op) { bytes } else { 0 }).collect();
            let how = Search {
                budget,
                given: &[],
                seed: 1,
                place: 0,
                effort: 20_000,
                goes_on: false,
                lanes: [0.1; 4],
                proceed: &|_, _| true,
            };
            let found = search(&parts, how, None).found;
            for found in &found {
                let runs = Runs::with(&all, &found.reruns);
                assert!(runs.peak() <= budget, "{name}");
                assert!(runs.load.most_within(first, last + 1) <= budget - bytes, "{name}");
            }
            found_in += usize::from(!found.is_empty());
        }
        assert!(found_in > 5, "{found_in}");
    }
}
