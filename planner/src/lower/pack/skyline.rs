//! Packing from the ground up, guided by what went wrong before.

use simulator::Profile;

use crate::split_mix::SplitMix;

use super::heights::{Heights, Valley};
use super::item::{Item, items};
use super::unplaced::Unplaced;
use super::{ALIGNMENT, Block};

/// Blocks that are stacked, times rounds: what decides how often a stacking is tried again.
const WORK: usize = 300_000;

/// Rounds at least, where there are many blocks just those, and at most.
const ROUNDS: (usize, usize) = (8, 800);

/// A block's first priority: its time to the one power by its size to the other. No one serves all
/// traces.
const PRIORITIES: [(f64, f64); 3] = [(0.2, 0.5), (0.3, 1.0), (1.0, 0.0)];

/// So many of the best searches go on for this part of the rounds, if the best is beyond the room
/// by no more thousandths of it.
const STAGES: [(usize, usize, u64); 3] = [(3, 8, 0), (2, 8, 20), (1, 2, 10)];

/// After so many rounds that brought nothing, the best priorities are shaken and tried anew.
const STUCK: usize = 20;

/// Share of the blocks whose priority that changes.
const SHAKEN: f64 = 0.05;

/// By how much a priority rises at most.
const RAISE: f64 = 0.3;

struct Stacked {
    top: u64,
    /// Where room was first wasted that was not there: a section, and the height that had been
    /// reached.
    failed: Option<(u32, u64)>,
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
    pub items: Vec<Item>,
    /// By section, the first item that begins there or later.
    from: Vec<usize>,
    /// Bytes that live in each section, the most of them, and by how much each is less.
    live: Vec<u64>,
    pub most: u64,
    below_most: Vec<u64>,
    room: u64,
    // Of the stacking in progress:
    address: Vec<u64>,
    unplaced: Unplaced,
    heights: Heights,
    /// Until something has failed: bytes in each section that have their places, from `below_most`
    /// on; and bytes that live there and those that were wasted below them. A section in which
    /// nothing more is to come is out of both.
    placed: Profile,
    filled: Profile,
}

const NOWHERE: u64 = u64::MAX;

/// More than any sum of bytes: what is out of a profile.
const OUT: i64 = 1 << 61;

impl Skyline {
    pub fn new(blocks: &[Block], groups: &[Vec<usize>], chosen: &[usize], room: u64) -> Self {
        let (items, count) = items(blocks, groups, chosen);
        let mut changes = vec![0i64; count + 1];
        for item in &items {
            for (range, bytes) in item.stretches() {
                changes[range.start] += bytes as i64;
                changes[range.end] -= bytes as i64;
            }
        }
        let mut sum = 0;
        let live = changes[..count].iter().map(|change| {
            sum += change;
            sum as u64
        });
        let live: Vec<u64> = live.collect();
        let most = live.iter().copied().max().unwrap_or(0);
        let mut from = vec![items.len(); count + 1];
        for (index, item) in items.iter().enumerate().rev() {
            from[item.first as usize] = index;
        }
        for section in (0..count).rev() {
            from[section] = from[section].min(from[section + 1]);
        }
        Self {
            unplaced: Unplaced::new(&items),
            heights: Heights::default(),
            below_most: live.iter().map(|live| most - live).collect(),
            most,
            items,
            from,
            live,
            room,
            address: Vec::new(),
            placed: Profile::default(),
            filled: Profile::default(),
        }
    }

    /// Where the best addresses found end, and those, by item. The search ends with the first that
    /// fit.
    pub fn best(&mut self) -> (u64, Vec<u64>) {
        let rounds = match self.items.len() >= super::MANY {
            true => ROUNDS.0,
            false => (WORK / self.items.len().max(1)).clamp(ROUNDS.0, ROUNDS.1),
        };
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
                        return best;
                    }
                    search.learn(&self.items, &self.address, stacked, &mut random);
                }
            }
        }
        best
    }

    /// Nodes that a stacking looks at.
    #[cfg(test)]
    pub fn work_of_one_stacking(&mut self) -> u64 {
        let search = self.search(PRIORITIES[0]);
        self.stack(&search.priorities);
        self.unplaced.looks.get()
    }

    /// Addresses of items as those of their groups.
    pub fn by_group(&self, address: &[u64]) -> Vec<(usize, u64)> {
        self.items.iter().zip(address).map(|(item, at)| (item.group, *at)).collect()
    }

    fn search(&self, (time, size): (f64, f64)) -> Search {
        let priority = |item: &Item| {
            f64::from(item.end - item.first).powf(time) * (item.most as f64).powf(size)
        };
        let priorities: Vec<f64> = self.items.iter().map(priority).collect();
        Search { top: u64::MAX, best: priorities.clone(), priorities, fruitless: 0 }
    }

    fn stack(&mut self, priorities: &[f64]) -> Stacked {
        self.address.clear();
        self.address.resize(self.items.len(), NOWHERE);
        self.unplaced.begin(priorities);
        self.heights.begin(self.live.len() as u32);
        self.placed.reset(&self.below_most);
        self.filled.reset(&self.live);
        let mut stacked = Stacked { top: 0, failed: None };
        let mut left = self.items.len();
        while left > 0 {
            let valley = self.heights.lowest();
            let here = self.from[valley.begin as usize]..self.from[valley.end as usize];
            match self.unplaced.highest(here, valley.end) {
                Some(index) => {
                    self.put(valley.begin, index, valley.height, stacked.failed.is_none());
                    stacked.top = stacked.top.max(valley.height + self.items[index].most);
                    left -= 1;
                }
                None => self.fill(valley, &mut stacked),
            }
        }
        stacked
    }

    /// Puts an item on the ground of a valley.
    fn put(&mut self, valley: u32, index: usize, height: u64, counts: bool) {
        self.address[index] = height;
        self.unplaced.remove(index);
        let item = &self.items[index];
        let tops = item
            .stretches()
            .map(|(at, bytes)| (at.start as u32, (height + bytes).next_multiple_of(ALIGNMENT)));
        self.heights.put(valley, tops, item.end);
        if !counts {
            return;
        }
        for (range, bytes) in item.stretches() {
            self.placed.add(range, bytes as i64);
        }
        // Where nothing more is to come, nothing is wasted.
        let here = item.first as usize..item.end as usize;
        while let Some(section) = self.placed.last_above(here.clone(), self.most as i64 - 1) {
            self.placed.add(section..section + 1, -OUT);
            self.filled.add(section..section + 1, -OUT);
        }
    }

    /// Fills a valley in which nothing fits.
    fn fill(&mut self, valley: Valley, stacked: &mut Stacked) {
        let bank = self.heights.fill(valley.begin);
        if stacked.failed.is_none() {
            let sections = valley.begin as usize..valley.end as usize;
            self.filled.add(sections.clone(), (bank - valley.height) as i64);
            let room = i64::try_from(self.room).unwrap_or(i64::MAX);
            let failed = self.filled.first_above(sections, room);
            stacked.failed = failed.map(|section| (section as u32, bank));
        }
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
