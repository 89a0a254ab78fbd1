//! Decompressing a row (section 4.3).

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

/// Decompresses a row block by block with a function that decompresses one, and returns how many bytes
/// the row took. The function returns how many bits the block took.
#[inline(always)]
fn decompress_with<const N: usize>(
    plan: &Plan<N>,
    compressed: &[u8],
    out: &mut [u8],
    decompress_block: impl Fn(&Block<'_>, &mut Window, &mut [u8]) -> u64,
) -> Result<usize, IbpError> {
    const CUT_OFF: IbpError = IbpError::Corrupt("a row ends before its last bit");
    let (header, payload) = compressed.split_at_checked(plan.header_bytes()).ok_or(CUT_OFF)?;
    let mut position = 0;
    let mut window = Window { lanes: [0; 2 * BLOCK] };
    for (block, out) in out.chunks_mut(BLOCK * LANE).enumerate() {
        let participation = participation_of_block(plan, header, block)?;
        let block = Block { first: block * BLOCK, participation, payload, position };
        position += decompress_block(&block, &mut window, out);
    }
    let bytes = plan.bytes_of(position);
    if bytes <= compressed.len() { Ok(bytes) } else { Err(CUT_OFF) }
}

/// Stores the lanes of a block, as they are in memory; of the last one as much as there is room for.
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
) -> Result<[u8; BLOCK], IbpError> {
    let begin = block * BLOCK * N / 8;
    let bytes = (plan.chunks.div_ceil(8) - begin).min(BLOCK * N / 8);
    let mut bits = [u8::MAX; BLOCK];
    bits[..bytes].copy_from_slice(&header[begin..begin + bytes]);
    if begin + bytes == plan.chunks.div_ceil(8) {
        let unused = if plan.chunks.is_multiple_of(8) { 0 } else { u8::MAX << (plan.chunks % 8) };
        let rest = &header[begin + bytes..];
        if bits[bytes - 1] & unused != 0 || rest.iter().any(|&byte| byte != 0) {
            return Err(IbpError::Corrupt("a chunk beyond the row participates"));
        }
        bits[bytes - 1] |= unused;
    }
    Ok(bits)
}

/// The part of a payload that a block reads, as lanes.
struct Window {
    /// After a lane of no meaning. A power of two, so that no index needs a check.
    lanes: [u64; 2 * BLOCK],
}

impl Window {
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
