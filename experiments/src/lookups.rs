//! Lookups in a table too large for the device: how its rows are best packed, and what that gains.

mod packings;
mod report;
mod sample;

use std::path::Path;

use codecs::ibp::ChunkSize;
use planner::inference::{Access, Lookups, choose};
use schema::file::read_text;

use crate::{Error, Result};

pub use report::Report;
pub use sample::Sample;

/// Learns packings from a sample of a table, chooses one, and predicts lookups. Where no chunks are named,
/// all are tried that a row is a whole number of. `table` and `access` are
/// what the report calls the table and how it is looked up.
///
/// # Errors
/// If rows cannot be packed so, or lookups cannot be predicted.
pub fn predict(
    (table, access): (String, String),
    sample: &Sample,
    lookups: &Lookups<'_>,
    chunks: &[usize],
    most_clusters: usize,
) -> Result<Report> {
    let chunks = chunk_sizes(chunks, lookups.row_bytes)?;
    let packings = packings::packings(sample, &chunks, most_clusters, lookups.rows)?;
    let inputs: Vec<_> = packings.iter().map(|packing| packing.input.clone()).collect();
    let choice = choose(lookups, &inputs)?;
    Ok(Report::new(table, access, sample, lookups, &packings[choice.packing], &choice))
}

fn chunk_sizes(chunks: &[usize], row_bytes: u64) -> Result<Vec<ChunkSize>> {
    if chunks.is_empty() {
        let fits = |chunk: &ChunkSize| row_bytes.is_multiple_of(chunk.bytes() as u64);
        return Ok(ChunkSize::ALL.into_iter().filter(fits).collect());
    }
    chunks.iter().map(|&bytes| ChunkSize::from_bytes(bytes).map_err(Error::Chunks)).collect()
}

/// Which rows are looked up, and in words: as often as a file says, if there is one.
///
/// # Errors
/// If a line of the file is no number.
pub fn accessed(counts: Option<&Path>, access: &Access) -> Result<(Access, String)> {
    Ok(match counts {
        Some(file) => {
            (Access::Counts(read_counts(file)?), format!("as counted in {}", file.display()))
        }
        None => (access.clone(), access.to_string()),
    })
}

/// How often each row was looked up: a number from each line.
fn read_counts(file: &Path) -> Result<Vec<u64>> {
    let text = read_text(file)?;
    let counts = text.lines().enumerate().map(|(index, line)| {
        line.trim().parse().map_err(|_| Error::NoCount(file.into(), index + 1, line.into()))
    });
    counts.collect()
}
