//! Making a sequence fit: reruns are put in until no run takes more than the budget.

use super::{Key, NOTHING, Runs, Way, first_run, stage};
use crate::split_mix::SplitMix;

/// How a repair weighs what it may give up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    /// Times are taken times a factor from `1 / (1 + noise)` to `1 + noise`.
    pub noise: f64,
    /// The power with which it counts in how many stages there is too much meanwhile.
    pub stretch: f64,
    /// Of a hundred tensors, so many are not looked at.
    pub skipped: u64,
    /// What holding a byte for a stage costs where there is no room for it, as a part of the
    /// average that giving up has cost; none: whatever the cheapest is, inputs are held only where
    /// there is room.
    pub holding: Option<f64>,
    /// What a nanosecond of copies out and in costs, against one of compute.
    pub copies: [f64; 2],
    /// A lane is full when it is taken for this part of its time.
    pub full: f64,
    /// A copy in has room from so many times its own time before it is needed.
    pub lead: f64,
}

/// What a nanosecond of codecs beside compute costs while their lane has time left.
const CODEC: f64 = 0.02;

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
}

/// A tensor to give up: in front of which run it is made again, by which reruns.
struct Choice {
    score: f64,
    /// What brings it back: the op that makes it, or an item.
    by: u32,
    before: Key,
    unit: f64,
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
        room.seen.resize(self.parts.writes.len(), 0);
        let most = 24 * self.parts.ops();
        // What a byte has cost that was given up, per stage.
        let mut price = 0.0;
        let mut steps = 0.0;
        while self.peak() > budget {
            if self.cost > limit || self.reruns.len() > most {
                return false;
            }
            let Some(choice) = self.cheapest(budget, price, weights, random, room) else {
                return false;
            };
            steps += 1.0;
            price += (choice.unit - price) / steps;
            if self.parts.item(choice.by).is_some() {
                let at = self.load.fullest();
                let Some(key) = self.room_for(choice.by, at, choice.before, weights.lead) else {
                    return false;
                };
                if !self.insert((key, choice.by)) {
                    return false;
                }
                continue;
            }
            let held = weights.holding.map(|part| part * price);
            let lanes = self.prices(self.load.fullest(), weights);
            self.chain(choice.by, choice.before, budget, (held, lanes), f64::MAX, room);
            for at in 0..room.chain.len() {
                let Some(key) = self.key_before(choice.before) else { return false };
                if !self.insert((key, room.chain[at])) {
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
        if weights.stretch > 0.0 {
            let mut above = std::mem::take(&mut room.above);
            self.load.count_above(budget, &mut above);
            room.above = above;
        }
        let held = weights.holding.map(|part| part * price);
        let lanes = self.prices(fullest, weights);
        let mut best: Option<Choice> = None;
        room.work += self.parts.leaving.len() as u64 / 8;
        for tensor in &self.parts.leaving {
            let Some((since, before)) = self.absent_at(*tensor, fullest) else { continue };
            if weights.skipped > 0 && random.below(100) < weights.skipped {
                continue;
            }
            let whole = self.parts.bytes[*tensor as usize];
            let mut stretch = 1.0;
            if weights.stretch > 0.0 {
                let begin = stage(since);
                let count = room.above[stage(before).min(room.above.len() - 1)]
                    - begin.checked_sub(1).map_or(0, |stage| room.above[stage]);
                stretch = f64::from(count.max(1)).powf(weights.stretch);
            }
            let noise = match weights.noise > 0.0 {
                true => (1.0 + weights.noise).powf(2.0 * random.unit() - 1.0),
                false => 1.0,
            };
            let maker = self.parts.maker[*tensor as usize];
            for by in self.parts.items[*tensor as usize].clone().chain(maker) {
                if !self.may_rerun(by, stage(before)) {
                    continue;
                }
                let item = self.parts.item(by);
                let relief = whole - item.map_or(0, |item| item.small);
                let benefit = relief.min(excess) as f64 * stretch;
                let most = best.as_ref().map_or(f64::MAX, |best| best.score * benefit / noise);
                let time = match item {
                    Some(_) => Some(self.price(by, lanes)),
                    None => self.chain(by, before, budget, (held, lanes), most, room),
                };
                let Some(time) = time else { continue };
                let score = time.max(0.5) * noise / benefit;
                if best.as_ref().is_none_or(|best| score < best.score) {
                    let stages = (stage(before) - stage(since)).max(1) as f64;
                    let unit = time / (whole as f64 * stages);
                    best = Some(Choice { score, by, before, unit });
                }
            }
        }
        best
    }

    /// What a nanosecond of each lane costs, against one of compute: as given while the lane has
    /// time left before the fullest moment (copies out), from then on (copies in) or at all
    /// (codecs), and then at least as much as compute, which waits.
    fn prices(&self, fullest: Key, weights: Weights) -> [f64; 3] {
        let clock = &self.parts.clock;
        let (before, all) = (clock[stage(fullest)], clock[self.parts.ops()]);
        let [out, back] = weights.copies;
        let price = |taken: u64, of: u64, price: f64| {
            if taken as f64 <= weights.full * of as f64 { price } else { price.max(1.0) }
        };
        [
            price(self.copied[0], before, out),
            price(self.copied[1], all - before + self.cost, back),
            price(self.coded, all + self.cost, CODEC),
        ]
    }

    /// What an item costs, in nanoseconds of compute.
    fn price(&self, item: u32, [out, back, codec]: [f64; 3]) -> f64 {
        let time = self.parts.time[item as usize] as f64;
        let Some(of) = self.parts.item(item) else { return time };
        let is_copied = of.way == Way::Copy
            && self.parts.copies_stay
            && self.parts.maker[of.tensor as usize].is_some()
            && self.made[of.tensor as usize].iter().any(|(_, by)| *by == item);
        let out = if is_copied { 0.0 } else { out * of.copies[0] as f64 };
        time + out + back * of.copies[1] as f64 + codec * of.codec as f64
    }

    /// Where an item may stand that is to bring a tensor back for a run, and is to relieve another
    /// before that: so early that its copy has time.
    fn room_for(&self, item: u32, relieved: Key, before: Key, lead: f64) -> Option<Key> {
        let of = self.parts.item(item)?;
        let ahead = (lead * of.copies[1] as f64) as u64;
        let latest = self.parts.clock[stage(before)].saturating_sub(ahead);
        let begin = self.parts.clock.partition_point(|clock| *clock <= latest);
        match begin.saturating_sub(1).max(stage(relieved) + 1) {
            stage if stage < self::stage(before) => self.key_before(first_run(stage)),
            _ => self.key_before(before),
        }
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

    /// The reruns that it takes to have an op's outputs just before a run, inputs first, are put
    /// into the room. Returns what they cost, or nothing where that is more than `most` or cannot
    /// be. Inputs that are gone by then are held where there is room for them, or that costs less
    /// than to make them again, or are brought back by an item where that costs less.
    fn chain(
        &self,
        op: u32,
        before: Key,
        budget: i64,
        (held, lanes): (Option<f64>, [f64; 3]),
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
            let Some(tensor) = self.parts.reads[*op as usize].get(*input) else {
                room.chain.push(*op);
                room.stack.pop();
                continue;
            };
            *input += 1;
            room.work += 1;
            let maker = self.parts.maker[*tensor as usize];
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
            let ways = self.parts.items[*tensor as usize].clone().chain(maker);
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
