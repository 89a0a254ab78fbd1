//! Chunks, eight bytes at a time.
//!
//! Rows and payloads are worked on in *lanes*: eight bytes as one integer in which the first chunk
//! is the highest, so that the bits of a lane, from the highest down, are in the order of the
//! payload. A lane holds `N` chunks of `8 / N` bytes.

use super::IbpError;

/// Bytes of a chunk: the word that is compressed or not as a whole.
///
/// A chunk costs one participation bit, and one bit in it that differs keeps all of it
/// uncompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the variants' names say what they are")]
pub enum ChunkSize {
    One = 1,
    Two = 2,
    /// Four bytes, as in the paper's evaluation (section 6.2).
    Four = 4,
    Eight = 8,
}

impl ChunkSize {
    /// All of them, small to large.
    pub const ALL: [Self; 4] = [Self::One, Self::Two, Self::Four, Self::Eight];

    /// The chunk of that many bytes.
    ///
    /// # Errors
    /// [`IbpError::ChunkSize`] if there is none.
    pub fn from_bytes(bytes: usize) -> Result<Self, IbpError> {
        let found = Self::ALL.into_iter().find(|size| size.bytes() == bytes);
        found.ok_or(IbpError::ChunkSize(bytes))
    }

    /// 1, 2, 4 or 8.
    pub const fn bytes(self) -> usize {
        self as usize
    }

    /// Chunks of a row.
    ///
    /// # Errors
    /// [`IbpError::RowBytes`] unless the row is a whole number of them, and at least one.
    pub fn per_row(self, row_bytes: usize) -> Result<usize, IbpError> {
        let chunk = self.bytes();
        match row_bytes != 0 && row_bytes.is_multiple_of(chunk) {
            true => Ok(row_bytes / chunk),
            false => Err(IbpError::RowBytes { row_bytes, chunk }),
        }
    }
}

pub(super) const LANE: usize = 8;

/// Bits of one of `N` chunks in a lane.
pub(super) const fn chunk_bits<const N: usize>() -> u32 {
    64 / N as u32
}

/// Swaps between a lane and the eight little-endian bytes that it is in memory.
#[inline(always)]
pub(super) const fn lane_order<const N: usize>(x: u64) -> u64 {
    const LOW_16: u64 = 0x0000_ffff_0000_ffff;
    match N {
        1 => x,
        2 => x.rotate_left(32),
        4 => {
            let x = x.rotate_left(32);
            (x & LOW_16) << 16 | (x >> 16) & LOW_16
        }
        _ => x.swap_bytes(),
    }
}

#[inline(always)]
pub(super) fn lane_of<const N: usize>(bytes: &[u8; LANE]) -> u64 {
    lane_order::<N>(u64::from_le_bytes(*bytes))
}

/// The lane that begins a slice; bytes that are missing are `fill`.
#[inline(always)]
pub(super) fn load_lane<const N: usize>(bytes: &[u8], fill: u8) -> u64 {
    bytes.first_chunk().map_or_else(|| load_part::<N>(bytes, fill), lane_of::<N>)
}

#[cold]
fn load_part<const N: usize>(bytes: &[u8], fill: u8) -> u64 {
    let mut whole = [fill; LANE];
    whole[..bytes.len()].copy_from_slice(bytes);
    lane_of::<N>(&whole)
}

/// For each combination of participation bits of `N` chunks (first chunk lowest) the lane in which
/// the participating chunks are all ones.
const fn spread<const N: usize>() -> [u64; 256] {
    let mut table = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut chunk = 0;
        while chunk < N {
            if bits >> chunk & 1 == 1 {
                let ones = u64::MAX >> (64 - chunk_bits::<N>());
                table[bits] |= ones << ((N - 1 - chunk) as u32 * chunk_bits::<N>());
            }
            chunk += 1;
        }
        bits += 1;
    }
    table
}

/// The participating chunks of a lane as ones.
#[inline(always)]
pub(super) fn spread_of<const N: usize>(participates: u8) -> u64 {
    (const { &spread::<N>() })[usize::from(participates)]
}

/// Bits of a chunk in the payload.
#[inline(always)]
pub(super) fn length<const N: usize>(participates: bool, kept: u8) -> u32 {
    // Whether a chunk participates is hard to foresee: no branch.
    let whole = chunk_bits::<N>();
    whole - u32::from(participates) * (whole - u32::from(kept))
}
