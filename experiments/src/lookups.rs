//! Lookups in a table too large for the device: how its rows are best packed, and what that gains.

mod packings;
mod report;
mod sample;

use codecs::ibp::ChunkSize;
use planner::inference::{Lookups, choose};

use crate::Result;

pub use report::Report;
pub use sample::Sample;

/// Learns packings from a sample of a table, chooses one, and predicts lookups. `table` and `access` are
/// what the report calls the table and how it is looked up.
///
/// # Errors
/// If rows cannot be packed so, or lookups cannot be predicted.
pub fn predict(
    (table, access): (String, String),
    sample: &Sample,
    lookups: &Lookups<'_>,
    chunks: &[ChunkSize],
    most_clusters: usize,
) -> Result<Report> {
    let packings = packings::packings(sample, chunks, most_clusters, lookups.rows)?;
    let inputs: Vec<_> = packings.iter().map(|packing| packing.input.clone()).collect();
    let choice = choose(lookups, &inputs)?;
    Ok(Report::new(table, access, sample, lookups, &packings[choice.packing], &choice))
}
