//! Finding the invariant bits of a table.

use rayon::prelude::*;

use super::metadata::BitCounts;
use super::{ChunkSize, IbpError, Metadata, RowCoder, Rows};

/// Shares of the rows, in percent, of which [`analyse`] tries to have more agree on a bit for it to
/// be invariant: those of the authors' code.
const THRESHOLDS: [u8; 6] = [70, 75, 80, 85, 90, 95];

/// What was learned from a table, or from a sample of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Mask and Bitval.
    pub metadata: Metadata,
    /// The share of the rows, in percent, of which more agree on each bit that they hold.
    pub threshold_percent: u8,
}

/// Finds Mask and Bitval (section 4.1) with the threshold that saves most, of 70 % to 95 % in steps
/// of 5 %; the lowest of those that save the same. A row saves what chunks leave out less their
/// participation bits, where that is above zero; words that are not full are not counted.
///
/// # Errors
/// [`IbpError::NoRows`]; [`IbpError::RowBytes`] unless a row is a whole number of chunks.
pub fn analyse(rows: Rows<'_>, chunk: ChunkSize) -> Result<Analysis, IbpError> {
    let chunks = chunk.per_row(rows.row_bytes())? as u64;
    if rows.is_empty() {
        return Err(IbpError::NoRows);
    }
    let counts = BitCounts::of(rows);
    let mut best: Option<(u64, Analysis)> = None;
    let mut last = None;
    for threshold_percent in THRESHOLDS {
        let metadata = counts.metadata(threshold_percent);
        // What most agree on, nearly all agree on: the masks are often the same.
        if last.as_ref() == Some(&metadata) {
            continue;
        }
        last = Some(metadata.clone());
        let coder = RowCoder::new(metadata, chunk)?;
        let saved_bits: u64 = (rows.bytes().par_chunks_exact(rows.row_bytes()))
            .map(|row| coder.invariant_bits(row).saturating_sub(chunks))
            .sum();
        if best.as_ref().is_none_or(|(most, _)| saved_bits > *most) {
            let metadata = coder.into_metadata();
            best = Some((saved_bits, Analysis { metadata, threshold_percent }));
        }
    }
    best.map(|(_, analysis)| analysis).ok_or(IbpError::NoRows)
}
