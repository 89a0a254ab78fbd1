//! Mask and Bitval.

use rayon::prelude::*;

use super::{IbpError, Rows};

/// Which bits of a row are invariant and which values they have (section 4.1): all that has to be
/// known besides a compressed row to get the row back, and the same for every row of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Metadata {
    mask: Vec<u8>,
    bitval: Vec<u8>,
}

impl Metadata {
    /// Mask and Bitval as they are given, bit for bit as in a row.
    ///
    /// # Errors
    /// [`IbpError::Corrupt`] where they differ in length or a bit has a value that the mask does not
    /// hold: "We keep these bits as 0" (section 4.1).
    pub fn new(mask: Vec<u8>, bitval: Vec<u8>) -> Result<Self, IbpError> {
        if mask.len() != bitval.len() || mask.is_empty() {
            return Err(IbpError::Corrupt("mask and bitval are not both as long as a row"));
        }
        if mask.iter().zip(&bitval).any(|(mask, value)| value & !mask != 0) {
            return Err(IbpError::Corrupt("a bit that is not in the mask has a value"));
        }
        Ok(Self { mask, bitval })
    }

    /// The bits that are invariant: a 1 for each, laid out as in a row.
    pub fn mask(&self) -> &[u8] {
        &self.mask
    }

    /// The values of the invariant bits, laid out as in a row; 0 for the others.
    pub fn bitval(&self) -> &[u8] {
        &self.bitval
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.mask.len()
    }

    /// Bytes of both together.
    pub fn bytes(&self) -> usize {
        self.mask.len() + self.bitval.len()
    }
}

/// How many rows have a 1 at each bit of a row (section 4.1: "A counter is allocated for each
/// bit").
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BitCounts {
    rows: u64,
    /// Eight per byte of a row, of the lowest bit first.
    ones: Vec<u32>,
}

/// Rows that are counted in bytes, without a carry, and many at a time.
const UNCARRIED: usize = u8::MAX as usize;

impl BitCounts {
    /// Counts. More than 2^32 - 1 rows are more than anyone need look at; sample them.
    pub(super) fn of(rows: Rows<'_>) -> Self {
        let row_bytes = rows.row_bytes();
        // Each thread's counts are small against the rows that it counts.
        let parts = rows.bytes().par_chunks(4 * UNCARRIED * row_bytes);
        let counts = parts.map(|rows| Self::of_part(rows, row_bytes));
        counts.reduce_with(Self::plus).unwrap_or_else(|| Self::none(row_bytes))
    }

    fn none(row_bytes: usize) -> Self {
        Self { rows: 0, ones: vec![0; row_bytes * 8] }
    }

    fn of_part(rows: &[u8], row_bytes: usize) -> Self {
        let mut counts = Self::none(row_bytes);
        let mut partial = vec![0u8; row_bytes * 8];
        for rows in rows.chunks(UNCARRIED * row_bytes) {
            for row in rows.chunks_exact(row_bytes) {
                for (bit, partial) in partial.chunks_exact_mut(row_bytes).enumerate() {
                    for (count, byte) in partial.iter_mut().zip(row) {
                        *count += byte >> bit & 1;
                    }
                }
                counts.rows += 1;
            }
            counts.take(&mut partial);
        }
        counts
    }

    fn plus(mut self, other: Self) -> Self {
        self.rows += other.rows;
        for (ones, more) in self.ones.iter_mut().zip(other.ones) {
            *ones = ones.saturating_add(more);
        }
        self
    }

    /// Adds what was counted in bytes, a plane for each bit of all bytes, and begins them anew.
    fn take(&mut self, partial: &mut [u8]) {
        let row_bytes = self.ones.len() / 8;
        for (bit, partial) in partial.chunks_exact_mut(row_bytes).enumerate() {
            for (byte, count) in partial.iter_mut().enumerate() {
                let ones = &mut self.ones[byte * 8 + bit];
                *ones = ones.saturating_add(u32::from(std::mem::take(count)));
            }
        }
    }

    /// Mask and Bitval for a threshold in percent: a bit is invariant with value 1 where more than
    /// that share of the rows have a 1, with value 0 where less than the rest have one.
    pub(super) fn metadata(&self, percent: u8) -> Metadata {
        let (least, most) = (u64::from(percent) * self.rows, u64::from(100 - percent) * self.rows);
        let bytes = self.ones.chunks_exact(8).map(|ones| {
            ones.iter().enumerate().fold((0u8, 0u8), |(mask, value), (bit, &ones)| {
                let hundredfold = u64::from(ones) * 100;
                let (is_one, is_zero) = (hundredfold > least, hundredfold < most);
                (mask | u8::from(is_one || is_zero) << bit, value | u8::from(is_one) << bit)
            })
        });
        let (mask, bitval) = bytes.unzip();
        Metadata { mask, bitval }
    }
}

/// The bits that most of the rows agree on, as if they were a row: what is nearest to all of them.
pub(super) fn majority(rows: Rows<'_>) -> Vec<u8> {
    let counts = BitCounts::of(rows);
    let most = |ones: &[u32]| {
        let set = ones.iter().enumerate().filter(|(_, ones)| u64::from(**ones) * 2 > counts.rows);
        set.fold(0u8, |byte, (bit, _)| byte | 1 << bit)
    };
    counts.ones.chunks_exact(8).map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 4.1: invariant with 1 above the threshold, with 0 below the rest, both strictly.
    #[test]
    fn a_threshold_is_strict() {
        // Of ten rows of one byte, bit k is set in the first k + 3 of them.
        let row = |row: u8| (0..8).fold(0, |byte, k| byte | u8::from(row < k + 3) << k);
        let rows: Vec<u8> = (0..10).map(row).collect();
        let counts = BitCounts::of(Rows::new(&rows, 1).expect("rows of one byte"));
        let at = |percent| {
            let metadata = counts.metadata(percent);
            (metadata.mask[0], metadata.bitval[0])
        };
        assert_eq!(at(70), (0b1110_0000, 0b1110_0000));
        assert_eq!(at(60), (0b1111_0001, 0b1111_0000));
        // Bit 7 is set in all rows; no more than all can be.
        assert_eq!(at(99).0, 0b1000_0000);
        assert_eq!(at(100).0, 0);
    }
}
