//! Packing from the ground up, guided by what went wrong before.

use crate::split_mix::SplitMix;

use super::{ALIGNMENT, Block};

/// Blocks that are stacked, times rounds: what decides how often a stacking is tried again.
const WORK: usize = 300_000;

/// Rounds at least and at most.
const ROUNDS: (usize, usize) = (24, 800);

/// A block's first priority: its time to the one power by its size to the other. No one serves all
/// traces.
const PRIORITIES: [(f64, f64); 3] = [(0.2, 0.5), (0.3, 1.0), (1.0, 0.0)];

/// So many of the best searches go on for this part of the rounds, if the best is beyond the room by
/// no more thousandths of it.
const STAGES: [(usize, usize, u64); 3] = [(3, 8, 0), (2, 8, 20), (1, 2, 10)];

/// After so many rounds that brought nothing, the best priorities are shaken and tried anew.
const STUCK: usize = 20;

/// Share of the blocks whose priority that changes.
const SHAKEN: f64 = 0.05;

/// By how much a priority rises at most.
const RAISE: f64 = 0.3;

/// Blocks that lie at one address, and how high they reach, by section of time.
struct Item {
    group: usize,
    /// The first section, and the one after the last.
    first: usize,
    end: usize,
    /// Bytes by section, from `first` on.
    bytes: Vec<u64>,
}

/// What a stacking came to.
struct Stacked {
    top: u64,
    /// Where room was first wasted that was not there: a section, and the height that had been
    /// reached.
    failed: Option<(usize, u64)>,
}

/// Groups of blocks that are to be stacked.
///
/// Time is cut into *sections*, the largest sets of blocks that live at one moment. Whatever is
/// lowest is filled first (Burke, Kendall and Whitwell's best fit for strip packing, 2004, with
/// positions along the strip that are given): of the blocks that live within the valley, the one of
/// highest priority is put there; where none does, the valley is filled up to its lower bank. What
/// that wastes must not exceed what the fullest section has to spare (as MiniMalloc infers, Moffitt
/// 2023): where it first does, the blocks that have no place there yet should have had theirs
/// earlier, so their priority rises for the next round (as by TelaMalloc, Maas et al., 2022, for
/// whole orders).
pub(super) struct Skyline {
    items: Vec<Item>,
    /// By section, the first item that begins there or later.
    from: Vec<usize>,
    /// Bytes that live in each section.
    live: Vec<u64>,
    room: u64,
    // Of the stacking in progress:
    address: Vec<u64>,
    /// Bytes in each section that have no place yet, and that may be wasted.
    left: Vec<u64>,
    spare: Vec<i64>,
    /// Where each stretch of equal height begins, and its height; one past the end closes the list.
    heights: Vec<(usize, u64)>,
}

const NOWHERE: u64 = u64::MAX;

impl Skyline {
    pub fn new(blocks: &[Block], groups: &[Vec<usize>], chosen: &[usize], room: u64) -> Self {
        let mut events: Vec<(u32, bool, usize)> = Vec::with_capacity(2 * chosen.len());
        for block in chosen.iter().flat_map(|group| &groups[*group]) {
            let Block { bytes, from, until, .. } = blocks[*block];
            if bytes > 0 {
                events.push((from, true, *block));
                events.push((until, false, *block));
            }
        }
        // At one event, what goes makes room for what comes.
        events.sort_unstable();
        let mut sections = vec![(0, 0); blocks.len()];
        let (mut section, mut gone) = (0, false);
        for (_, comes, block) in events {
            if comes {
                section += usize::from(gone);
                gone = false;
                sections[block].0 = section;
            } else {
                gone = true;
                sections[block].1 = section + 1;
            }
        }
        let mut items: Vec<Item> = (chosen.iter())
            .filter_map(|group| Item::new(blocks, &groups[*group], *group, &sections))
            .collect();
        items.sort_by_key(|item| (item.first, item.group));
        let count = section + 1;
        let mut live = vec![0; count];
        for item in &items {
            live[item.first..item.end].iter_mut().zip(&item.bytes).for_each(|(sum, b)| *sum += b);
        }
        let from = (0..=count).map(|s| items.partition_point(|item| item.first < s)).collect();
        let (address, left, spare) = (Vec::new(), Vec::new(), Vec::new());
        Self { items, from, live, room, address, left, spare, heights: Vec::new() }
    }

    /// The best addresses found, by group, and where they end. The search ends with the first that
    /// fit.
    pub fn best(&mut self) -> (u64, Vec<(usize, u64)>) {
        let rounds = (WORK / self.items.len().max(1)).clamp(ROUNDS.0, ROUNDS.1);
        let mut searches: Vec<Search> = PRIORITIES.map(|powers| self.search(powers)).into();
        let mut best = (u64::MAX, Vec::new());
        let mut random = SplitMix::new(self.items.len() as u64);
        for (kept, part, hope) in STAGES {
            // Stable: of equals, the first.
            searches.sort_by_key(|search| search.top);
            searches.truncate(kept);
            let hopeless = self.room / 1000 * hope;
            if searches[0].top != u64::MAX && searches[0].top - self.room > hopeless {
                break;
            }
            for search in &mut searches {
                for _ in 0..rounds / part {
                    let stacked = self.stack(&search.priorities);
                    if stacked.top < best.0 {
                        best = (stacked.top, self.address.clone());
                    }
                    if best.0 <= self.room {
                        return (best.0, self.by_group(&best.1));
                    }
                    search.learn(&self.items, &self.address, stacked, &mut random);
                }
            }
        }
        (best.0, self.by_group(&best.1))
    }

    fn by_group(&self, address: &[u64]) -> Vec<(usize, u64)> {
        self.items.iter().zip(address).map(|(item, at)| (item.group, *at)).collect()
    }

    fn search(&self, (time, size): (f64, f64)) -> Search {
        let priority = |item: &Item| {
            let bytes = item.bytes.iter().copied().max().unwrap_or(0);
            ((item.end - item.first) as f64).powf(time) * (bytes as f64).powf(size)
        };
        let priorities: Vec<f64> = self.items.iter().map(priority).collect();
        Search { top: u64::MAX, best: priorities.clone(), priorities, fruitless: 0 }
    }

    /// Gives every item an address.
    fn stack(&mut self, priorities: &[f64]) -> Stacked {
        let sections = self.live.len();
        self.address.clear();
        self.address.resize(self.items.len(), NOWHERE);
        self.left.clone_from(&self.live);
        self.spare.clear();
        self.spare.extend(self.live.iter().map(|live| self.room as i64 - *live as i64));
        self.heights.clear();
        self.heights.extend([(0, 0), (sections, u64::MAX)]);
        let mut stacked = Stacked { top: 0, failed: None };
        let mut placed = 0;
        while placed < self.items.len() {
            let valley = self.lowest();
            let ((begin, height), (end, bank)) = (self.heights[valley], self.heights[valley + 1]);
            match self.fitting(priorities, begin, end) {
                Some(index) => {
                    self.put(valley, index, height);
                    let highest = self.items[index].bytes.iter().max().copied().unwrap_or(0);
                    stacked.top = stacked.top.max(height + highest);
                    placed += 1;
                }
                None => {
                    let before = valley.checked_sub(1).map_or(u64::MAX, |at| self.heights[at].1);
                    self.fill(valley, bank.min(before), &mut stacked);
                }
            }
        }
        stacked
    }

    /// The lowest stretch, the first of equals.
    fn lowest(&self) -> usize {
        let stretches = &self.heights[..self.heights.len() - 1];
        let lowest = stretches.iter().enumerate().min_by_key(|(_, (_, height))| *height);
        lowest.map_or(0, |(at, _)| at)
    }

    /// The item of highest priority that has no place and lives within these sections.
    fn fitting(&self, priorities: &[f64], begin: usize, end: usize) -> Option<usize> {
        let mut found = None;
        let mut highest = 0.0;
        let here = self.from[begin]..self.from[end];
        for (index, priority) in here.clone().zip(&priorities[here]) {
            let fits = self.address[index] == NOWHERE && self.items[index].end <= end;
            if fits && *priority > highest {
                highest = *priority;
                found = Some(index);
            }
        }
        found
    }

    /// Puts an item on the ground of a valley.
    fn put(&mut self, valley: usize, index: usize, height: u64) {
        let item = &self.items[index];
        self.address[index] = height;
        let mut stretches: Vec<(usize, u64)> = Vec::new();
        if item.first > self.heights[valley].0 {
            stretches.push((self.heights[valley].0, height));
        }
        for (at, bytes) in item.bytes.iter().enumerate() {
            let section = item.first + at;
            self.left[section] -= bytes;
            let top = (height + bytes).next_multiple_of(ALIGNMENT);
            if at == 0 || stretches.last().is_some_and(|last| last.1 != top) {
                stretches.push((section, top));
            }
        }
        if item.end < self.heights[valley + 1].0 {
            stretches.push((item.end, height));
        }
        self.heights.splice(valley..=valley, stretches);
        self.merge();
    }

    /// Joins neighbours of equal height.
    fn merge(&mut self) {
        self.heights.dedup_by_key(|(_, height)| *height);
    }

    /// Fills a valley in which nothing fits.
    fn fill(&mut self, valley: usize, bank: u64, stacked: &mut Stacked) {
        let (begin, height) = self.heights[valley];
        let wasted = (bank - height) as i64;
        for section in begin..self.heights[valley + 1].0 {
            // Where nothing more is to come, nothing is wasted.
            if self.left[section] == 0 {
                continue;
            }
            self.spare[section] -= wasted;
            if self.spare[section] < 0 && stacked.failed.is_none() {
                stacked.failed = Some((section, bank));
            }
        }
        self.heights[valley].1 = bank;
        self.merge();
    }
}

impl Item {
    fn new(
        blocks: &[Block],
        group: &[usize],
        id: usize,
        sections: &[(usize, usize)],
    ) -> Option<Self> {
        let of: Vec<usize> = group.iter().copied().filter(|b| blocks[*b].bytes > 0).collect();
        let first = of.iter().map(|block| sections[*block].0).min()?;
        let end = of.iter().map(|block| sections[*block].1).max()?;
        let mut bytes = vec![0; end - first];
        for block in of {
            let (from, until) = sections[block];
            let size = blocks[block].bytes;
            bytes[from - first..until - first].iter_mut().for_each(|b: &mut u64| *b = size.max(*b));
        }
        Some(Self { group: id, first, end, bytes })
    }
}

/// Priorities as they change from round to round.
struct Search {
    /// The lowest top so far, and the priorities that led to it.
    top: u64,
    best: Vec<f64>,
    priorities: Vec<f64>,
    fruitless: usize,
}

impl Search {
    fn learn(&mut self, items: &[Item], address: &[u64], stacked: Stacked, random: &mut SplitMix) {
        self.fruitless = if stacked.top < self.top { 1 } else { self.fruitless + 1 };
        if stacked.top <= self.top {
            self.top = stacked.top;
            self.best.copy_from_slice(&self.priorities);
        }
        match stacked.failed {
            Some((section, height)) if !self.fruitless.is_multiple_of(STUCK) => {
                for ((item, at), priority) in items.iter().zip(address).zip(&mut self.priorities) {
                    if item.first <= section && section < item.end && *at >= height {
                        *priority *= 1.0 + RAISE * random.unit();
                    }
                }
            }
            _ => {
                self.priorities.copy_from_slice(&self.best);
                for priority in &mut self.priorities {
                    if random.unit() < SHAKEN {
                        *priority *= 1.0 + RAISE * random.unit();
                    }
                }
            }
        }
    }
}
