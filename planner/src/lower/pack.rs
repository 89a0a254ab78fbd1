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

/// Gives every block an address and returns the end of the highest, which is no more than `room`
/// where the search finds a way.
pub(crate) fn pack(blocks: &mut [Block], room: Bytes) -> Bytes {
    let groups = groups(blocks);
    let mut order: Vec<usize> = (0..groups.len()).collect();
    let size = |group: usize| groups[group].iter().map(|b| blocks[*b].bytes).max().unwrap_or(0);
    let lifetime = |group: usize| {
        let first = groups[group].iter().map(|b| blocks[*b].from).min();
        let last = groups[group].iter().map(|b| blocks[*b].until).max();
        last.unwrap_or(0) - first.unwrap_or(0)
    };
    // What is always there goes to the bottom, where it disturbs nobody.
    let always = groups.iter().map(|g| lifetime_is_all(blocks, g)).collect::<Vec<_>>();
    order.sort_by_key(|g| (!always[*g], std::cmp::Reverse((size(*g), lifetime(*g))), *g));
    let enough = live_peak(blocks).max(1);
    let mut best: Option<(u64, Vec<u64>)> = None;
    for _ in 0..ROUNDS {
        let placed = place(blocks, &groups, &order);
        let arena = placed.iter().zip(blocks.iter()).map(|(a, b)| a + b.bytes).max().unwrap_or(0);
        let highest = (0..blocks.len()).max_by_key(|b| (placed[*b] + blocks[*b].bytes, *b));
        if best.as_ref().is_none_or(|(least, _)| arena < *least) {
            best = Some((arena, placed));
        }
        // Within a two-thousandth of what must be live at once, another round is not worth it.
        let close = arena <= room.0 && arena <= enough + enough / 2000;
        let Some(highest) = highest.filter(|_| !close) else { break };
        let at = order.iter().position(|g| groups[*g].contains(&highest)).unwrap_or(0);
        let group = order.remove(at);
        let front = order.iter().take_while(|g| always[**g]).count();
        order.insert(front.min(at), group);
    }
    let Some((arena, addresses)) = best else { return Bytes::ZERO };
    for (block, address) in blocks.iter_mut().zip(addresses) {
        block.address = address;
    }
    Bytes(arena)
}

fn lifetime_is_all(blocks: &[Block], group: &[usize]) -> bool {
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

/// Blocks that live at one moment with some other block, found by their interval.
fn live_together(a: &Block, b: &Block) -> bool {
    a.from < b.until && b.from < a.until
}

fn place(blocks: &[Block], groups: &[Vec<usize>], order: &[usize]) -> Vec<u64> {
    let mut addresses = vec![0; blocks.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(blocks.len());
    // Addresses at which a group cannot begin, as half-open ranges.
    let mut forbidden: Vec<(u64, u64)> = Vec::new();
    for group in order {
        let members = &groups[*group];
        forbidden.clear();
        for member in members {
            let block = &blocks[*member];
            if block.bytes == 0 {
                continue;
            }
            let conflicts = placed.iter().filter(|p| live_together(&blocks[**p], block));
            forbidden.extend(conflicts.map(|p| {
                let (begin, end) = (addresses[*p], addresses[*p] + blocks[*p].bytes);
                ((begin + 1).saturating_sub(block.bytes), end)
            }));
        }
        forbidden.sort_unstable();
        let mut address = 0u64;
        for (begin, end) in &forbidden {
            if *begin > address {
                break;
            }
            address = address.max(end.next_multiple_of(ALIGNMENT));
        }
        for member in members {
            addresses[*member] = address;
            if blocks[*member].bytes > 0 {
                placed.push(*member);
            }
        }
    }
    addresses
}
