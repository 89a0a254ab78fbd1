//! Decompressing a row (section 4.3).

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod bmi2;
mod portable;

use super::IbpError;
use super::lanes::{LANE, lane_of, load_lane};
use super::plan::{BLOCK, Plan};

/// Decompresses the row that `compressed` begins with and returns how many bytes it took.
pub(super) fn decompress<const N: usize>(
    plan: &Plan<N>,
    compressed: &[u8],
    out: &mut [u8],
) -> Result<usize, IbpError> {
    #[cfg(target_arch = "x86_64")]
    if avx512::detected() {
        #[allow(unsafe_code, reason = "see below")]
        // SAFETY: the processor has the instructions.
        return unsafe { avx512::decompress(plan, compressed, out) };
    }
    #[cfg(target_arch = "x86_64")]
    if bmi2::detected() {
        #[allow(unsafe_code, reason = "see below")]
        // SAFETY: the processor has the instructions.
        return unsafe { bmi2::decompress(plan, compressed, out) };
    }
    portable::decompress(plan, compressed, out)
}

/// A block whose lanes are to be decompressed.
struct Block<'a> {
    /// Its first lane in the row.
    first: usize,
    /// Its participation bits. Chunks beyond the row, of which nothing is kept, participate.
    participation: [u8; BLOCK],
    payload: &'a [u8],
    /// The first of its bits in the payload.
    position: u64,
}

impl Block<'_> {
    /// Participation bits of a lane, the first chunk lowest; bits above them have no meaning.
    #[inline(always)]
    fn participates<const N: usize>(&self, lane: usize) -> u8 {
        self.participation[lane * N / 8] >> (lane * N % 8)
    }

    /// Whether every chunk is compressed.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.participation == [u8::MAX; BLOCK]
    }
}

/// Decompresses a row block by block with a function that decompresses one, and returns how many
/// bytes the row took. The function returns how many bits the block took.
#[inline(always)]
fn decompress_with<const N: usize>(
    plan: &Plan<N>,
    compressed: &[u8],
    out: &mut [u8],
    mut decompress_block: impl FnMut(&Block<'_>, &mut [u8]) -> u64,
) -> Result<usize, IbpError> {
    let (header, payload) = parts(plan, compressed)?;
    let mut position = 0;
    for (block, out) in out.chunks_mut(BLOCK * LANE).enumerate() {
        let participation = participation_of_block(plan, header, block);
        let block = Block { first: block * BLOCK, participation, payload, position };
        position += decompress_block(&block, out);
    }
    end(plan, compressed, position)
}

const CUT_OFF: IbpError = IbpError::Corrupt("a row ends before its last bit");

/// Participation bits, of which none is set beyond the row, and what follows them.
fn parts<'a, const N: usize>(
    plan: &Plan<N>,
    compressed: &'a [u8],
) -> Result<(&'a [u8], &'a [u8]), IbpError> {
    let (header, payload) = compressed.split_at_checked(plan.header_bytes()).ok_or(CUT_OFF)?;
    let mut beyond = header[plan.chunks / 8..].iter();
    let is_set = |bits: Option<&u8>, unused: u8| bits.is_some_and(|bits| bits & unused != 0);
    if is_set(beyond.next(), u8::MAX << (plan.chunks % 8)) || beyond.any(|byte| *byte != 0) {
        return Err(IbpError::Corrupt("a chunk beyond the row participates"));
    }
    Ok((header, payload))
}

/// The bytes that a row took whose payload ends at a position.
fn end<const N: usize>(
    plan: &Plan<N>,
    compressed: &[u8],
    position: u64,
) -> Result<usize, IbpError> {
    let bytes = plan.bytes_of(position);
    if bytes <= compressed.len() { Ok(bytes) } else { Err(CUT_OFF) }
}

/// Stores the lanes of a block, as they are in memory; of the last one as much as there is room
/// for.
#[inline(always)]
fn store(out: &mut [u8], mut lanes: impl Iterator<Item = u64>) {
    let (whole, rest) = out.as_chunks_mut::<LANE>();
    for (out, lane) in whole.iter_mut().zip(&mut lanes) {
        *out = lane.to_le_bytes();
    }
    if let Some(lane) = lanes.next() {
        rest.copy_from_slice(&lane.to_le_bytes()[..rest.len()]);
    }
}

/// The participation bits of a block. Chunks beyond the row, of which nothing is kept, participate.
fn participation_of_block<const N: usize>(
    plan: &Plan<N>,
    header: &[u8],
    block: usize,
) -> [u8; BLOCK] {
    let mut bits = [u8::MAX; BLOCK];
    for (eight, bits) in bits.as_chunks_mut::<N>().0.iter_mut().take(BLOCK / 8).enumerate() {
        let of_eight = participation_of_eight(plan, header, block * BLOCK / 8 + eight);
        bits.copy_from_slice(&of_eight.to_le_bytes()[..N]);
    }
    bits
}

/// The same of eight lanes, the first chunk lowest; bits above them have no meaning.
#[inline(always)]
fn participation_of_eight<const N: usize>(plan: &Plan<N>, header: &[u8], eight: usize) -> u64 {
    let bits = header.get(eight * N..).and_then(|header| header.first_chunk::<N>());
    match bits {
        Some(bits) if (eight + 1) * N <= plan.chunks / 8 => {
            bits.iter().rev().fold(0, |all, bits| all << 8 | u64::from(*bits))
        }
        _ => last_participation(plan, header, eight),
    }
}

#[cold]
fn last_participation<const N: usize>(plan: &Plan<N>, header: &[u8], eight: usize) -> u64 {
    let mut bits = [0; 8];
    for (bits, header) in bits.iter_mut().zip(header.get(eight * N..).unwrap_or_default()) {
        *bits = *header;
    }
    let chunks = plan.chunks.saturating_sub(eight * N * 8);
    u64::from_le_bytes(bits) | u64::MAX.checked_shl(chunks as u32).unwrap_or(0)
}

/// The part of a payload that a block reads, as lanes.
struct Window {
    /// After a lane of no meaning. A power of two, so that no index needs a check.
    lanes: [u64; 2 * BLOCK],
}

impl Window {
    fn new() -> Self {
        Self { lanes: [0; 2 * BLOCK] }
    }

    /// Sees the payload from the lane in which a block begins as far as the block may reach; zeros
    /// beyond the payload's end. Returns where in the first lane the block begins.
    #[inline(always)]
    fn fill<const N: usize>(&mut self, plan: &Plan<N>, block: &Block<'_>) -> u64 {
        let end = (block.first + BLOCK).min(plan.mask.len());
        let bits = match block.is_whole() {
            true => plan.starts[end] - plan.starts[block.first],
            false => BLOCK as u64 * 64,
        };
        let count = (bits / 64) as usize + 3;
        let Block { payload, position, .. } = *block;
        let payload = payload.get((position / 64) as usize * LANE..).unwrap_or_default();
        let (whole, rest) = payload.as_chunks::<LANE>();
        let lanes = &mut self.lanes[1..][..count];
        let (seen, beyond) = lanes.split_at_mut(whole.len().min(count));
        seen.iter_mut().zip(whole).for_each(|(lane, bytes)| *lane = lane_of::<N>(bytes));
        beyond.fill(0);
        if let Some(lane) = beyond.first_mut() {
            *lane = load_lane::<N>(rest, 0);
        }
        position % 64
    }

    /// The 64 bits before a bit, counted from the first lane; of no meaning before that.
    #[inline(always)]
    fn before(&self, position: u64) -> u64 {
        let (index, offset) = (position / 64, position % 64);
        self.lane(index) << offset | self.lane(index + 1) >> 1 >> (63 - offset)
    }

    /// The 64 bits from a bit on, counted from the first lane.
    #[inline(always)]
    fn after(&self, position: u64) -> u64 {
        self.before(position + 64)
    }

    #[inline(always)]
    fn lane(&self, index: u64) -> u64 {
        self.lanes[index as usize % self.lanes.len()]
    }
}
