//! Making a sequence fit: reruns are put in until no run takes more than the budget.

use super::{Item, Key, NOTHING, Rerun, Runs, Way, first_run, stage};
use crate::split_mix::SplitMix;

/// How a repair weighs what it may give up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    /// Times are taken times a factor from `1 / (1 + noise)` to `1 + noise`.
    pub noise: f64,
    /// How it counts in how many stages there is too much meanwhile.
    pub stretch: Stretch,
    /// Of a hundred tensors, so many are not looked at.
    pub skipped: u64,
    /// What holding a byte for a stage costs where there is no room for it, as a part of the
    /// average that giving up has cost; none: whatever the cheapest is, inputs are held only where
    /// there is room.
    pub holding: Option<f64>,
    /// What a nanosecond of each lane costs, against one of compute.
    pub lanes: Prices,
    /// Tensors are there while they are copied or a codec works on them.
    pub slow: bool,
}

/// What a nanosecond of copies out and in, of compressions and of decompressions costs, where these
/// have a lane, against one of compute.
pub(crate) type Prices = [f64; 4];

/// How a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretch {
    Not,
    AsItsRoot,
    Fully,
}

impl Stretch {
    fn of(self, number: f64) -> f64 {
        match self {
            Self::Not => 1.0,
            Self::AsItsRoot => number.sqrt(),
            Self::Fully => number,
        }
    }
}

/// Of more tensors, about so many are looked at, evenly spread over the trace: of so many, one is
/// nearly as cheap as the cheapest, and the time of a repair does not grow with the trace.
const LOOKED_AT: usize = 8192;

/// What looking at an item as one way back counts for, in tensors and ops looked at.
const PER_ITEM: u64 = 2;

/// What a repair needs again and again.
#[derive(Default)]
pub(super) struct Room {
    above: Vec<u32>,
    /// By op: the number of the chain that has it last.
    seen: Vec<u32>,
    chains: u32,
    chain: Vec<u32>,
    stack: Vec<(u32, usize)>,
    /// Work done, in tensors and ops looked at.
    pub work: u64,
    /// A repair that goes on when so much is done is given up.
    pub until: u64,
}

/// A tensor to give up: in front of which run it is made again, by which reruns.
struct Choice {
    score: f64,
    /// What brings it back: the op that makes it, or an item.
    by: u32,
    before: Key,
    unit: f64,
    /// The item that brings it back until now, of which something is there.
    instead_of: Option<Rerun>,
}

/// When a tensor that leaves is gone, and when it begins to be back; none where its lanes have no time
/// for that.
#[derive(Default)]
struct Slots {
    gone: Option<u64>,
    back: Option<u64>,
    /// By lane, whether it has time.
    in_time: [bool; 4],
}

impl Runs<'_> {
    /// Puts reruns in until the peak is within the budget. Returns false where that cannot be, or
    /// costs more than `limit`: then what was put in is for the caller to take back.
    pub(super) fn repair(
        &mut self,
        budget: i64,
        limit: u64,
        weights: Weights,
        random: &mut SplitMix,
        room: &mut Room,
    ) -> bool {
        room.seen.resize(self.parts.again.len(), 0);
        let most = 24 * self.parts.ops();
        // What a byte has cost that was given up, per stage.
        let mut price = 0.0;
        let mut steps = 0.0;
        while self.peak() > budget {
            if self.cost > limit || self.reruns.len() > most || room.work > room.until {
                return false;
            }
            let Some(choice) = self.cheapest(budget, price, weights, random, room) else {
                return false;
            };
            steps += 1.0;
            price += (choice.unit - price) / steps;
            let fullest = self.load.fullest();
            if let Some(item) = choice.instead_of {
                self.erase_with_needless(item);
            }
            if self.parts.item(choice.by).is_some() {
                if !self.bring_back(choice.by, fullest, choice.before, weights.slow) {
                    return false;
                }
                continue;
            }
            let held = weights.holding.map(|part| part * price);
            let lanes = weights.lanes;
            self.chain(choice.by, choice.before, budget, (held, lanes), f64::MAX, room);
            for at in 0..room.chain.len() {
                let by = room.chain[at];
                let done = match self.parts.item(by).map(|item| item.tensor) {
                    Some(tensor) => {
                        let last = self.stay(tensor, choice.before - 1).to;
                        self.bring_back(by, last, choice.before, weights.slow)
                    }
                    None => match self.key_before(choice.before) {
                        Some(key) => self.insert((key, by)),
                        None => false,
                    },
                };
                if !done {
                    return false;
                }
            }
        }
        self.cost <= limit
    }

    /// What is best given up where there is most.
    fn cheapest(
        &self,
        budget: i64,
        price: f64,
        weights: Weights,
        random: &mut SplitMix,
        room: &mut Room,
    ) -> Option<Choice> {
        let fullest = self.load.fullest();
        let excess = self.peak() - budget;
        let mut above = std::mem::take(&mut room.above);
        if weights.stretch != Stretch::Not {
            self.load.count_above(budget, &mut above);
        }
        // What it counts that there is too much in the stages from one run to another.
        let stretch = |from: Key, to: Key| match weights.stretch {
            Stretch::Not => 1.0,
            of => {
                let until = above[stage(to).min(above.len() - 1)];
                let before = stage(from).checked_sub(1).map_or(0, |stage| above[stage]);
                of.of(f64::from((until - before).max(1)))
            }
        };
        let held = weights.holding.map(|part| part * price);
        let lanes = weights.lanes;
        let mut best: Option<Choice> = None;
        let apart = self.parts.leaving.len().div_ceil(LOOKED_AT).max(1);
        let first = if apart > 1 { random.below(apart as u64) as usize } else { 0 };
        room.work += (self.parts.leaving.len() / apart) as u64 * (100 - weights.skipped) / 800;
        // What comes to be later is not looked at.
        let there = self.parts.leaving.partition_point(|t| self.lives[*t as usize].0 < fullest);
        for tensor in self.parts.leaving[..there].iter().skip(first).step_by(apart) {
            let (begin, end) = self.lives[*tensor as usize];
            if end <= fullest {
                continue;
            }
            if weights.skipped > 0 && random.below(100) < weights.skipped {
                continue;
            }
            let maker = self.parts.remaker[*tensor as usize];
            let items = self.parts.worthwhile[*tensor as usize].clone();
            // Most are seen to be dearer than the best so far, whatever the noise, before it is known when they would
            // leave. What has a compressed form may have been paid for in part.
            let bytes = self.parts.bytes[*tensor as usize];
            if let Some(best) = &best
                && (!self.parts.has_codecs || self.made[*tensor as usize].len() == 1)
            {
                let most = best.score * stretch(begin, end) * (1.0 + weights.noise);
                let is_dear = |by: u32| {
                    let relief = bytes - self.parts.item(by).map_or(0, |item| item.small);
                    self.least_price(by, lanes).max(0.5) >= most * relief.min(excess) as f64
                };
                if items.clone().chain(maker).all(is_dear) {
                    continue;
                }
            }
            let absent =
                self.absent_at(*tensor, fullest).map(|(since, before)| (since, before, None));
            let Some((since, before, instead_of)) =
                absent.or_else(|| self.small_at(*tensor, fullest))
            else {
                continue;
            };
            let small = |by| self.parts.item(by).map_or(0, |item| item.small);
            let (there, until_now) =
                instead_of.map_or((bytes, 0.0), |(_, by)| (small(by), self.price(by, lanes)));
            let stretch = stretch(since, before);
            let drawn = if weights.noise > 0.0 { 2.0 * random.unit() - 1.0 } else { 0.0 };
            let noise = match drawn < 0.0 {
                true => 1.0 / (1.0 - weights.noise * drawn),
                false => 1.0 + weights.noise * drawn,
            };
            for by in items.chain(maker) {
                if !self.may_rerun(by, stage(before)) {
                    continue;
                }
                let relief = there - small(by);
                if relief <= 0 {
                    continue;
                }
                let item = self.parts.item(by);
                let benefit = relief.min(excess) as f64 * stretch;
                let most = best.as_ref().map_or(f64::MAX, |best| best.score * benefit / noise);
                let most = most + until_now;
                let time = match item {
                    Some(_) if self.price(by, lanes) >= most => None,
                    Some(_) => {
                        room.work += PER_ITEM;
                        let slots = self.times(by, since, fullest, before);
                        let late = |lane: usize| match slots.in_time[lane] {
                            true => lanes[lane],
                            false => lanes[lane].max(1.0),
                        };
                        Some(self.price(by, std::array::from_fn(late)))
                    }
                    None => self.chain(by, before, budget, (held, lanes), most, room),
                };
                let Some(time) = time.map(|time| time - until_now) else { continue };
                let score = time.max(0.5) * noise / benefit;
                if best.as_ref().is_none_or(|best| score < best.score) {
                    let stages = (stage(before) - stage(since)).max(1) as f64;
                    let unit = time.max(0.0) / (there as f64 * stages);
                    best = Some(Choice { score, by, before, unit, instead_of });
                }
            }
        }
        room.above = above;
        best
    }

    /// What an item costs, in nanoseconds of compute.
    fn price(&self, item: u32, lanes: Prices) -> f64 {
        let copied = self.parts.item(item).map_or(0, |of| of.copies[0]);
        let out = if copied == 0 || self.is_copied(item) { 0.0 } else { lanes[0] * copied as f64 };
        self.least_price(item, lanes) + out
    }

    /// What an op or item costs at least, whether or not the host has what it is to bring back.
    fn least_price(&self, item: u32, [_, back, code, decode]: Prices) -> f64 {
        let time = self.parts.time[item as usize] as f64;
        let Some(of) = self.parts.item(item) else { return time };
        let codec = code * of.codec[0] as f64 + decode * of.codec[1] as f64;
        time + back * of.copies[1] as f64 + codec
    }

    /// Whether the host has what an item is to bring back.
    fn is_copied(&self, item: u32) -> bool {
        self.parts.item(item).is_some_and(|of| {
            of.way == Way::Copy
                && self.parts.copy_stays(of.tensor)
                && self.made[of.tensor as usize].iter().any(|(_, by)| *by == item)
        })
    }

    /// When a tensor that an item brings back has left, if it is not to be there at a moment, and
    /// when it begins to be back, as far as the lanes have time.
    fn times(&self, item: u32, since: Key, relieved: Key, before: Key) -> Slots {
        let clock = |stage: usize| self.parts.clock[stage.min(self.parts.ops())];
        let of = self.parts.item(item);
        let ([out, back], [code, decode]) =
            of.map_or(([0, 0], [0, 0]), |item| (item.copies, item.codec));
        let after = (clock(stage(relieved) + 1), clock(stage(before)));
        let ahead = (clock(stage(since) + 1), clock(stage(relieved)));
        let (lanes, is_coded) = (&self.lanes, code > 0 || decode > 0);
        let coded = if is_coded { lanes.codec.earliest(code, ahead) } else { Some(ahead.0) };
        let decoded = if is_coded { lanes.codec.latest(decode, after) } else { Some(after.1) };
        let is_copied = of.is_some_and(|of| !matches!(of.way, Way::Codec(_)));
        let is_early = |of: &&Item| !is_coded && self.parts.leaves_early(of.tensor);
        let begin = match of.filter(is_early).map(|of| self.stay(of.tensor, since).from) {
            Some(0) => 0,
            Some(from) => clock(stage(from) + 1),
            None => coded.unwrap_or(ahead.0),
        };
        let out = match is_copied && !self.is_copied(item) {
            true => lanes.out.earliest(out, (begin, ahead.1)),
            false => Some(ahead.0),
        };
        let back = match is_copied {
            true => lanes.back.latest(back, (after.0, decoded.unwrap_or(after.1))),
            false => Some(after.1),
        };
        let in_time = [out, back, coded, decoded].map(|time| time.is_some());
        // A compressed form has little weight on its way.
        match of.is_some_and(|of| of.way == Way::Copy) {
            true => Slots { in_time, gone: out, back },
            false => Slots { in_time, gone: coded, back: decoded },
        }
    }

    /// Puts each item, of which nothing is known but what it brings back, where the lanes have time
    /// for it.
    pub(super) fn spread(&mut self, place: usize) {
        let items = self.reruns.iter().copied();
        let items: Vec<Rerun> = items.filter(|(_, op)| self.parts.item(*op).is_some()).collect();
        for (key, by) in items.into_iter().rev() {
            let Some(item) = self.parts.item(by) else { continue };
            let readers = &self.readers[item.tensor as usize];
            let before = readers.get(readers.partition_point(|reader| *reader < key)).copied();
            let since = self.stay(item.tensor, key - 1).to;
            let relieved = first_run(place);
            let Some(before) = before else { continue };
            if since < relieved && relieved < key {
                self.erase((key, by));
                if !self.bring_back(by, relieved, before, true) {
                    self.insert((key, by));
                }
            }
        }
    }

    /// Puts an item in that brings a tensor back for a run, and relieves another before that; and
    /// before that what holds the tensor until it has left.
    fn bring_back(&mut self, by: u32, relieved: Key, before: Key, is_slow: bool) -> bool {
        let Some(item) = self.parts.item(by) else { return false };
        let stay = self.stay(item.tensor, relieved);
        let readers = &self.readers[item.tensor as usize];
        let since = readers[..readers.partition_point(|reader| *reader <= relieved)].last();
        let since = since.map_or(stay.from, |reader| (*reader).max(stay.from));
        let mut slots = self.times(by, since, relieved, before);
        if !is_slow {
            slots = Slots { in_time: slots.in_time, ..Slots::default() };
        }
        let clock = &self.parts.clock;
        let at = slots.back.map_or(usize::MAX, |start| clock.partition_point(|c| *c <= start) - 1);
        let at = at.max(stage(relieved) + 1);
        let until = slots.gone.map(|end| clock.partition_point(|c| *c < end));
        let key = match at < stage(before) {
            true => self.key_before(first_run(at)),
            false => self.key_before(before),
        };
        let Some(key) = key else { return false };
        let takes_time = item.way == Way::Copy || item.codec[0] > 0;
        let holds = takes_time && !self.is_copied(by) && stage(since) < stage(relieved);
        let hold = self.parts.hold_of(by, item.tensor);
        let lanes = [item.copies, item.codec].concat();
        let late = (slots.in_time.iter().zip(lanes)).filter(|(is_in_time, _)| !**is_in_time);
        let late: u64 = late.map(|(_, time)| time).sum();
        self.late.insert((key, by), late);
        if !self.insert((key, by)) {
            return false;
        }
        if let (true, Some(until)) = (holds, until) {
            let next = if until < stage(relieved) { first_run(until) } else { relieved };
            let first = if self.parts.leaves_early(item.tensor) { stay.from } else { since };
            let Some(key) = self.key_before(next).filter(|key| *key > first) else { return true };
            self.insert((key, hold));
        }
        true
    }

    /// Where a tensor is there at a run that does not use it: the last run before that uses it, and
    /// the next.
    fn absent_at(&self, tensor: u32, at: Key) -> Option<(Key, Key)> {
        let readers = &self.readers[tensor as usize];
        let made = &self.made[tensor as usize];
        if made[0].0 >= at || readers.last().is_none_or(|last| *last <= at) {
            return None;
        }
        let next = readers.partition_point(|reader| *reader < at);
        let before = readers[next];
        if before == at {
            return None;
        }
        let index = made.partition_point(|(run, _)| *run <= at);
        let (from, by) = made[index - 1];
        if from == at || made.get(index).is_some_and(|(run, _)| *run < before) {
            return None;
        }
        // What no op makes waits on the device for its first use.
        if by == NOTHING && next == 0 {
            return None;
        }
        let since = next.checked_sub(1).map_or(from, |at| readers[at].max(from));
        Some((since, before))
    }

    /// Where only a compressed form of a tensor is there at a run: the last run before that uses the
    /// tensor, the next, and the item that brings it back for that.
    fn small_at(&self, tensor: u32, at: Key) -> Option<(Key, Key, Option<Rerun>)> {
        let made = &self.made[tensor as usize];
        let (next, by) = *made.get(made.partition_point(|(run, _)| *run <= at))?;
        if self.parts.item(by).is_none_or(|item| item.small == 0) || made[0].0 >= at {
            return None;
        }
        let stay = self.stay(tensor, at);
        let readers = &self.readers[tensor as usize];
        let before = *readers.get(readers.partition_point(|reader| *reader < next))?;
        (stay.to < at && stay.from < at).then_some((stay.to, before, Some((next, by))))
    }

    /// The reruns that it takes to have an op's outputs just before a run, inputs first, are put
    /// into the room. Returns what they cost, or nothing where that is more than `most` or cannot
    /// be. Inputs that are gone by then are held where there is room for them, or that costs less
    /// than to make them again, or are brought back by an item where that costs less.
    fn chain(
        &self,
        op: u32,
        before: Key,
        budget: i64,
        (held, lanes): (Option<f64>, Prices),
        most: f64,
        room: &mut Room,
    ) -> Option<f64> {
        room.chains += 1;
        room.chain.clear();
        room.stack.clear();
        let mut time = self.parts.time[op as usize] as f64;
        if time > most {
            return None;
        }
        room.stack.push((op, 0));
        room.seen[op as usize] = room.chains;
        while let Some((op, input)) = room.stack.last_mut() {
            let Some(tensor) = self.parts.again[*op as usize].reads.get(*input) else {
                room.chain.push(*op);
                room.stack.pop();
                continue;
            };
            *input += 1;
            room.work += 1;
            let maker = self.parts.remaker[*tensor as usize];
            if maker.is_some_and(|maker| room.seen[maker as usize] == room.chains) {
                continue;
            }
            let stay = self.stay(*tensor, before - 1);
            if stay.to >= before {
                continue;
            }
            let bytes = self.parts.bytes[*tensor as usize];
            let (begin, end) = (stage(stay.to) + 1, stage(before));
            if bytes == 0 || begin >= end || self.load.most_within(begin, end) + bytes <= budget {
                continue;
            }
            let ways = self.parts.worthwhile[*tensor as usize].clone().chain(maker);
            let priced = ways
                .filter(|way| self.may_rerun(*way, stage(before)))
                .map(|way| (self.price(way, lanes), way));
            let Some((again, by)) = priced.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            if held.is_some_and(|held| held * bytes as f64 * ((end - begin) as f64) < again) {
                continue;
            }
            if room.seen[by as usize] == room.chains {
                continue;
            }
            time += again;
            if time > most {
                return None;
            }
            room.seen[by as usize] = room.chains;
            room.stack.push((by, 0));
        }
        Some(time)
    }
}
