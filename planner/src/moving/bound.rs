//! A time that no plan can beat, wherever what outlives the iteration begins and ends it.
//!
//! Cut the ops into stretches. As long as the first op of a stretch runs, what is on the device is no more
//! than the budget, what is on its way in included, and what that op reads, writes and works in is there. So of the
//! tensors that later ops of the stretch read and that were there before, all but so many bytes come back after that op: by a
//! copy in that begins then, or, of what an op makes, by running that op again. What that op reads has
//! to come from somewhere, too: a tensor that nothing else wants is shared out among the ops that might read
//! it again, so that a rerun brings back what it makes less its share of what it reads; and no more, all of them
//! together, than what is wanted of what they make. What is
//! not run again was on the device or the host when the stretch began, beside all that no op makes, and the
//! host has its limit. And of the constants that a stretch changes, all but so many bytes
//! leave by a copy.
//!
//! The copies run one after the other on their lanes, each in its time, reruns and ops on compute; so a stretch takes at least
//! the time in which lanes and reruns bring back enough, those first that bring most for their time and
//! fractions allowed, as well as that of
//! the copies out. Stretches run one after the other. Any way to cut gives a bound; the best is found among
//! some places.
//!
//! An update that the host's processor may run need not take any of that time on the device, nor read or
//! change anything there. But it takes that processor's time, which runs one after the other, each no sooner
//! than what the device runs before it in the trace. So for a stretch that goes to the iteration's end, some of its updates
//! are there, fractions allowed, whose time is no longer than the stretch's: what they alone read is not missing, what they
//! alone change does not leave, and compute goes without them. Which ones is chosen for each of the three by
//! itself, what does most for its time first. What no update alone does is shared out among those that do it:
//! all of them together bring no more than is there. For other stretches such updates count nothing.
//!
//! # Stretches together
//!
//! What is on the device as a stretch ends is there as the next begins, and what leaves in one comes back in
//! another. So a few stretches are looked at together, too, with a price for each lane in each stretch, and one for memory
//! as each stretch ends ([`priced`]). A stretch takes no less than any of its lanes is busy in it, and so no less than what
//! all of them are busy comes to at their prices, if these add up to no more than 1. What is on the device as a stretch
//! ends is no more than the room that the next one's first op leaves, and so costs no more than that room does.
//! So no plan takes less than what all its runs, its copies and its memory cost, less what the room costs. That is a sum,
//! of which each part is no less than the cheapest that it can be by itself (weak duality):
//!
//! - A tensor is on the device, on the host or on both as each stretch ends ([`courses`]). It comes back by a copy or by a
//!   rerun, has been copied out where it is on the host, and anew after each change. What no op makes is at the end where
//!   it was at the start, and on the device alone or on the host alone there. A copy during which a stretch ends
//!   takes memory then, and is of both stretches in parts; so it costs no less than one that is made before, and, coming
//!   in, takes memory, or one that is made after, and, going out, takes memory: one of the two is the cheaper.
//! - An update that the host's processor may run takes the device's time, and what it alone of them reads is there and
//!   changed then; or it takes the host's time, in its stretch or a later one, and what ops have made of that has been
//!   copied out. What more than one of them reads counts nothing for them.
//! - A rerun takes its time, and what it reads is on the device in that stretch. What neither this nor any later stretch
//!   wants but for reruns has been there as the stretch began, has come in or was made again in it, and costs the least of
//!   that. Reruns share that cost: their parts add up to no more than all of it. And what a rerun costs is shared, by
//!   bytes, among what it makes that is of use.
//!
//! Any prices give a bound; [`ascent`] looks for those that give the best.
//!
//! Where tensors may be compressed, fewer bytes than theirs may be on the way, and only ops count.

mod ascent;
mod courses;
mod linear;
mod priced;

use schema::{Bytes, Direction, Nanos, OpId, Phase, Processor, TensorId, Trace};

use super::LONG;
use crate::bound::{Runs, time_again};
use crate::cut::needed_at_least;
use crate::kept_load::{fullest, kept_load};
use crate::{Bound, Problem};
use priced::Priced;

/// Stretches begin and end at so many places at most, and where another phase begins if that is at no more. With updates
/// in the backward phase it is at each parameter, and stretches are as many as the square of that.
const PLACES: usize = 48;

/// What a time of compute is worth, in bytes that the link brings in in so much time. Any gives a bound.
const PRICES: [f64; 9] = [0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, f64::INFINITY];

/// What no plan beats that may have on the host, between iterations, what outlives them and no op makes.
pub fn bound(problem: &Problem) -> Bound {
    let (needed, op) = needed_at_least(problem, true);
    if needed > problem.budget {
        return Bound::Infeasible { needed, op };
    }
    let trace = problem.trace;
    let outlives = tensors(trace).filter(|id| problem.model.last_use(*id).is_none());
    let all: Bytes = outlives.map(|id| trace.tensors[id.index()].bytes).sum();
    let needed = all.saturating_sub(problem.host_budget);
    if needed > problem.budget {
        let op = OpId::from_index(trace.ops.len().saturating_sub(1));
        return Bound::Infeasible { needed, op };
    }
    let ops = (0..trace.ops.len()).map(OpId::from_index);
    let here = ops.filter(|op| problem.update_time_there(*op).is_none());
    let total = here.map(|op| trace.ops[op.index()].device_time().0).sum::<u64>();
    if problem.allowed.compress || !problem.allowed.swap {
        return Bound::Time(Nanos(total));
    }
    let least = stretches(problem).max(together(problem));
    Bound::Time(Nanos(least.max(total).max(trace.net_time().0)))
}

/// The least time of a few stretches together, whose lanes and memory have prices.
fn together(problem: &Problem) -> u64 {
    let trace = problem.trace;
    if trace.ops.is_empty() || trace.ops.len() > LONG {
        return 0;
    }
    ascent::most(&Priced::new(problem, turning(problem))).0
}

/// Where such stretches begin: at the first op, at the one during which most is there, where nothing leaves before it is
/// used for the last time, and where only updates are left.
fn turning(problem: &Problem) -> Vec<usize> {
    let ops = &problem.trace.ops;
    let updates = ops.iter().rposition(|op| op.phase != Phase::Update).map_or(0, |op| op + 1);
    let mut begins = vec![0, fullest(&kept_load(problem))];
    begins.extend(Some(updates).filter(|op| *op < ops.len()));
    begins.sort_unstable();
    begins.dedup();
    begins
}

/// The least time of the best stretches.
fn stretches(problem: &Problem) -> u64 {
    let ops = problem.trace.ops.len();
    let places = places(problem);
    let mut least = vec![0u64; places.len()];
    for (from, begin) in places.iter().enumerate().take(places.len() - 1) {
        let mut stretch = Stretch::new(problem, *begin);
        let mut to = from + 1;
        for op in *begin..ops {
            stretch.add(op);
            if places.get(to) == Some(&(op + 1)) {
                if op + 1 == ops {
                    stretch.end();
                }
                let beyond = least[to].saturating_sub(least[from]);
                least[to] = least[to].max(least[from] + stretch.least_time(beyond));
                to += 1;
            }
        }
    }
    least.last().copied().unwrap_or(0)
}

/// Where stretches begin and end: of so many ops in a row, at the one that leaves the least room.
fn places(problem: &Problem) -> Vec<usize> {
    let ops = &problem.trace.ops;
    let every = ops.len().div_ceil(PLACES).max(1);
    let fullest = |begin: usize| {
        let range = begin..(begin + every).min(ops.len());
        range.max_by_key(|op| (made_by(problem, *op), std::cmp::Reverse(*op)))
    };
    let mut places: Vec<usize> = (0..ops.len()).step_by(every).filter_map(fullest).collect();
    places.extend([0, ops.len()]);
    let turns = (1..ops.len()).filter(|op| ops[*op].phase != ops[op - 1].phase);
    let turns: Vec<usize> = turns.collect();
    if turns.len() <= PLACES {
        places.extend(turns);
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Whether the device runs an op in every plan.
fn is_here(problem: &Problem, op: usize) -> bool {
    let on_device = problem.trace.ops[op].on == Processor::Device;
    on_device && problem.update_time_there(OpId::from_index(op)).is_none()
}

fn tensors(trace: &Trace) -> impl Iterator<Item = TensorId> + use<> {
    (0..trace.tensors.len()).map(TensorId::from_index)
}

/// What an op takes of the device when it starts, beside all that was there before: nothing, where another
/// processor may run it.
fn made_by(problem: &Problem, op: usize) -> u64 {
    if !is_here(problem, op) {
        return 0;
    }
    let bytes = |id: &TensorId| problem.trace.tensors[id.index()].bytes.0;
    let op = &problem.trace.ops[op];
    let over = op.in_place.iter().map(|pair| bytes(&pair.input).min(bytes(&pair.output)));
    op.writes.iter().map(bytes).sum::<u64>().saturating_sub(over.sum()) + op.workspace.0
}

/// Ops in a row, and what they want.
struct Stretch<'a> {
    problem: &'a Problem<'a>,
    begin: usize,
    /// What of the budget the first op leaves for what it does not make.
    room: u64,
    time: u64,
    /// Of that, the first op's.
    first: u64,
    read: Vec<bool>,
    changed: Vec<bool>,
    /// The tensors that are read and were there before, and those that change.
    wanted: Copied,
    leaving: Copied,
    /// Bytes of what has to be somewhere when it begins, or to be made again: constants, and what is read.
    there: u64,
    /// Those of its ops that the host's processor may run, and what having them there spares.
    updates: Vec<OpId>,
    spared: Spared,
    is_last: bool,
}

/// Bytes of some tensors, and the time and bytes of a copy of each.
#[derive(Default)]
struct Copied {
    bytes: u64,
    copies: Vec<(u64, u64)>,
}

impl Copied {
    fn add(&mut self, problem: &Problem, way: Direction, bytes: Bytes) {
        self.bytes += bytes.0;
        if bytes > Bytes::ZERO {
            self.copies.push((problem.machine.link.copy_time(way, bytes).0, bytes.0));
        }
    }
}

/// What updates on the host spare the device: each with the time that it takes there.
struct Spared {
    time: Runs,
    wanted: Runs,
    leaving: Runs,
}

impl<'a> Stretch<'a> {
    fn new(problem: &'a Problem<'a>, begin: usize) -> Self {
        let none = vec![false; problem.trace.tensors.len()];
        let is_constant = |id: &TensorId| problem.model.producer(*id).is_none();
        let constants = tensors(problem.trace).filter(is_constant);
        Self {
            problem,
            begin,
            room: problem.budget.0.saturating_sub(made_by(problem, begin)),
            time: 0,
            first: 0,
            read: none.clone(),
            changed: none,
            wanted: Copied::default(),
            leaving: Copied::default(),
            there: constants.map(|id| problem.trace.tensors[id.index()].bytes.0).sum(),
            updates: Vec::new(),
            spared: Spared { time: Runs::none(), wanted: Runs::none(), leaving: Runs::none() },
            is_last: false,
        }
    }

    fn add(&mut self, op: usize) {
        match self.problem.update_time_there(OpId::from_index(op)) {
            Some(_) => self.updates.push(OpId::from_index(op)),
            None if is_here(self.problem, op) => self.add_here(op),
            // When the net runs what is not for a stretch of the device's ops to say.
            None => {}
        }
        if op == self.begin {
            self.first = self.time;
        }
    }

    /// What an op wants that the device runs.
    fn add_here(&mut self, op: usize) {
        let Problem { trace, model, .. } = self.problem;
        self.time += trace.ops[op].device_time().0;
        for id in &trace.ops[op].reads {
            let bytes = trace.tensors[id.index()].bytes;
            if self.was_there(*id) && !std::mem::replace(&mut self.read[id.index()], true) {
                self.wanted.add(self.problem, Direction::H2d, bytes);
                self.there += if model.producer(*id).is_some() { bytes.0 } else { 0 };
            }
            let changes = model.changes(OpId::from_index(op), *id);
            if changes && !std::mem::replace(&mut self.changed[id.index()], true) {
                self.leaving.add(self.problem, Direction::D2h, bytes);
            }
        }
    }

    /// The stretch goes to the iteration's end: as if the device ran all updates, and what it is spared by
    /// those that it does not run.
    fn end(&mut self) {
        self.is_last = true;
        let Problem { trace, model, .. } = self.problem;
        let bytes = |id: TensorId| trace.tensors[id.index()].bytes.0;
        // Of what only updates read or change: how many of them do.
        let mut of = vec![(0u64, 0u64); trace.tensors.len()];
        let updates = std::mem::take(&mut self.updates);
        for op in &updates {
            for id in &trace.ops[op.index()].reads {
                let (reads, changes) = &mut of[id.index()];
                *reads += u64::from(self.was_there(*id) && !self.read[id.index()]);
                *changes += u64::from(model.changes(*op, *id) && !self.changed[id.index()]);
            }
        }
        let [mut time, mut wanted, mut leaving] = [const { Vec::new() }; 3];
        for op in &updates {
            let (of_op, of) = (&trace.ops[op.index()], &of);
            let there = self.problem.update_time_there(*op).map_or(0, |time| time.0);
            let shares = |of: &dyn Fn(TensorId) -> u64| -> u64 {
                let shared = of_op.reads.iter().filter(|id| of(**id) > 0);
                shared.map(|id| bytes(*id).div_ceil(of(*id))).sum()
            };
            time.push((there, of_op.device_time().0));
            wanted.push((there, shares(&|id| of[id.index()].0)));
            let changes = |id| if model.changes(*op, id) { of[id.index()].1 } else { 0 };
            leaving.push((there, shares(&changes)));
        }
        let [time, wanted, leaving] = [time, wanted, leaving].map(runs);
        self.spared = Spared { time, wanted, leaving };
        updates.iter().for_each(|op| self.add_here(op.index()));
    }

    /// Whether a tensor is made before the stretch begins, or by no op.
    fn was_there(&self, id: TensorId) -> bool {
        self.problem.model.producer(id).is_none_or(|made| made.index() < self.begin)
    }

    /// What ops that ran before the stretch bring back when they run again in it, once for each price.
    ///
    /// Let `x` be how much of each op runs again, from 0 to 1. Of a tensor that only reruns read, as much comes
    /// from elsewhere as the most of any reader less `x` of its maker, which is no less than any mean of its readers
    /// less that, and no less than a part of it. Whichever means and parts are taken, then, what is wanted
    /// of what runs again less what has to come from elsewhere is at most a sum over ops of `x` times a constant:
    /// bytes that the op makes, less its shares of what it reads, each at its part. A price of time says which
    /// parts: so much that no tensor costs more than its bytes, nor than making it again.
    fn reruns(&self) -> Vec<Runs> {
        let Problem { trace, model, machine, .. } = self.problem;
        let bytes = |id: TensorId| trace.tensors[id.index()].bytes.0;
        // What the first op reads is there.
        let first = is_here(self.problem, self.begin).then(|| &trace.ops[self.begin].reads[..]);
        let first = first.unwrap_or_default();
        let is_wanted = |id: &TensorId| self.read[id.index()] && !first.contains(id);
        let is_more = |id: &TensorId| model.producer(*id).is_some() && !self.read[id.index()];
        // Of what only reruns read: how many of them do, or of them those that make what is wanted where there are such.
        // An op is later than those that make what it reads.
        let mut readers = vec![(0u64, 0u64); trace.tensors.len()];
        let mut again = Vec::new();
        for op in (0..self.begin).rev().map(OpId::from_index) {
            let of = &trace.ops[op.index()];
            let made = of.writes_again().iter().filter(|id| model.remade_by(**id) == Some(op));
            let (wanted, rest): (Vec<TensorId>, Vec<TensorId>) = made.copied().partition(is_wanted);
            let wanted: u64 = wanted.into_iter().map(bytes).sum();
            let is_read = |id: &TensorId| is_more(id) && readers[id.index()] != (0, 0);
            let more: Vec<TensorId> = rest.into_iter().filter(is_read).collect();
            if (wanted > 0 || !more.is_empty()) && self.problem.may_run_again(op) {
                for id in of.reads_again() {
                    let (makers, others) = &mut readers[id.index()];
                    *if wanted > 0 { makers } else { others } += 1;
                }
                again.push((op, wanted, more));
            }
        }
        let share = |of: &TensorId, wanted: u64| match readers[of.index()] {
            (0, others) => 1.0 / others as f64,
            (makers, _) if wanted > 0 => 1.0 / makers as f64,
            _ => 0.0,
        };
        let speed = machine.link.copy_time(Direction::H2d, Bytes(1 << 30)).0.max(1);
        let speed = (1u64 << 30) as f64 / speed as f64;
        let price = |per_time: f64| {
            // What a tensor costs that only reruns read: its bytes, or what its maker takes, if less.
            let mut costs = vec![0.0; trace.tensors.len()];
            tensors(trace).filter(is_more).for_each(|id| costs[id.index()] = bytes(id) as f64);
            let mut gains = Vec::with_capacity(again.len());
            for (op, wanted, more) in again.iter().rev() {
                let time = time_again(self.problem, *op);
                let reads = trace.ops[op.index()].reads_again().iter().filter(|id| is_more(id));
                let reads: f64 = reads.map(|id| costs[id.index()] * share(id, *wanted)).sum();
                let made: u64 = more.iter().copied().map(bytes).sum();
                let cost = (reads + per_time * time as f64 - *wanted as f64).max(0.0);
                let of_bytes = (cost / made as f64).min(1.0);
                more.iter().for_each(|id| costs[id.index()] = bytes(*id) as f64 * of_bytes);
                let gain = *wanted as f64 + made as f64 * of_bytes - reads;
                gains.push((time, gain.max(0.0).ceil() as u64));
            }
            runs(gains)
        };
        // For the last stretch alone it is worth the time to try many.
        let prices = if self.is_last { &PRICES[..] } else { &PRICES[4..5] };
        prices.iter().map(|of| price(of * speed)).collect()
    }

    /// The least time; or, where that is no longer than `beyond`, any time that is not.
    fn least_time(&self, beyond: u64) -> u64 {
        let budget = self.problem.budget.0;
        let missing = self.wanted.bytes.saturating_sub(self.room) as f64;
        let leaving = self.leaving.bytes.saturating_sub(budget) as f64;
        let [back, out] = [&self.wanted, &self.leaving].map(|of| runs(of.copies.clone()));
        let back = |time: u64| {
            let time = time.saturating_sub(self.first);
            back.brought_back(time) + self.spared.wanted.brought_back(time)
        };
        let out =
            |time: u64| out.brought_back(time) + self.spared.leaving.brought_back(time) >= leaving;
        // What the ops that the device runs leave of a time, where that is enough for them.
        let left = |time: u64| {
            let spared = self.spared.time.brought_back(time).ceil() as u64;
            (time + spared).checked_sub(self.time)
        };
        let held = self.room.saturating_add(self.problem.host_budget.0);
        let nowhere = self.there.saturating_sub(held) as f64;
        let ops = first(0, |time| left(time).is_some());
        // Without a rerun it takes no less.
        let alone = first(ops, |time| back(time) >= missing && out(time));
        if nowhere == 0.0 && alone <= beyond.max(ops) {
            return alone;
        }
        let reruns = self.reruns();
        let again =
            |time| reruns.iter().map(|runs| runs.brought_back(time)).fold(f64::INFINITY, f64::min);
        // Where nothing suffices there is no plan, which is for others to say.
        let nowhere = nowhere.min(again(1 << 60));
        first(ops, |time| {
            let again = again(left(time).unwrap_or(0));
            back(time) + again >= missing && again >= nowhere && out(time)
        })
    }
}

/// Runs that are of any use.
fn runs(all: Vec<(u64, u64)>) -> Runs {
    Runs::new(all.into_iter().filter(|(_, bytes)| *bytes > 0).collect())
}

/// The first time from a time on at which something holds, as it does from then on.
fn first(from: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(from) {
        return from;
    }
    let (mut too_little, mut enough) = (from, from.saturating_add(Nanos::MOST.0));
    while enough - too_little > 1 {
        let middle = too_little + (enough - too_little) / 2;
        if holds(middle) { enough = middle } else { too_little = middle }
    }
    enough
}
