//! Making a sequence fit: reruns are put in until no run takes more than the budget.

use super::{Key, Runs, first_run, stage};
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
}

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
    tensor: u32,
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
        room.seen.resize(self.parts.ops(), 0);
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
            let maker = self.parts.maker[choice.tensor as usize].expect("what leaves is made");
            let held = weights.holding.map(|part| part * price);
            self.chain(maker, choice.before, budget, held, u64::MAX, room);
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
        let mut best: Option<Choice> = None;
        room.work += self.parts.leaving.len() as u64 / 8;
        for tensor in &self.parts.leaving {
            let Some((since, before)) = self.absent_at(*tensor, fullest) else { continue };
            let maker = self.parts.maker[*tensor as usize].expect("what leaves is made");
            if !self.may_rerun(maker, stage(before)) {
                continue;
            }
            if weights.skipped > 0 && random.below(100) < weights.skipped {
                continue;
            }
            let mut benefit = self.parts.bytes[*tensor as usize].min(excess) as f64;
            if weights.stretch > 0.0 {
                let begin = stage(since);
                let count = room.above[stage(before).min(room.above.len() - 1)]
                    - begin.checked_sub(1).map_or(0, |stage| room.above[stage]);
                benefit *= f64::from(count.max(1)).powf(weights.stretch);
            }
            let noise = match weights.noise > 0.0 {
                true => (1.0 + weights.noise).powf(2.0 * random.unit() - 1.0),
                false => 1.0,
            };
            let worth = best.as_ref().map_or(f64::INFINITY, |best| best.score * benefit / noise);
            let most = if worth < 1e18 { worth as u64 } else { u64::MAX };
            let Some(time) = self.chain(maker, before, budget, held, most, room) else {
                continue;
            };
            let score = (time as f64).max(0.5) * noise / benefit;
            if best.as_ref().is_none_or(|best| score < best.score) {
                let stages = (stage(before) - stage(since)).max(1) as f64;
                let bytes = self.parts.bytes[*tensor as usize] as f64;
                let unit = time as f64 / (bytes * stages);
                best = Some(Choice { score, tensor: *tensor, before, unit });
            }
        }
        best
    }

    /// Where a tensor is there at a run that does not use it: the last run before that uses it, and
    /// the next.
    fn absent_at(&self, tensor: u32, at: Key) -> Option<(Key, Key)> {
        let readers = &self.readers[tensor as usize];
        let maker = self.parts.maker[tensor as usize]?;
        if first_run(maker as usize) >= at || readers.last().is_none_or(|last| *last <= at) {
            return None;
        }
        let next = readers.partition_point(|reader| *reader < at);
        let before = readers[next];
        if before == at {
            return None;
        }
        let runs = &self.runs[maker as usize];
        let index = runs.partition_point(|run| *run <= at);
        let from = runs[index - 1];
        if from == at || runs.get(index).is_some_and(|run| *run < before) {
            return None;
        }
        let since = next.checked_sub(1).map_or(from, |at| readers[at].max(from));
        Some((since, before))
    }

    /// The reruns that it takes to have an op's outputs just before a run, inputs first, are put
    /// into the room. Returns their time, or nothing where that is more than `most` or cannot be.
    /// Inputs that are gone by then are held where there is room for them, or that costs less than
    /// to make them again.
    fn chain(
        &self,
        op: u32,
        before: Key,
        budget: i64,
        held: Option<f64>,
        most: u64,
        room: &mut Room,
    ) -> Option<u64> {
        room.chains += 1;
        room.chain.clear();
        room.stack.clear();
        let mut time = self.parts.time[op as usize];
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
            let maker = self.parts.maker[*tensor as usize].expect("reads lists what is made");
            if room.seen[maker as usize] == room.chains {
                continue;
            }
            let stay = self.stay(*tensor, before - 1);
            if stay.to >= before || !self.may_rerun(maker, stage(before)) {
                continue;
            }
            let bytes = self.parts.bytes[*tensor as usize];
            let (begin, end) = (stage(stay.to) + 1, stage(before));
            if bytes == 0 || begin >= end || self.load.most_within(begin, end) + bytes <= budget {
                continue;
            }
            let again = self.parts.time[maker as usize];
            if held.is_some_and(|held| held * bytes as f64 * ((end - begin) as f64) < again as f64)
            {
                continue;
            }
            time = time.saturating_add(again);
            if time > most {
                return None;
            }
            room.seen[maker as usize] = room.chains;
            room.stack.push((maker, 0));
        }
        Some(time)
    }
}
