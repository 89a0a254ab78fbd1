//! Packing buffers into addresses.
//!
//! Each block lives for an interval of events; blocks that live at one moment must not overlap.
//! Finding the smallest arena is NP-hard (dynamic storage allocation). No one order in which to
//! place blocks at the lowest free address serves all traces: by birth, by death and by size each
//! come within a percent of the live bytes on some and lose a fifth on others. So all are tried;
//! where none fits, blocks are stacked from the bottom (`skyline`), a bounded number of times.

mod skyline;

use std::cmp::Reverse;

use schema::Bytes;

use skyline::Skyline;

/// Addresses are multiples of this: what device allocators and vector instructions want.
const ALIGNMENT: u64 = 256;

/// Blocks this small a share of the live bytes fit into what the large ones leave, and are placed
/// once these have their places.
const SMALL: u64 = 300_000;

/// How long to look for a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Each order is tried once.
    Little,
    /// Then blocks are stacked, over and over until they fit or it was often enough.
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
    let enough = live_peak(blocks) / SMALL;
    let (large, small): (Vec<usize>, Vec<usize>) =
        moving.into_iter().partition(|group| largest(blocks, &groups[*group]) > enough);
    let search = Search { blocks, groups: &groups, bottom };
    let mut placement = search.best(&large, room.0, effort);
    let mut small = small;
    small.sort_by_key(|group| (std::cmp::Reverse(largest(blocks, &groups[*group])), *group));
    small.iter().for_each(|group| placement.place(blocks, &groups[*group]));
    let arena = placement.top();
    for placed in placement.placed {
        blocks[placed.block].address = placed.begin;
    }
    Bytes(arena.max(end))
}

/// Size of the largest block of a group.
fn largest(blocks: &[Block], group: &[usize]) -> u64 {
    group.iter().map(|block| blocks[*block].bytes).max().unwrap_or(0)
}

struct Search<'a> {
    blocks: &'a [Block],
    groups: &'a [Vec<usize>],
    bottom: u64,
}

impl Search<'_> {
    /// The best placement found.
    fn best(&self, large: &[usize], room: u64, effort: Effort) -> Placement {
        let first = |group: usize| self.groups[group].iter().map(|b| self.blocks[*b].from).min();
        let last = |group: usize| self.groups[group].iter().map(|b| self.blocks[*b].until).max();
        let size = |group: usize| Reverse(largest(self.blocks, &self.groups[group]));
        let mut orders: Vec<Vec<usize>> = vec![large.to_vec(); 4];
        orders[0].sort_by_key(|g| (size(*g), first(*g), *g));
        orders[1]
            .sort_by_key(|g| (size(*g), Reverse(last(*g).zip(first(*g)).map(|(l, f)| l - f)), *g));
        orders[2].sort_by_key(|g| (first(*g), size(*g), *g));
        orders[3].sort_by_key(|g| (Reverse(last(*g)), size(*g), *g));
        let mut placed: Vec<Placement> = orders.iter().map(|order| self.place(order)).collect();
        let mut best = placed.remove(0);
        // Of equals, the first.
        for other in placed {
            if other.top() < best.top() {
                best = other;
            }
        }
        if effort == Effort::Little || best.top() <= room {
            return best;
        }
        let above = room.saturating_sub(self.bottom);
        let (top, addresses) = Skyline::new(self.blocks, self.groups, large, above).best();
        if self.bottom.saturating_add(top) < best.top() {
            best.placed.clear();
            for (group, address) in addresses {
                best.put(self.blocks, &self.groups[group], self.bottom + address);
            }
        }
        best
    }

    fn place(&self, order: &[usize]) -> Placement {
        let placed = Vec::with_capacity(self.blocks.len());
        let mut placement = Placement { bottom: self.bottom, placed };
        order.iter().for_each(|group| placement.place(self.blocks, &self.groups[*group]));
        placement
    }
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
fn live_peak(blocks: &[Block]) -> u64 {
    let mut changes: Vec<(u32, bool, u64)> = Vec::with_capacity(2 * blocks.len());
    for block in blocks {
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

/// A block that has its place.
#[derive(Debug, Clone, Copy)]
struct Placed {
    begin: u64,
    end: u64,
    from: u32,
    until: u32,
    block: usize,
}

/// Addresses of the blocks placed so far.
struct Placement {
    /// Nothing lies below it.
    bottom: u64,
    /// By ascending begin.
    placed: Vec<Placed>,
}

impl Placement {
    /// Puts a group at the lowest address that is free while its blocks live.
    fn place(&mut self, blocks: &[Block], group: &[usize]) {
        self.put(blocks, group, self.lowest(blocks, group));
    }

    fn put(&mut self, blocks: &[Block], group: &[usize], address: u64) {
        for block in group.iter().filter(|block| blocks[**block].bytes > 0) {
            let Block { bytes, from, until, .. } = blocks[*block];
            let placed =
                Placed { begin: address, end: address + bytes, from, until, block: *block };
            let at = self.placed.partition_point(|other| other.begin <= address);
            self.placed.insert(at, placed);
        }
    }

    fn lowest(&self, blocks: &[Block], group: &[usize]) -> u64 {
        let largest = largest(blocks, group);
        let mut address = self.bottom;
        loop {
            let tried = address;
            for other in &self.placed {
                if other.begin >= address + largest {
                    break;
                }
                let disturbs = |block: &usize| {
                    let block = &blocks[*block];
                    other.from < block.until
                        && block.from < other.until
                        && other.begin < address + block.bytes
                };
                if other.end > address && group.iter().any(disturbs) {
                    address = other.end.next_multiple_of(ALIGNMENT);
                }
            }
            // Where blocks of a group differ in size, what is above a small one may be in the way of
            // a large one once it has moved up.
            if group.len() == 1 || address == tried {
                return address;
            }
        }
    }

    /// The end of the highest block.
    fn top(&self) -> u64 {
        self.placed.iter().map(|placed| placed.end).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::split_mix::SplitMix;

    fn block(bytes: u64, from: u32, until: u32) -> Block {
        Block { bytes, from, until, over: None, address: 0 }
    }

    /// Random blocks that fill memory to the brim, as a cut of a full rectangle: they fit, and
    /// stacking finds how.
    #[test]
    fn stacking_finds_what_no_order_does() {
        let (mut by_order, mut stacked) = (0, 0);
        for seed in 0..40 {
            let mut random = SplitMix::new(seed);
            let mut cut = vec![(0u64, 64u64, 0u32, 48u32)];
            while cut.len() < 40 {
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
            let blocks = cut
                .iter()
                .map(|(low, high, from, until)| block((high - low) * ALIGNMENT, *from, *until));
            let mut blocks: Vec<Block> = blocks.collect();
            let room = Bytes(64 * ALIGNMENT);
            by_order += usize::from(pack(&mut blocks, room, Effort::Little) <= room);
            stacked += usize::from(pack(&mut blocks, room, Effort::Full) <= room);
        }
        assert!(stacked == 40 && by_order < 30, "{by_order} by order, {stacked} stacked");
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
                let mut new = block(size * 300, from, from + length);
                // As an in-place output: it begins when the other one ends.
                let free = |b: &Block| b.over.is_none() && b.until == new.from && b.bytes > 0;
                let taken = |at: usize| blocks.iter().any(|b| b.over == Some(at));
                let donor = (0..blocks.len()).find(|at| free(&blocks[*at]) && !taken(*at));
                new.over = donor.filter(|_| over);
                blocks.push(new);
            }
            let room = Bytes(live_peak(&blocks) * share / 100);
            let end = pack(&mut blocks, room, Effort::Full);
            for (index, a) in blocks.iter().enumerate() {
                prop_assert!(a.address + a.bytes <= end.0);
                prop_assert!(a.bytes == 0 || a.address % ALIGNMENT == 0);
                if let Some(over) = a.over {
                    prop_assert!(a.bytes == 0 || a.address == blocks[over].address);
                }
                for b in &blocks[..index] {
                    let meet = a.from < b.until && b.from < a.until;
                    let apart = a.address + a.bytes <= b.address || b.address + b.bytes <= a.address;
                    prop_assert!(!meet || apart || a.bytes == 0 || b.bytes == 0, "{a:?} {b:?}");
                }
            }
        }
    }
}
