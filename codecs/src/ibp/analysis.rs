//! Finding the invariant bits of a table.

use rayon::prelude::*;

use super::metadata::BitCounts;
use super::{ChunkSize, IbpError, Metadata, RowCoder, Rows};

/// A share of the rows, in percent, that must agree on a bit for it to be invariant: more than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Threshold(u8);

impl Threshold {
    /// A threshold in percent.
    ///
    /// # Errors
    /// [`IbpError::Threshold`] below 50, where a bit could be invariant with both values, or above
    /// 100.
    pub fn from_percent(percent: u8) -> Result<Self, IbpError> {
        match (50..=100).contains(&percent) {
            true => Ok(Self(percent)),
            false => Err(IbpError::Threshold(percent)),
        }
    }

    /// In percent.
    pub fn percent(self) -> u8 {
        self.0
    }
}

/// The thresholds that [`analyse`] tries: those of the authors' code.
pub const THRESHOLDS: [Threshold; 6] =
    [Threshold(70), Threshold(75), Threshold(80), Threshold(85), Threshold(90), Threshold(95)];

/// What was learned from a table, or from a sample of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Mask and Bitval.
    pub metadata: Metadata,
    /// The threshold that they were made with.
    pub threshold: Threshold,
    /// Bits that they save on the rows that were looked at: of each row what chunks leave out less
    /// their participation bits, where that is above zero. Words that are not full are not counted.
    pub saved_bits: u64,
    /// The rows that were looked at.
    pub rows: u64,
}

/// Finds Mask and Bitval (section 4.1) with the threshold, of [`THRESHOLDS`], that saves most; the
/// lowest of those that save the same.
///
/// # Errors
/// [`IbpError::NoRows`]; [`IbpError::RowBytes`] unless a row is a whole number of chunks.
pub fn analyse(rows: Rows<'_>, chunk: ChunkSize) -> Result<Analysis, IbpError> {
    best(rows, chunk, &THRESHOLDS)
}

/// The same with one threshold.
///
/// # Errors
/// As [`analyse`].
pub fn analyse_at(
    rows: Rows<'_>,
    chunk: ChunkSize,
    threshold: Threshold,
) -> Result<Analysis, IbpError> {
    best(rows, chunk, &[threshold])
}

fn best(rows: Rows<'_>, chunk: ChunkSize, thresholds: &[Threshold]) -> Result<Analysis, IbpError> {
    let chunks = chunk.per_row(rows.row_bytes())? as u64;
    if rows.is_empty() {
        return Err(IbpError::NoRows);
    }
    let counts = BitCounts::of(rows);
    let mut best: Option<Analysis> = None;
    let mut last = None;
    for &threshold in thresholds {
        let metadata = counts.metadata(threshold.percent());
        // What most agree on, nearly all agree on: the masks are often the same.
        if last.as_ref() == Some(&metadata) {
            continue;
        }
        last = Some(metadata.clone());
        let coder = RowCoder::new(metadata, chunk)?;
        let saved_bits = (rows.bytes().par_chunks_exact(rows.row_bytes()))
            .map(|row| coder.invariant_bits(row).saturating_sub(chunks))
            .sum();
        if best.as_ref().is_none_or(|best| saved_bits > best.saved_bits) {
            let metadata = coder.into_metadata();
            best = Some(Analysis { metadata, threshold, saved_bits, rows: counts.rows() });
        }
    }
    best.ok_or(IbpError::NoRows)
}
