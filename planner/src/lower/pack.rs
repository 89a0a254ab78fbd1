//! Packing buffers into addresses.
//!
//! Each block lives for an interval of events; blocks that live at one moment must not overlap.
//! Finding the smallest arena is NP-hard (dynamic storage allocation). Placing the largest first,
//! each at the lowest address that is free for its whole life, comes within a percent or two of
//! the live bytes on real traces; where it does not, whatever ended highest is moved to the front
//! and all is placed again.

use schema::Bytes;

/// Addresses are multiples of this: what device allocators and vector instructions want.
const ALIGNMENT: u64 = 256;

/// How often the blocks are placed anew before the best arena found is taken.
const ROUNDS: usize = 24;

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

/// Blocks this small a share of the whole fit into what the large ones leave, and are placed once
/// these have their places.
const SMALL: u64 = 4000;

/// Gives every block an address and returns the end of the highest, which is no more than `room`
/// where the search finds a way.
pub(crate) fn pack(blocks: &mut [Block], room: Bytes) -> Bytes {
    let groups = groups(blocks);
    let live_peak = live_peak(blocks);
    let size = |group: usize| groups[group].iter().map(|b| blocks[*b].bytes).max().unwrap_or(0);
    let lifetime = |group: usize| {
        let first = groups[group].iter().map(|b| blocks[*b].from).min();
        let last = groups[group].iter().map(|b| blocks[*b].until).max();
        last.unwrap_or(0) - first.unwrap_or(0)
    };
    // What is always there goes to the bottom, where it disturbs nobody.
    let always: Vec<bool> = groups.iter().map(|group| lives_always(blocks, group)).collect();
    let mut order: Vec<usize> = (0..groups.len()).filter(|g| size(*g) > 0).collect();
    order.sort_by_key(|g| (!always[*g], std::cmp::Reverse((size(*g), lifetime(*g))), *g));
    let fixed = order.iter().take_while(|g| always[**g]).count();
    let small = order.iter().position(|g| !always[*g] && size(*g) <= live_peak / SMALL);
    let small = order.split_off(small.unwrap_or(order.len()));
    let mut best: Option<(u64, Placement)> = None;
    for _ in 0..ROUNDS {
        let mut placement = Placement::new(blocks.len());
        order.iter().for_each(|group| placement.place(blocks, &groups[*group]));
        let (arena, highest) = placement.top(blocks);
        if best.as_ref().is_none_or(|(least, _)| arena < *least) {
            best = Some((arena, placement));
        }
        // Within a two-thousandth of what must be live at once, another round is not worth it.
        let close = arena <= room.0 && arena <= live_peak + live_peak / 2000;
        let Some(highest) = highest.filter(|_| !close) else { break };
        let at = order.iter().position(|g| groups[*g].contains(&highest)).unwrap_or(0);
        let group = order.remove(at);
        order.insert(fixed.min(at), group);
    }
    let Some((_, mut placement)) = best else { return Bytes::ZERO };
    small.iter().for_each(|group| placement.place(blocks, &groups[*group]));
    let (arena, _) = placement.top(blocks);
    for (block, address) in blocks.iter_mut().zip(placement.addresses) {
        block.address = address;
    }
    Bytes(arena)
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

/// Addresses of the blocks placed so far.
struct Placement {
    addresses: Vec<u64>,
    placed: Vec<usize>,
    /// Addresses at which a group cannot begin, as half-open ranges; kept for its room.
    forbidden: Vec<(u64, u64)>,
}

impl Placement {
    fn new(blocks: usize) -> Self {
        Self { addresses: vec![0; blocks], placed: Vec::new(), forbidden: Vec::new() }
    }

    /// Puts a group at the lowest address that is free while its blocks live.
    fn place(&mut self, blocks: &[Block], group: &[usize]) {
        self.forbidden.clear();
        for block in group.iter().map(|b| &blocks[*b]).filter(|block| block.bytes > 0) {
            for other in &self.placed {
                let (other, address) = (&blocks[*other], self.addresses[*other]);
                if other.from < block.until && block.from < other.until {
                    let begin = (address + 1).saturating_sub(block.bytes);
                    self.forbidden.push((begin, address + other.bytes));
                }
            }
        }
        self.forbidden.sort_unstable();
        let mut address = 0u64;
        for (begin, end) in &self.forbidden {
            if *begin > address {
                break;
            }
            address = address.max(end.next_multiple_of(ALIGNMENT));
        }
        for block in group {
            self.addresses[*block] = address;
            if blocks[*block].bytes > 0 {
                self.placed.push(*block);
            }
        }
    }

    /// The end of the highest block, and which it is.
    fn top(&self, blocks: &[Block]) -> (u64, Option<usize>) {
        let end = |block: &usize| self.addresses[*block] + blocks[*block].bytes;
        let highest = self.placed.iter().copied().max_by_key(|block| (end(block), *block));
        (highest.as_ref().map_or(0, end), highest)
    }
}
