//! Rows of one size in one piece of memory.

use super::IbpError;
use crate::synthetic::next;

/// An uncompressed table: rows of one size, back to back.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    data: &'a [u8],
    row_bytes: usize,
}

impl<'a> Rows<'a> {
    /// Sees `data` as rows of `row_bytes`.
    ///
    /// # Errors
    /// [`IbpError::Partial`] where that leaves a rest or a row has no bytes.
    pub fn new(data: &'a [u8], row_bytes: usize) -> Result<Self, IbpError> {
        if row_bytes == 0 || !data.len().is_multiple_of(row_bytes) {
            return Err(IbpError::Partial { bytes: data.len(), row_bytes });
        }
        Ok(Self { data, row_bytes })
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.data.len() / self.row_bytes
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// All bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.data
    }

    /// A row, if it is there.
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        self.data.chunks_exact(self.row_bytes).nth(row)
    }

    /// The rows in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'a, u8> {
        self.data.chunks_exact(self.row_bytes)
    }
}

/// Draws `count` of `rows` rows, or all of them if there are no more (section 6.1, "Dataset
/// Sampling"), in their order: the table is divided into that many stretches as equal as can be,
/// and one row is drawn from each, so that a table that changes from front to back is seen
/// everywhere and one with a period is not seen at one phase. The same seed draws the same rows.
pub fn sample_of(rows: u64, count: u64, seed: u64) -> impl Iterator<Item = u64> {
    let count = count.min(rows);
    let mut random = seed;
    (0..count).map(move |stretch| {
        let edge =
            |stretch: u64| (u128::from(stretch) * u128::from(rows) / u128::from(count)) as u64;
        let (begin, end) = (edge(stretch), edge(stretch + 1));
        begin + next(&mut random) % (end - begin)
    })
}
