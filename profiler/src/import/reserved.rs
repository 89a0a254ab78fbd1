//! The history of an allocator through the model of it.

use std::collections::{BTreeMap, HashMap};

use schema::Bytes;
use simulator::{CachingAllocator, Held};

/// An allocation (a positive size) or a free, by what pairs the two: an address, or else the size.
pub(super) type Change = (u64, i64);

/// Sizes beyond this are no device's, and a recording that has them is not replayed.
const MOST: u64 = 1 << 50;

/// What an allocator reserves that begins with nothing but what was there before a history; none where the
/// history has sizes that no device has.
pub(super) fn from_empty(
    before: impl IntoIterator<Item = (u64, u64)>,
    changes: &[Change],
) -> Option<u64> {
    let mut replay = Replay { allocator: CachingAllocator::new(None), live: HashMap::new() };
    for (key, bytes) in before {
        replay.apply((key, i64::try_from(bytes).ok()?))?;
    }
    for change in changes {
        replay.apply(*change)?;
    }
    Some(replay.allocator.peak_reserved().0)
}

/// What a history frees and does not allocate: it was there before, under these keys. What goes before anything is
/// allocated takes no memory from what comes later, and is left out of the first list.
pub(super) fn from_before(changes: &[Change]) -> (Vec<Change>, u64) {
    let mut live: HashMap<u64, u64> = HashMap::new();
    let (mut held, mut sum, mut begun) = (Vec::new(), 0u64, false);
    for &(key, bytes) in changes {
        let count = live.entry(key).or_default();
        match bytes {
            1.. => (*count, begun) = (*count + 1, true),
            _ if *count > 0 => *count -= 1,
            _ => {
                sum = sum.saturating_add(bytes.unsigned_abs());
                held.extend(begun.then_some((key, -bytes)));
            }
        }
    }
    (held, sum)
}

/// A segment as it was when a history began: where, how large, and whether for small blocks.
pub(super) struct Segment {
    pub bytes: u64,
    pub small: bool,
}

/// What an allocator reserves that begins with these segments (by address), in which what lives (sizes by
/// address) has its place; and how many of the history's allocations it places where they were.
pub(super) fn resumed(
    segments: &BTreeMap<u64, Segment>,
    live: &BTreeMap<u64, u64>,
    changes: &[Change],
) -> Option<(u64, u64)> {
    let mut replay = Replay { allocator: CachingAllocator::new(None), live: HashMap::new() };
    let total = segments.values().try_fold(0u64, |sum, one| sum.checked_add(one.bytes))?;
    if total > MOST || segments.keys().any(|address| *address > MOST << 10) {
        return None;
    }
    for (&start, segment) in segments {
        let end = start + segment.bytes;
        let inside: Vec<(u64, u64)> = live.range(start..end).map(|(a, b)| (*a, *b)).collect();
        let (mut blocks, mut at) = (Vec::new(), start);
        for (index, (address, bytes)) in inside.iter().enumerate() {
            let next = inside.get(index + 1).map_or(end, |next| next.0);
            let room = next.checked_sub(*address).filter(|_| *address >= at)?;
            // A remainder that is not worth a block belongs to the one before it.
            let whole = !segment.small && room.checked_sub(*bytes)? <= 1 << 20;
            let bytes = if whole { room } else { *bytes };
            blocks.extend((*address > at).then_some((address - at, false)));
            blocks.push((bytes, true));
            at = address.checked_add(bytes).filter(|end| *end <= next)?;
        }
        blocks.extend((end > at).then_some((end - at, false)));
        for held in replay.allocator.resume(start, segment.small, blocks) {
            replay.live.entry(replay.allocator.address(held)).or_default().push(held);
        }
    }
    let mut alike = 0;
    for change in changes {
        let held = replay.apply(*change)?;
        alike += u64::from(held.is_some_and(|held| replay.allocator.address(held) == change.0));
    }
    Some((replay.allocator.peak_reserved().0, alike))
}

struct Replay {
    allocator: CachingAllocator,
    live: HashMap<u64, Vec<Held>>,
}

impl Replay {
    /// What was allocated; frees of what is not there change nothing. None for an absurd size.
    fn apply(&mut self, (key, bytes): Change) -> Option<Option<Held>> {
        if bytes.unsigned_abs() > MOST {
            return None;
        }
        if bytes > 0 {
            let held = self.allocator.allocate(Bytes(bytes.unsigned_abs())).ok()??;
            self.live.entry(key).or_default().push(held);
            return Some(Some(held));
        }
        if let Some(held) = self.live.get_mut(&key).and_then(Vec::pop) {
            self.allocator.free(held);
        }
        Some(None)
    }
}
