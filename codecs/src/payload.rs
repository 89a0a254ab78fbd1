//! The payload of codecs that compress independent blocks, and the work on many threads.
//!
//! The tensor is cut into blocks of a fixed number of bytes (the last one shorter). Payload:
//!
//! - `ends`: for each block a u64, where it ends, counted from where the first block begins;
//! - zeros up to a multiple of 16;
//! - the blocks, each beginning at the next multiple of 16, with zeros between; none behind the last.
//!
//! A block that its codec cannot make smaller is *raw*: it is as long as it was uncompressed, which
//! no compressed block is. So no payload exceeds the tensor by more than table and padding, and any
//! thread (or thread block of a GPU) finds its block by two table entries.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::{CodecId, Error};

/// Blocks begin at multiples of this many bytes.
pub(crate) const ALIGN: usize = 16;
/// How often a thread looks whether its turn has come before it sleeps: some ten microseconds, in
/// which the group before is done as a rule, and which sleeping and waking take, too.
const LOOKS: usize = 500;
/// What a thread compresses before it waits for its turn to write: large against the cost of
/// waiting, and small enough for its output to stay in the cache until then.
const GROUP_BYTES: usize = 256 << 10;

/// Compresses one block at a time.
pub(crate) trait BlockCodec: Sync {
    /// Which codec, for errors.
    fn id(&self) -> CodecId;

    /// Uncompressed bytes of a block: a positive multiple of the element's width.
    fn block_bytes(&self) -> usize;

    /// Compresses a block into the front of `out`, which has [`scratch_bytes`] of the block's
    /// length, and returns how many bytes that took. A result that is not smaller than the block
    /// is dropped, so that `usize::MAX` says "does not pay".
    fn compress_block(&self, block: &[u8], out: &mut [u8]) -> usize;

    /// Decompresses a block, or says what does not hold.
    fn decompress_block(&self, block: &[u8], out: &mut [u8]) -> Result<(), &'static str>;
}

/// Room that [`BlockCodec::compress_block`] has for a block of this many bytes. Twice its size
/// holds the worst that any codec here makes of it; the rest lets inner loops write past their end.
fn scratch_bytes(block: usize) -> usize {
    2 * block + 256
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

fn table_bytes(blocks: usize) -> usize {
    aligned(8 * blocks)
}

/// The longest payload of a tensor of `bytes` in blocks of `block_bytes`.
pub(crate) fn worst_case(bytes: usize, block_bytes: usize) -> usize {
    let blocks = bytes.div_ceil(block_bytes);
    table_bytes(blocks) + bytes + ALIGN * blocks
}

/// Compresses `input` into the front of `out`, which has [`worst_case`] bytes. Returns the length.
///
/// Threads take groups of blocks in order and compress them into a buffer of their own. Then each
/// waits until the group before has taken its place in `out`, takes the place behind, and copies
/// while the next group does the same.
pub(crate) fn compress(codec: &impl BlockCodec, input: &[u8], out: &mut [u8]) -> usize {
    let block_bytes = codec.block_bytes();
    let group_bytes = (GROUP_BYTES / block_bytes).max(1) * block_bytes;
    let (table, data) = out.split_at_mut(table_bytes(input.len().div_ceil(block_bytes)));
    let total = table.len();
    table.fill(0);
    let groups: Vec<&[u8]> = input.chunks(group_bytes).collect();
    let next = AtomicUsize::new(0);
    let queue = Queue::new(table, data);
    let work = || {
        let mut group = GROUP.take();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(input) = groups.get(index) else { break };
            let turn = Turn { queue: &queue, index };
            group.compress(codec, input);
            let Some((base, table, data)) = turn.take(group.ends.len(), group.len) else { break };
            for (entry, end) in table.chunks_exact_mut(8).zip(&group.ends) {
                entry.copy_from_slice(&((base + end) as u64).to_le_bytes());
            }
            data.copy_from_slice(&group.bytes[..group.len]);
        }
        GROUP.set(group);
    };
    match rayon::current_num_threads().min(groups.len()) {
        0 | 1 => work(),
        threads => rayon::scope(|scope| (0..threads).for_each(|_| scope.spawn(|_| work()))),
    }
    total + queue.end()
}

pub(crate) fn decompress(
    codec: &impl BlockCodec,
    payload: &[u8],
    out: &mut [u8],
) -> Result<(), Error> {
    let block_bytes = codec.block_bytes();
    let blocks = out.len().div_ceil(block_bytes);
    let corrupt = |block, reason| Error::Corrupt { codec: codec.id(), block, reason };
    let Some((table, data)) = payload.split_at_checked(table_bytes(blocks)) else {
        return Err(corrupt(0, "the table of blocks is cut off"));
    };
    let end = |block: usize| {
        let entry = table[8 * block..].first_chunk::<8>();
        entry.and_then(|entry| usize::try_from(u64::from_le_bytes(*entry)).ok())
    };
    let bounds = |block: usize| {
        let begin = if block == 0 { Some(0) } else { end(block - 1) };
        Some((begin?.checked_next_multiple_of(ALIGN)?, end(block)?))
    };
    let last = if blocks == 0 { Some(0) } else { end(blocks - 1) };
    if last != Some(data.len()) {
        return Err(corrupt(blocks.saturating_sub(1), "the last block does not end the payload"));
    }
    let one = |(index, out): (usize, &mut [u8])| {
        let block = bounds(index).and_then(|(begin, end)| data.get(begin..end));
        let result = match block {
            None => Err("it lies outside of the payload"),
            Some(block) if block.len() > out.len() => Err("it is longer than uncompressed"),
            Some(block) if block.len() == out.len() => {
                out.copy_from_slice(block);
                Ok(())
            }
            Some(block) => codec.decompress_block(block, out),
        };
        result.err().map(|reason| corrupt(index, reason))
    };
    let least = (GROUP_BYTES / block_bytes).max(1);
    let damaged = out.par_chunks_mut(block_bytes).enumerate().with_min_len(least);
    // The first one, so that the error is the same on any number of threads.
    damaged.map(one).find_map_first(|error| error).map_or(Ok(()), Err)
}

thread_local! {
    /// A thread's buffer between tensors: new pages for each would take longer than a small tensor
    /// does.
    static GROUP: Cell<Group> = Cell::default();
}

/// Compressed blocks of one thread, laid out as in the payload.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    /// Where each block ends in `bytes`.
    ends: Vec<usize>,
    /// Bytes in use.
    len: usize,
}

impl Group {
    fn compress(&mut self, codec: &impl BlockCodec, input: &[u8]) {
        let block_bytes = codec.block_bytes();
        let blocks = input.len().div_ceil(block_bytes);
        let room = blocks * aligned(block_bytes) + scratch_bytes(block_bytes);
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        self.ends.clear();
        self.len = 0;
        for block in input.chunks(block_bytes) {
            let begin = aligned(self.len);
            self.bytes[self.len..begin].fill(0);
            let out = &mut self.bytes[begin..begin + scratch_bytes(block.len())];
            let mut len = codec.compress_block(block, out);
            if len >= block.len() {
                out[..block.len()].copy_from_slice(block);
                len = block.len();
            }
            self.len = begin + len;
            self.ends.push(self.len);
        }
    }
}

/// Hands out places in the payload, group after group.
struct Queue<'a> {
    /// The group whose turn it is. Changes under the lock.
    turn: AtomicUsize,
    free: Mutex<Free<'a>>,
    moved: Condvar,
}

struct Free<'a> {
    /// Whether a group will never take its turn, because its thread panicked.
    broken: bool,
    /// Where the blocks so far end.
    end: usize,
    table: &'a mut [u8],
    data: &'a mut [u8],
}

impl<'a> Queue<'a> {
    fn new(table: &'a mut [u8], data: &'a mut [u8]) -> Self {
        let free = Mutex::new(Free { broken: false, end: 0, table, data });
        Self { turn: AtomicUsize::new(0), free, moved: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Free<'a>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) -> usize {
        self.lock().end
    }
}

/// A group's turn to take its place. Dropped in a panic, it lets the other threads go.
struct Turn<'q, 'a> {
    queue: &'q Queue<'a>,
    index: usize,
}

impl<'a> Turn<'_, 'a> {
    /// Waits for the groups before. Returns where this group begins, its part of the table and its
    /// part of the data; or nothing when another thread has panicked.
    fn take(self, blocks: usize, len: usize) -> Option<(usize, &'a mut [u8], &'a mut [u8])> {
        let is_next = || self.queue.turn.load(Ordering::Acquire) == self.index;
        for _ in 0..LOOKS {
            if is_next() {
                break;
            }
            std::hint::spin_loop();
        }
        let mut free = self.queue.lock();
        while !is_next() && !free.broken {
            free = self.queue.moved.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        if free.broken {
            return None;
        }
        let begin = aligned(free.end);
        let gap = begin - free.end;
        let (table, rest) = std::mem::take(&mut free.table).split_at_mut(8 * blocks);
        free.table = rest;
        let (padding, rest) = std::mem::take(&mut free.data).split_at_mut(gap);
        padding.fill(0);
        let (data, rest) = rest.split_at_mut(len);
        free.data = rest;
        free.end = begin + len;
        self.queue.turn.store(self.index + 1, Ordering::Release);
        drop(free);
        self.queue.moved.notify_all();
        Some((begin, table, data))
    }
}

impl Drop for Turn<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.queue.lock().broken = true;
            self.queue.moved.notify_all();
        }
    }
}
