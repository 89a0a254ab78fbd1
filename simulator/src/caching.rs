//! What PyTorch reserves of a device for what it allocates.
//!
//! Its caching allocator takes memory from the driver in segments, cuts blocks from them, and keeps both when
//! a tensor dies. What a process holds is therefore more than what its tensors need, by an amount that
//! follows from the order and the sizes of allocations alone. This is that allocator, by the rules and with the
//! constants of `c10/cuda/CUDACachingAllocator.cpp` (PyTorch 1.8 to 2.11), in its default
//! configuration and on one stream: sizes are rounded up to 512 bytes; up to 1 MiB comes from segments of
//! 2 MiB, other blocks of less than 10 MiB from segments of 20 MiB, and larger ones have segments of
//! their own in steps of 2 MiB; of free blocks the smallest that is large enough is taken, of those the one at
//! the lowest address; what is left of it is a free block if it is worth it; and free neighbours in a segment are
//! one block.

mod iterations;

use std::collections::BTreeSet;

use schema::Bytes;

pub use iterations::{Reserved, reserved_by_plan, reserved_in_core};

/// `kMinBlockSize`: sizes are multiples of it.
const GRAIN: u64 = 512;
/// `kSmallSize`: the largest of small blocks.
const SMALL: u64 = 1 << 20;
/// `kSmallBuffer`: the segments of small blocks, and (`kRoundLarge`) what large segments are multiples of.
const SMALL_SEGMENT: u64 = 2 << 20;
/// `kMinLargeAlloc`: from here on a block has a segment of its own.
const OWN_SEGMENT: u64 = 10 << 20;
/// `kLargeBuffer`: the segments of what lies between.
const LARGE_SEGMENT: u64 = 20 << 20;
/// More than any device has, so that sums of sizes are in range.
const MOST: u64 = 1 << 60;

/// A block that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held(usize);

/// The driver has no room for another segment, although everything that was only kept was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a segment of {segment} does not fit beside {reserved} that are reserved, {allocated} of them in use"
)]
pub struct OutOfMemory {
    /// The segment that was needed.
    pub segment: Bytes,
    /// What was reserved.
    pub reserved: Bytes,
    /// What blocks in use took of that.
    pub allocated: Bytes,
}

#[derive(Debug, Clone)]
struct Block {
    address: u64,
    bytes: u64,
    free: bool,
    /// Whether it lies in a segment of small blocks.
    small: bool,
    /// Neighbours in the segment.
    before: Option<usize>,
    after: Option<usize>,
}

/// The allocator of one device.
#[derive(Debug, Clone, Default)]
pub struct CachingAllocator {
    limit: u64,
    blocks: Vec<Block>,
    /// Positions in `blocks` that nothing has any more.
    unused: Vec<usize>,
    /// Free blocks by size and address: large ones and small ones.
    free: [BTreeSet<(u64, u64, usize)>; 2],
    /// Where the next segment goes.
    end: u64,
    allocated: u64,
    reserved: u64,
    peaks: (u64, u64),
}

impl CachingAllocator {
    /// Of a device that has so much for it at most; absent: as much as it wants.
    pub fn new(limit: Option<Bytes>) -> Self {
        let limit = limit.map_or(MOST, |limit| limit.0.min(MOST));
        Self { limit, end: SMALL_SEGMENT, ..Self::default() }
    }

    /// What PyTorch calls reserved: all segments.
    pub fn reserved(&self) -> Bytes {
        Bytes(self.reserved)
    }

    /// The most that was reserved.
    pub fn peak_reserved(&self) -> Bytes {
        Bytes(self.peaks.1)
    }

    /// The most that PyTorch calls allocated: blocks in use, with what they were rounded up by.
    pub fn peak_allocated(&self) -> Bytes {
        Bytes(self.peaks.0)
    }

    /// Where a block begins.
    pub fn address(&self, held: Held) -> u64 {
        self.blocks[held.0].address
    }

    /// A segment that is there already, of blocks one after another: each size, and whether it is in use.
    /// Returns those that are.
    pub fn resume(
        &mut self,
        address: u64,
        small: bool,
        blocks: impl IntoIterator<Item = (u64, bool)>,
    ) -> Vec<Held> {
        let mut held = Vec::new();
        let mut end = address;
        let mut before = None;
        for (bytes, in_use) in blocks {
            let block = Block { address: end, bytes, free: !in_use, small, before, after: None };
            let index = self.add(block);
            before.into_iter().for_each(|before: usize| self.blocks[before].after = Some(index));
            match in_use {
                true => held.push(Held(index)),
                false => self.keep(index),
            }
            self.allocated += if in_use { bytes } else { 0 };
            before = Some(index);
            end = end.saturating_add(bytes);
        }
        self.reserved += end - address;
        self.end = self.end.max(end.saturating_add(SMALL_SEGMENT));
        self.count();
        held
    }

    /// Allocates; none for no bytes.
    ///
    /// # Errors
    /// Where the limit leaves no room.
    pub fn allocate(&mut self, bytes: Bytes) -> Result<Option<Held>, OutOfMemory> {
        if bytes == Bytes::ZERO {
            return Ok(None);
        }
        let bytes = bytes.0.min(MOST).next_multiple_of(GRAIN);
        let small = bytes <= SMALL;
        let index = match self.free[usize::from(small)].range((bytes, 0, 0)..).next() {
            Some(&(_, _, index)) => index,
            None => self.segment(bytes, small)?,
        };
        self.take(index);
        let left = self.blocks[index].bytes - bytes;
        if (small && left >= GRAIN) || left > SMALL {
            let Block { address, after, .. } = self.blocks[index];
            let address = address + bytes;
            let before = Some(index);
            let rest = self.add(Block { address, bytes: left, free: true, small, before, after });
            after.into_iter().for_each(|after| self.blocks[after].before = Some(rest));
            (self.blocks[index].bytes, self.blocks[index].after) = (bytes, Some(rest));
            self.keep(rest);
        }
        self.blocks[index].free = false;
        self.allocated += self.blocks[index].bytes;
        self.count();
        Ok(Some(Held(index)))
    }

    /// Gives a block back, of which the allocator keeps the memory.
    pub fn free(&mut self, held: Held) {
        let mut index = held.0;
        self.allocated -= self.blocks[index].bytes;
        self.blocks[index].free = true;
        for neighbour in [self.blocks[index].after, self.blocks[index].before] {
            let Some(neighbour) = neighbour.filter(|other| self.blocks[*other].free) else {
                continue;
            };
            self.take(neighbour);
            let (first, second) = match self.blocks[index].after == Some(neighbour) {
                true => (index, neighbour),
                false => (neighbour, index),
            };
            let after = self.blocks[second].after;
            self.blocks[first].bytes += self.blocks[second].bytes;
            self.blocks[first].after = after;
            after.into_iter().for_each(|after| self.blocks[after].before = Some(first));
            self.unused.push(second);
            index = first;
        }
        self.keep(index);
    }

    /// A free block as large as a new segment. Where the driver has no room, what is only kept goes back to it
    /// first.
    fn segment(&mut self, bytes: u64, small: bool) -> Result<usize, OutOfMemory> {
        let size = match small {
            true => SMALL_SEGMENT,
            false if bytes < OWN_SEGMENT => LARGE_SEGMENT,
            false => bytes.next_multiple_of(SMALL_SEGMENT),
        };
        if self.reserved.saturating_add(size) > self.limit {
            self.give_back();
        }
        if self.reserved.saturating_add(size) > self.limit {
            let [segment, reserved, allocated] = [size, self.reserved, self.allocated].map(Bytes);
            return Err(OutOfMemory { segment, reserved, allocated });
        }
        let address = self.end;
        // Segments do not touch, so that no block reaches over two.
        self.end += size + SMALL_SEGMENT;
        self.reserved += size;
        let block = Block { address, bytes: size, free: true, small, before: None, after: None };
        let index = self.add(block);
        self.keep(index);
        Ok(index)
    }

    /// Gives segments back of which nothing is in use.
    fn give_back(&mut self) {
        for free in &mut self.free {
            let blocks = &self.blocks;
            let whole =
                |index: usize| blocks[index].before.is_none() && blocks[index].after.is_none();
            for &(bytes, _, index) in free.iter().filter(|block| whole(block.2)) {
                self.reserved -= bytes;
                self.unused.push(index);
            }
            free.retain(|block| !whole(block.2));
        }
    }

    fn add(&mut self, block: Block) -> usize {
        if let Some(index) = self.unused.pop() {
            self.blocks[index] = block;
            return index;
        }
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    /// Enters a free block where it is looked for.
    fn keep(&mut self, index: usize) {
        let Block { address, bytes, small, .. } = self.blocks[index];
        self.free[usize::from(small)].insert((bytes, address, index));
    }

    fn take(&mut self, index: usize) {
        let Block { address, bytes, small, .. } = self.blocks[index];
        self.free[usize::from(small)].remove(&(bytes, address, index));
    }

    fn count(&mut self) {
        self.peaks = (self.peaks.0.max(self.allocated), self.peaks.1.max(self.reserved));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn reserved_by(sizes: &[u64]) -> u64 {
        let mut allocator = CachingAllocator::new(None);
        for size in sizes {
            allocator.allocate(Bytes(*size)).expect("there is no limit");
        }
        allocator.reserved().0
    }

    #[test]
    fn segments_are_of_the_sizes_that_pytorch_takes() {
        let cases: [(&[u64], u64); 7] = [
            (&[0], 0),
            (&[1], 2 * MIB),
            (&[MIB, MIB], 2 * MIB),
            (&[MIB, MIB, 1], 4 * MIB),
            (&[MIB + 1], 20 * MIB),
            (&[10 * MIB - 1, 10 * MIB - 1], 20 * MIB),
            (&[10 * MIB + 1], 12 * MIB),
        ];
        for (sizes, reserved) in cases {
            assert_eq!(reserved_by(sizes), reserved, "{sizes:?}");
        }
    }

    #[test]
    fn a_remainder_of_a_mebibyte_stays_with_its_block() {
        let mut allocator = CachingAllocator::new(None);
        let held = allocator.allocate(Bytes(11 * MIB)).expect("no limit").expect("a block");
        assert_eq!(allocator.peak_allocated(), Bytes(12 * MIB));
        allocator.free(held);
        allocator.allocate(Bytes(5 * MIB)).expect("no limit");
        allocator.allocate(Bytes(7 * MIB)).expect("no limit");
        assert_eq!(allocator.reserved(), Bytes(12 * MIB));
    }

    #[test]
    fn what_is_only_kept_is_given_back_before_memory_runs_out() {
        let mut allocator = CachingAllocator::new(Some(Bytes(24 * MIB)));
        let mut allocate = |bytes| allocator.allocate(Bytes(bytes));
        let first = allocate(12 * MIB).expect("it fits").expect("a block");
        assert_eq!(allocate(14 * MIB).expect_err("12 are in use").segment, Bytes(14 * MIB));
        allocator.free(first);
        allocator.allocate(Bytes(14 * MIB)).expect("it fits");
        let peak = allocator.peak_reserved();
        assert_eq!((allocator.reserved(), peak), (Bytes(14 * MIB), Bytes(14 * MIB)));
    }

    proptest! {
        /// Blocks in use never overlap, and when all are free, segments are whole again.
        #[test]
        fn blocks_are_apart(sizes in prop::collection::vec((1u64..30 * MIB, any::<bool>()), 1..60)) {
            let mut allocator = CachingAllocator::new(None);
            let mut held: Vec<(Held, u64)> = Vec::new();
            for (index, (size, free)) in sizes.iter().enumerate() {
                let block = allocator.allocate(Bytes(*size)).expect("no limit").expect("a block");
                held.push((block, *size));
                if *free {
                    allocator.free(held.swap_remove(index * 7 % held.len()).0);
                }
                let mut places: Vec<_> =
                    held.iter().map(|(held, size)| (allocator.address(*held), *size)).collect();
                places.sort_unstable();
                prop_assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
                prop_assert!(allocator.reserved() >= held.iter().map(|(_, size)| Bytes(*size)).sum());
            }
            held.into_iter().for_each(|(held, _)| allocator.free(held));
            allocator.give_back();
            prop_assert_eq!((allocator.reserved(), allocator.allocated), (Bytes::ZERO, 0));
        }
    }
}
