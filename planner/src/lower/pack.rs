//! Packing buffers into addresses.
//!
//! Each block lives for an interval of events; blocks that live at one moment must not overlap.
//! Finding the smallest arena is NP-hard (dynamic storage allocation). No one order in which to
//! place blocks at the lowest free address serves all traces: by birth, by death and by size each
//! come within a percent of the live bytes on some and lose a fifth on others. So all are tried;
//! where none fits, blocks are stacked from the bottom (`skyline`), a bounded number of times, and what is
//! in the way of those that end too high is put elsewhere (`ejections`). Thousands of blocks are placed in
//! one [`sweep`] over time first.
//!
//! Orders and stacks ask trees over time and blocks ([`taken`], [`unplaced`], [`heights`]), and find what
//! looking at all blocks would find. That takes little more than linear time unless sizes are very
//! odd; there, an order that costs too much is given up.

mod ejections;
mod heights;
mod item;
mod skyline;
mod sweep;
mod taken;
mod unplaced;

use std::cmp::Reverse;

use schema::Bytes;

use skyline::Skyline;
use sweep::{Lives, sweep};
use taken::Taken;

/// Addresses are multiples of this: what device allocators and vector instructions want.
pub(crate) const ALIGNMENT: u64 = 256;

/// Blocks this small a share of the live bytes fit into what the large ones leave, and are placed
/// once these have their places.
const SMALL: u64 = 300_000;

/// What an order may cost before it is given up, and what more for each block ([`Taken::work`]): on
/// traces of some tens of thousands of ops, where sizes are so odd that ever more room between
/// blocks is too small for the next, looking for it would take time in the square of their number.
/// The order by birth is never given up: what lives then is all that it meets.
const WORK: (u64, u64) = (100_000_000, 1000);

/// An order in which blocks are placed; of equals, the larger come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The largest first, and of equals what comes to be first.
    Size,
    /// The largest first, and of equals what lives longest.
    SizeAndTime,
    Birth,
    /// What goes last comes first.
    Death,
}

/// The orders as they are tried; of equal placements, the first is taken.
const ORDERS: [By; 4] = [By::Size, By::SizeAndTime, By::Birth, By::Death];

/// From so many blocks on, they are placed in one sweep over time, which takes a tenth of the time of an
/// order; where that is too much, these orders are tried, each of which may cost so much. As much may it
/// cost to find room for many small ones between the others.
const MANY: usize = 5000;
const ORDERS_OF_MANY: [By; 2] = [By::Size, By::Death];
const WORK_OF_MANY: u64 = 10_000_000;

/// Of so many blocks, a placement that fits is good enough where it takes no more than one part in
/// so many beyond the least.
const WASTE: u64 = 64;

/// How long to look for a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effort {
    /// Each order is tried once.
    Little,
    /// Then blocks are stacked, over and over until they fit or it was often enough.
    Stacked,
    /// Then those that are in the way of others are put elsewhere.
    Full,
}

/// A buffer that wants an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub bytes: u64,
    /// The event at which it comes to be.
    pub from: u32,
    /// The event at which its last use has ended.
    pub until: u32,
    /// The block, listed before this one, at whose address this one must lie.
    pub over: Option<usize>,
    pub address: u64,
}

impl Block {
    pub fn new(bytes: u64, from: u32, until: u32) -> Self {
        Self { bytes, from, until, over: None, address: 0 }
    }
}

/// Gives every block an address and returns the end of the highest, which is no more than `room`
/// where the search finds a way.
pub(crate) fn pack(blocks: &mut [Block], room: Bytes, effort: Effort) -> Bytes {
    let groups = groups(blocks);
    // What is always there goes to the bottom, where it disturbs nobody.
    let (always, moving): (Vec<usize>, Vec<usize>) =
        (0..groups.len()).partition(|group| lives_always(blocks, &groups[*group]));
    let (mut bottom, mut end) = (0u64, 0);
    for group in always {
        for block in &groups[group] {
            blocks[*block].address = bottom;
        }
        end = bottom + largest(blocks, &groups[group]);
        bottom = end.next_multiple_of(ALIGNMENT);
    }
    let enough = live_peak(blocks, 0..blocks.len()) / SMALL;
    let (large, small): (Vec<usize>, Vec<usize>) =
        moving.iter().partition(|group| largest(blocks, &groups[**group]) > enough);
    let mut search = Search::new(blocks, &groups, &moving, bottom);
    let mut placement = search.best(&large, room.0, effort);
    let mut small = small;
    small.sort_by_key(|group| (Reverse(largest(blocks, &groups[*group])), *group));
    search.add(&small, room.0, &mut placement);
    for (group, address) in placement.placed {
        for block in &groups[group] {
            blocks[*block].address = if blocks[*block].bytes > 0 { address } else { 0 };
        }
    }
    Bytes(placement.top.max(end))
}

/// Size of the largest block of a group.
fn largest(blocks: &[Block], group: &[usize]) -> u64 {
    group.iter().map(|block| blocks[*block].bytes).max().unwrap_or(0)
}

struct Placement {
    /// Each group that has its place, and where.
    placed: Vec<(usize, u64)>,
    /// The end of the highest block.
    top: u64,
}

impl Placement {
    fn join(&mut self, other: Self) {
        self.placed.extend(other.placed);
        self.top = self.top.max(other.top);
    }
}

struct Search<'a> {
    blocks: &'a [Block],
    groups: &'a [Vec<usize>],
    /// Nothing lies below it.
    bottom: u64,
    sections: Vec<(u32, u32)>,
    taken: Taken,
}

impl<'a> Search<'a> {
    /// A search for addresses of some of the groups, from `bottom` on.
    fn new(blocks: &'a [Block], groups: &'a [Vec<usize>], moving: &[usize], bottom: u64) -> Self {
        let (sections, count) = sections(blocks, moving.iter().flat_map(|group| &groups[*group]));
        Self { blocks, groups, bottom, sections, taken: Taken::new(count) }
    }

    fn best(&mut self, large: &[usize], room: u64, effort: Effort) -> Placement {
        let blocks_of_large = large.iter().flat_map(|group| &self.groups[*group]).copied();
        let least = self.bottom.saturating_add(live_peak(self.blocks, blocks_of_large));
        let mut best = match large.len() >= MANY {
            true => self.best_of_many(large, room, least),
            false => self.best_order(large, least),
        };
        if effort == Effort::Little || best.top <= room {
            return best;
        }
        let above = room.saturating_sub(self.bottom);
        let mut skyline = Skyline::new(self.blocks, self.groups, large, above);
        let (top, address) = skyline.best();
        let ejects = effort == Effort::Full && skyline.most <= above && above < top;
        let fitted = ejects.then(|| ejections::fitted(&skyline.items, &address, above)).flatten();
        if fitted.is_some() || self.bottom.saturating_add(top) < best.top {
            let address = fitted.unwrap_or(address);
            best = self.placed(skyline.by_group(&address), self.bottom);
        }
        best
    }

    fn best_order(&mut self, large: &[usize], least: u64) -> Placement {
        let work = WORK.0 + WORK.1 * large.len() as u64;
        let mut tried: Vec<Vec<usize>> = Vec::with_capacity(ORDERS.len());
        let mut best: Option<Placement> = None;
        for by in ORDERS {
            let below = best.as_ref().map_or(u64::MAX, |best| best.top);
            if best.is_some() && below <= least {
                break;
            }
            let order = self.order(by, large);
            // Sizes that all differ leave nothing to birth.
            if tried.contains(&order) {
                continue;
            }
            let most = if by == By::Birth { u64::MAX } else { work };
            if let Some(better) = self.place(&order, most, below) {
                best = Some(better);
            }
            tried.push(order);
        }
        best.expect("the order by birth is not given up")
    }

    fn best_of_many(&mut self, large: &[usize], room: u64, least: u64) -> Placement {
        let mut best = self.swept(large, self.bottom);
        let enough = least.max(room.min(least.saturating_add(least / WASTE)));
        for by in ORDERS_OF_MANY {
            if best.top <= enough {
                break;
            }
            let order = self.order(by, large);
            best = self.place(&order, WORK_OF_MANY, best.top).unwrap_or(best);
        }
        best
    }

    /// Groups placed in one sweep over time, above an address.
    fn swept(&self, groups: &[usize], above: u64) -> Placement {
        let lives: Vec<Lives> = (groups.iter())
            .filter_map(|id| Lives::new(self.blocks, &self.groups[*id], *id, &self.sections))
            .collect();
        self.placed(sweep(&lives), above.next_multiple_of(ALIGNMENT))
    }

    /// Groups at addresses above another.
    fn placed(&self, addresses: Vec<(usize, u64)>, above: u64) -> Placement {
        let mut placement = Placement { placed: Vec::with_capacity(addresses.len()), top: 0 };
        for (group, address) in addresses {
            self.put(group, above + address, &mut placement);
        }
        placement
    }

    /// Groups in the order in which they are placed.
    fn order(&self, by: By, groups: &[usize]) -> Vec<usize> {
        let first = |group: usize| self.groups[group].iter().map(|b| self.blocks[*b].from).min();
        let last = |group: usize| self.groups[group].iter().map(|b| self.blocks[*b].until).max();
        let size = |group: usize| Reverse(largest(self.blocks, &self.groups[group]));
        let time = |group: usize| last(group).zip(first(group)).map(|(last, first)| last - first);
        let mut order = groups.to_vec();
        match by {
            By::Size => order.sort_by_cached_key(|g| (size(*g), first(*g), *g)),
            By::SizeAndTime => order.sort_by_cached_key(|g| (size(*g), Reverse(time(*g)), *g)),
            By::Birth => order.sort_by_cached_key(|g| (first(*g), size(*g), *g)),
            By::Death => order.sort_by_cached_key(|g| (Reverse(last(*g)), size(*g), *g)),
        }
        order
    }

    /// Places groups one after the other; none, where that costs more than `most` or does not end
    /// below an address.
    fn place(&mut self, order: &[usize], most: u64, below: u64) -> Option<Placement> {
        self.taken.clear();
        let mut placement = Placement { placed: Vec::with_capacity(order.len()), top: 0 };
        for group in order {
            self.put_lowest(*group, &mut placement);
            if self.taken.work > most || placement.top >= below {
                return None;
            }
        }
        Some(placement)
    }

    /// Places groups, the largest first, beside those that have their places. Many that fit above all
    /// of these lie there; else what looking for room between them takes is bounded, and those that are
    /// left by then, the smallest, lie above.
    fn add(&mut self, groups: &[usize], room: u64, placement: &mut Placement) {
        if groups.is_empty() {
            return;
        }
        let is_many = groups.len() >= MANY;
        if is_many {
            let above = self.swept(groups, placement.top);
            if above.top <= room {
                placement.join(above);
                return;
            }
        }
        self.taken.clear();
        for (group, address) in &placement.placed {
            self.take(*group, *address);
        }
        let mut left = groups.iter();
        for group in left.by_ref() {
            self.put_lowest(*group, placement);
            if is_many && self.taken.work > WORK_OF_MANY {
                break;
            }
        }
        placement.join(self.swept(left.as_slice(), placement.top));
    }

    /// Puts a group at the lowest address that is free while its blocks live.
    fn put_lowest(&mut self, group: usize, placement: &mut Placement) {
        let of = self.groups[group].iter().filter(|block| self.blocks[**block].bytes > 0);
        let wanted = of.map(|block| (self.sections[*block], self.blocks[*block].bytes));
        let address = self.taken.lowest(self.bottom, wanted);
        self.take(group, address);
        self.put(group, address, placement);
    }

    fn take(&mut self, group: usize, address: u64) {
        for block in self.groups[group].iter().filter(|block| self.blocks[**block].bytes > 0) {
            self.taken.take(self.sections[*block], address, self.blocks[*block].bytes);
        }
    }

    fn put(&self, group: usize, address: u64, placement: &mut Placement) {
        placement.placed.push((group, address));
        placement.top = placement.top.max(address + largest(self.blocks, &self.groups[group]));
    }
}

/// Cuts time into *sections*, the largest sets of blocks that live at one moment, and returns for
/// each block its first section and the one after its last, and how many there are. Two blocks live
/// at one moment if they share a section. Blocks of no bytes live nowhere.
fn sections<'a>(blocks: &[Block], of: impl Iterator<Item = &'a usize>) -> (Vec<(u32, u32)>, usize) {
    let mut events: Vec<(u32, bool, usize)> = Vec::new();
    for block in of {
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
            section += u32::from(gone);
            gone = false;
            sections[block].0 = section;
        } else {
            gone = true;
            sections[block].1 = section + 1;
        }
    }
    (sections, section as usize + 1)
}

/// Whether a group is there from before the first event and for good.
fn lives_always(blocks: &[Block], group: &[usize]) -> bool {
    group.iter().all(|b| blocks[*b].from == 0 && blocks[*b].until == u32::MAX)
}

/// Blocks that lie at one address, together.
fn groups(blocks: &[Block]) -> Vec<Vec<usize>> {
    let mut group_of: Vec<usize> = Vec::with_capacity(blocks.len());
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let group = match block.over {
            Some(other) => group_of[other],
            None => {
                groups.push(Vec::new());
                groups.len() - 1
            }
        };
        group_of.push(group);
        groups[group].push(index);
    }
    groups
}

/// Largest sum of blocks at one event; a block over another counts for what it adds.
fn live_peak(blocks: &[Block], of: impl Iterator<Item = usize>) -> u64 {
    let mut changes: Vec<(u32, bool, u64)> = Vec::new();
    for block in of.map(|block| &blocks[block]) {
        changes.push((block.from, true, block.bytes));
        changes.push((block.until, false, block.bytes));
        if let Some(other) = block.over {
            let shared = block.bytes.min(blocks[other].bytes);
            changes.push((block.from, false, shared));
            changes.push((blocks[other].until, true, shared));
        }
    }
    // At one event, what goes makes room for what comes.
    changes.sort_unstable();
    let mut live = 0i128;
    let mut peak = 0;
    for (_, comes, bytes) in changes {
        live += if comes { i128::from(bytes) } else { -i128::from(bytes) };
        peak = peak.max(live);
    }
    peak as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::split_mix::SplitMix;

    /// So many random blocks that fill as many aligned bytes to the brim, as a cut of a full rectangle.
    pub(super) fn cut_rectangle(bytes: u64, count: usize, seed: u64) -> Vec<Block> {
        let mut random = SplitMix::new(seed);
        let mut cut = vec![(0u64, bytes, 0u32, 48u32)];
        while cut.len() < count {
            let at = random.below(cut.len() as u64) as usize;
            let (low, high, from, until) = cut[at];
            if random.below(2) == 0 && high - low > 1 {
                let middle = low + 1 + random.below(high - low - 1);
                cut[at].1 = middle;
                cut.push((middle, high, from, until));
            } else if until - from > 1 {
                let middle = from + 1 + random.below(u64::from(until - from - 1)) as u32;
                cut[at].3 = middle;
                cut.push((low, high, middle, until));
            }
        }
        let block = |(low, high, from, until): (u64, u64, u32, u32)| {
            Block::new((high - low) * ALIGNMENT, from, until)
        };
        cut.into_iter().map(block).collect()
    }

    /// Random blocks that fill memory to the brim: they fit, and stacking finds how.
    #[test]
    fn stacking_finds_what_no_order_does() {
        let (mut by_order, mut stacked) = (0, 0);
        for seed in 0..40 {
            let mut blocks = cut_rectangle(64, 40, seed);
            let room = Bytes(64 * ALIGNMENT);
            by_order += usize::from(pack(&mut blocks, room, Effort::Little) <= room);
            stacked += usize::from(pack(&mut blocks, room, Effort::Stacked) <= room);
        }
        assert!(stacked == 40 && by_order < 30, "{by_order} by order, {stacked} stacked");
    }

    /// A chain, forward and back, as training makes it: each forward block lives until its mirror,
    /// and each backward block until the next.
    fn chain(half: u32) -> Vec<Block> {
        let mut random = SplitMix::new(7);
        let mut bytes = || (1 + random.below(16)) << 20;
        let forward = (0..half).map(|op| (bytes(), 2 * op, 2 * (2 * half - op)));
        let forward: Vec<_> = forward.collect();
        let backward = (half..2 * half).map(|op| (bytes(), 2 * op, 2 * op + 3));
        let all = forward.into_iter().chain(backward);
        all.map(|(bytes, from, until)| Block::new(bytes, from, until)).collect()
    }

    /// What twice as many blocks cost: about twice as much, and not four times.
    #[test]
    fn packing_takes_little_more_than_linear_time() {
        let work = |half: u32| {
            let blocks = chain(half);
            let groups = groups(&blocks);
            let all: Vec<usize> = (0..groups.len()).collect();
            let mut search = Search::new(&blocks, &groups, &all, 0);
            let mut order = all.clone();
            order.sort_by_key(|group| (Reverse(blocks[*group].bytes), *group));
            assert!(search.place(&order, u64::MAX, u64::MAX).is_some());
            let placing = search.taken.work;
            assert!(search.place(&all, u64::MAX, u64::MAX).is_some());
            let mut skyline =
                Skyline::new(&blocks, &groups, &all, live_peak(&blocks, 0..all.len()));
            [placing, search.taken.work, skyline.work_of_one_stacking()]
        };
        let (once, twice) = (work(2000), work(4000));
        for (once, twice) in once.into_iter().zip(twice) {
            assert!(2 * twice < 5 * once, "{once} and {twice}");
        }
    }

    /// An order that costs too much is given up, and there is a placement for all that.
    #[test]
    fn an_order_that_costs_too_much_is_given_up() {
        let blocks = chain(20);
        let groups = groups(&blocks);
        let all: Vec<usize> = (0..groups.len()).collect();
        let mut search = Search::new(&blocks, &groups, &all, 0);
        assert!(search.place(&all, 10, u64::MAX).is_none());
        let placed = search.place(&all, u64::MAX, u64::MAX).expect("there is no limit");
        assert_eq!(placed.placed.len(), 40);
        assert!(search.place(&all, u64::MAX, placed.top).is_none(), "it would be no better");
    }

    /// Of many blocks, too, what can fit fits.
    #[test]
    fn many_blocks_fit_into_little_more_than_the_least() {
        let mut blocks = chain(MANY as u32 / 2);
        let least = live_peak(&blocks, 0..blocks.len());
        let room = least + least / 100;
        let end = pack(&mut blocks, Bytes(room), Effort::Little);
        assert!(end.0 <= room, "{end} of {least}");
    }

    /// Many small blocks lie above the large ones, or where that is too much, between them.
    #[test]
    fn many_small_blocks_overlap_nothing() {
        let mut random = SplitMix::new(7);
        let small = (0..2 * MANY).map(|_| {
            let from = random.below(190) as u32;
            Block::new(1 + random.below(500), from, from + 1 + random.below(100) as u32)
        });
        let mut blocks: Vec<Block> = chain(50).into_iter().chain(small).collect();
        let large = pack(&mut blocks[..100], Bytes(0), Effort::Full);
        let least = live_peak(&blocks, 0..blocks.len());
        for (room, is_above) in [(2 * least, true), (least, false)] {
            let end = pack(&mut blocks, Bytes(room), Effort::Little);
            assert_eq!(overlaps(&blocks, end.0), None);
            let above = blocks[100..].iter().filter(|block| block.address >= large.0).count();
            assert_eq!(above == 2 * MANY, is_above, "{above}");
        }
    }

    proptest! {
        /// Nothing overlaps while it lives, whatever the effort; what lies over another does so.
        #[test]
        fn no_two_blocks_that_live_at_once_overlap(
            drawn in prop::collection::vec((0u64..9, 0u32..40, 1u32..12, prop::bool::weighted(0.2)), 1..60),
            share in 50u64..110,
        ) {
            let mut blocks: Vec<Block> = Vec::new();
            for (size, from, length, over) in drawn {
                let mut new = Block::new(size * 300, from, from + length);
                // As an in-place output: it begins when the other one ends.
                let free = |b: &Block| b.over.is_none() && b.until == new.from && b.bytes > 0;
                let taken = |at: usize| blocks.iter().any(|b| b.over == Some(at));
                let donor = (0..blocks.len()).find(|at| free(&blocks[*at]) && !taken(*at));
                new.over = donor.filter(|_| over);
                // Of some, a use goes on for a while.
                if let Some(donor) = new.over.filter(|_| length % 2 == 0) {
                    blocks[donor].until += length / 2;
                }
                blocks.push(new);
            }
            let room = Bytes(live_peak(&blocks, 0..blocks.len()) * share / 100);
            let end = pack(&mut blocks, room, Effort::Full);
            prop_assert!(overlaps(&blocks, end.0).is_none(), "{:?}", overlaps(&blocks, end.0));
            let mut many = blocks.clone();
            let (groups, least) = (groups(&blocks), live_peak(&blocks, 0..blocks.len()));
            let all: Vec<usize> = (0..groups.len()).collect();
            let mut search = Search::new(&blocks, &groups, &all, 0);
            let placement = search.best_of_many(&all, room.0, least);
            for (group, address) in &placement.placed {
                groups[*group].iter().for_each(|block| many[*block].address = *address);
            }
            prop_assert!(overlaps(&many, placement.top).is_none(), "{:?}", overlaps(&many, placement.top));
        }
    }

    /// What is wrong with some addresses that end by `end`.
    fn overlaps(blocks: &[Block], end: u64) -> Option<String> {
        for (index, a) in blocks.iter().enumerate().filter(|(_, block)| block.bytes > 0) {
            let is_over = a.over.is_none_or(|over| a.address == blocks[over].address);
            if a.address + a.bytes > end || !a.address.is_multiple_of(ALIGNMENT) || !is_over {
                return Some(format!("{a:?} until {end}"));
            }
            for (other, b) in blocks[..index].iter().enumerate().filter(|(_, b)| b.bytes > 0) {
                let meet = a.over != Some(other) && a.from < b.until && b.from < a.until;
                let apart = a.address + a.bytes <= b.address || b.address + b.bytes <= a.address;
                if meet && !apart {
                    return Some(format!("{a:?} {b:?}"));
                }
            }
        }
        None
    }
}
