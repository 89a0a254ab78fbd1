//! What may be evicted, and which of it first.

use std::collections::BTreeMap;

use super::tournament::Tournament;

/// What `h` of a tensor is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weighed {
    /// The time to make it and its evicted neighbours, in nanoseconds.
    pub cost: i64,
    pub bytes: u64,
    /// When it was last read.
    pub last_access: u64,
}

impl Weighed {
    /// `h_DTR^eq`. A quotient of floats as in the published simulator: its exact value is no
    /// matter, and floats divide alike everywhere.
    fn heuristic(self, now: u64) -> f64 {
        let weight = self.bytes as f64 * (now - self.last_access) as f64;
        if weight > 0.0 { self.cost as f64 / weight } else { f64::INFINITY }
    }
}

/// Tensors that may be evicted now, by when they last became so.
///
/// The published simulator looks at all of them for each eviction, in this order: the smallest `h`
/// is evicted, the last of equals, and the first that is zero ends the search. The same one is
/// found here without looking at all: `1/h` is a line over time, so that the smallest `h` is that
/// of the largest line.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// By tensor: when it became evictable, in a count that only grows; zero where it is not.
    since: Vec<u64>,
    count: u64,
    weighed: Vec<Weighed>,
    order: BTreeMap<u64, u32>,
    /// Those that cost nothing, and those that cost less than nothing.
    free: BTreeMap<u64, u32>,
    below_free: BTreeMap<u64, u32>,
    lines: Tournament,
}

impl Pool {
    /// An empty pool for this many tensors.
    pub fn new(tensors: usize) -> Self {
        Self {
            since: vec![0; tensors],
            weighed: vec![Weighed::default(); tensors],
            lines: Tournament::new(tensors),
            ..Self::default()
        }
    }

    pub fn has(&self, tensor: u32) -> bool {
        self.since[tensor as usize] > 0
    }

    /// A tensor becomes evictable; it is to be weighed before the next search.
    pub fn push(&mut self, tensor: u32) {
        debug_assert!(!self.has(tensor), "it becomes evictable once");
        self.count += 1;
        self.since[tensor as usize] = self.count;
        self.order.insert(self.count, tensor);
    }

    /// A tensor is evictable no more, if it was.
    pub fn remove(&mut self, tensor: u32, now: u64) {
        let since = std::mem::take(&mut self.since[tensor as usize]);
        if since > 0 {
            self.order.remove(&since);
            self.free.remove(&since);
            self.below_free.remove(&since);
            self.lines.set(tensor, None, now);
        }
    }

    /// States what a tensor of the pool weighs.
    pub fn weigh(&mut self, tensor: u32, weighed: Weighed, now: u64) {
        let since = self.since[tensor as usize];
        self.weighed[tensor as usize] = weighed;
        self.free.remove(&since);
        self.below_free.remove(&since);
        let mut line = None;
        match weighed.cost {
            // It counts for as much as what was just read.
            _ if weighed.bytes == 0 => {}
            0 => drop(self.free.insert(since, tensor)),
            ..0 => drop(self.below_free.insert(since, tensor)),
            cost => line = Some((weighed.bytes as f64 / cost as f64, weighed.last_access)),
        }
        self.lines.set(tensor, line, now);
    }

    /// The tensor to evict.
    pub fn cheapest(&mut self, now: u64) -> Option<u32> {
        if !self.below_free.is_empty() {
            return self.cheapest_of_all(now);
        }
        let was_read_before = |tensor: &&u32| self.weighed[**tensor as usize].last_access < now;
        if let Some(tensor) = self.free.values().find(was_read_before) {
            return Some(*tensor);
        }
        let Self { lines, weighed, since, .. } = self;
        let mut best: Option<(f64, u64, u32)> = None;
        lines.largest(now, |tensor| {
            let h = weighed[tensor as usize].heuristic(now);
            let since = since[tensor as usize];
            let is_better =
                |(least, latest, _): (f64, u64, u32)| h < least || (h == least && since > latest);
            if best.is_none_or(is_better) {
                best = Some((h, since, tensor));
            }
        });
        // Where all was just read, the last one goes.
        best.map(|(_, _, tensor)| tensor).or_else(|| self.order.values().next_back().copied())
    }

    /// The same, by looking at all.
    fn cheapest_of_all(&self, now: u64) -> Option<u32> {
        let mut best = None;
        for tensor in self.order.values() {
            let h = self.weighed[*tensor as usize].heuristic(now);
            if best.is_none_or(|(least, _)| h <= least) {
                best = Some((h, *tensor));
            }
            if h == 0.0 {
                break;
            }
        }
        best.map(|(_, tensor)| tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split_mix::SplitMix;

    /// Tensors that come, go and change weight, with many of equal weight.
    #[test]
    fn the_cheapest_is_the_one_that_a_look_at_all_finds() {
        for (costs, lowest) in [(2, 1), (5, 0), (1000, 1), (6, -1)] {
            let mut random = SplitMix::new(costs);
            let mut pool = Pool::new(60);
            let mut now = 0;
            for _ in 0..20_000 {
                now += random.below(3);
                let tensor = random.below(60) as u32;
                if pool.has(tensor) && random.below(2) == 0 {
                    pool.remove(tensor, now);
                } else {
                    if !pool.has(tensor) {
                        pool.push(tensor);
                    }
                    let weighed = Weighed {
                        cost: lowest + random.below(costs) as i64,
                        bytes: random.below(4),
                        last_access: now - random.below(now.min(9) + 1),
                    };
                    pool.weigh(tensor, weighed, now);
                }
                assert_eq!(pool.cheapest(now), pool.cheapest_of_all(now));
            }
        }
    }
}
