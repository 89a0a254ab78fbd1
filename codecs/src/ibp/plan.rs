//! What of compressing and decompressing a row does not depend on the row.
//!
//! Taking the unmasked bits of a chunk together, and spreading them again, is done for all chunks
//! of a row side by side in at most six steps, of which step `i` moves some of the bits by `2^i`:
//! the *compress* and *expand* of Warren, *Hacker's Delight*, 2nd ed., sections 7-4 and 7-5. Which
//! bits move depends on the mask alone. Masks of numbers have few and regular runs, and then most
//! steps move nothing anywhere and are left out.

use super::lanes::{LANE, chunk_bits, load_lane};
use super::{IbpError, Metadata};
use crate::vector::VECTOR;

/// Lanes that go through each step together: enough to keep vector units busy, few enough to stay
/// in the nearest cache.
pub(super) const BLOCK: usize = 64;

/// Mask, Bitval and the moves that they cause, by lane, for `N` chunks a lane.
#[derive(Debug, Clone)]
pub(super) struct Plan<const N: usize> {
    pub(super) row_bytes: usize,
    pub(super) chunks: usize,
    /// A lane for each that a row fills or begins. Beyond the row all bits are invariant.
    pub(super) mask: Vec<u64>,
    /// The values, by lane; 0 beyond the row.
    pub(super) bitval: Vec<u64>,
    /// Bits that stay of each chunk when it is compressed.
    pub(super) kept: Vec<[u8; N]>,
    /// The steps that take the bits of each chunk together, and those that move nothing left out;
    /// small distances first.
    pub(super) chunk_steps: Vec<Step>,
    /// The same for the bits of a whole lane. Most rows are compressed in most of their chunks, and
    /// the bits of a lane that is can be read at once.
    pub(super) lane_steps: Vec<Step>,
    /// Bits that stay of all lanes before each, if every chunk is compressed; last those of all.
    pub(super) starts: Vec<u64>,
    /// The row in vectors of as many bytes, the last one filled up with invariant bits.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for AVX-512"))]
    pub(super) vectors: Vec<Vector>,
}

/// Mask, Bitval and moves of one vector, byte for byte as in memory.
#[derive(Debug, Clone)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for AVX-512"))]
pub(super) struct Vector {
    pub(super) mask: [u8; VECTOR],
    pub(super) bitval: [u8; VECTOR],
    /// The bits of each byte that move by 1, by 2 and by 4, where they are when the bits are apart.
    pub(super) apart: [[u8; VECTOR]; 3],
}

impl Vector {
    fn new(mask: &[u8], bitval: &[u8]) -> Self {
        let filled_up = |bytes: &[u8], fill| {
            let mut vector = [fill; VECTOR];
            vector[..bytes.len()].copy_from_slice(bytes);
            vector
        };
        let mask = filled_up(mask, u8::MAX);
        let moves = mask.map(|mask| moves(u64::from(!mask), u8::BITS));
        let apart = std::array::from_fn(|i| moves.map(|moves| moves[i] as u8));
        Self { mask, bitval: filled_up(bitval, 0), apart }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) shift: u32,
    /// The bits that move, by lane, where they are when the bits are apart.
    pub(super) apart: Vec<u64>,
}

impl<const N: usize> Plan<N> {
    pub(super) fn new(metadata: &Metadata) -> Result<Self, IbpError> {
        let row_bytes = metadata.row_bytes();
        let chunk = LANE / N;
        if !row_bytes.is_multiple_of(chunk) {
            return Err(IbpError::RowBytes { row_bytes, chunk });
        }
        let lanes =
            |bytes: &[u8], fill| bytes.chunks(LANE).map(|b| load_lane::<N>(b, fill)).collect();
        let mask: Vec<u64> = lanes(metadata.mask(), u8::MAX);
        let kept = mask.iter().map(|&mask| {
            std::array::from_fn(|chunk| chunk_of::<N>(!mask, chunk).count_ones() as u8)
        });
        let ends = mask.iter().scan(0, |bits, mask| {
            *bits += u64::from(mask.count_zeros());
            Some(*bits)
        });
        let of_vectors = metadata.mask().chunks(VECTOR).zip(metadata.bitval().chunks(VECTOR));
        Ok(Self {
            row_bytes,
            chunks: row_bytes / chunk,
            bitval: lanes(metadata.bitval(), 0),
            kept: kept.collect(),
            chunk_steps: steps::<N>(&mask),
            lane_steps: steps::<1>(&mask),
            starts: std::iter::once(0).chain(ends).collect(),
            vectors: of_vectors.map(|(mask, bitval)| Vector::new(mask, bitval)).collect(),
            mask,
        })
    }

    pub(super) fn header_bytes(&self) -> usize {
        self.chunks.div_ceil(8).next_multiple_of(LANE / N)
    }

    /// Bytes of a compressed row of that many payload bits.
    pub(super) fn bytes_of(&self, bits: u64) -> usize {
        let words = bits.div_ceil(u64::from(chunk_bits::<N>()));
        self.header_bytes() + words as usize * (LANE / N)
    }
}

fn chunk_of<const N: usize>(lane: u64, chunk: usize) -> u64 {
    let bits = chunk_bits::<N>();
    lane >> ((N - 1 - chunk) as u32 * bits) & (u64::MAX >> (64 - bits))
}

fn steps<const N: usize>(masks: &[u64]) -> Vec<Step> {
    let bits = chunk_bits::<N>();
    let moves: Vec<[u64; 6]> = masks
        .iter()
        .map(|&mask| {
            let mut lane = [0; 6];
            for chunk in 0..N {
                let of_chunk = moves(chunk_of::<N>(!mask, chunk), bits);
                let place = (N - 1 - chunk) as u32 * bits;
                lane.iter_mut().zip(of_chunk).for_each(|(lane, moves)| *lane |= moves << place);
            }
            lane
        })
        .collect();
    let step = |i: usize| Step { shift: 1 << i, apart: moves.iter().map(|m| m[i]).collect() };
    let used = (0..6).map(step).filter(|step| step.apart.iter().any(|&moves| moves != 0));
    used.collect()
}

/// For each distance `2^i` the bits that move by it when the bits `kept` of a chunk are taken
/// together at its low end (figure 7-9 of the book).
fn moves(kept: u64, bits: u32) -> [u64; 6] {
    let ones = u64::MAX >> (64 - bits);
    let mut kept = kept;
    // The bits that have an odd number of bits left out below them move by one, and so on.
    let mut left_out = !kept << 1 & ones;
    std::array::from_fn(|i| {
        let mut odd = left_out;
        for shift in [1, 2, 4, 8, 16, 32] {
            odd ^= odd << shift & ones;
        }
        let moves = odd & kept;
        kept = kept ^ moves | moves >> (1 << i);
        left_out &= !odd;
        moves
    })
}
