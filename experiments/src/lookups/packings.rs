//! The ways of packing that there are to choose from.

use codecs::ibp::{
    ChunkSize, IbpError, MAX_CLUSTERS, Metadata, RowCoder, cluster_index_bytes, clusters_of,
};
use planner::inference::Packing;
use schema::Bytes;

use super::sample::Sample;
use crate::Result;

/// Draws the first centres of clusters.
const SEED: u64 = 1;

/// A way of packing the table.
pub struct Learned {
    /// What choosing needs to know of it.
    pub input: Packing,
    /// The threshold of each cluster, in percent.
    pub thresholds: Vec<u8>,
}

pub fn packings(
    sample: &Sample,
    chunks: &[ChunkSize],
    most_clusters: usize,
    rows: u64,
) -> Result<Vec<Learned>> {
    if !(1..=MAX_CLUSTERS).contains(&most_clusters) {
        return Err(IbpError::ClusterCount(most_clusters).into());
    }
    // Each row a cluster is as many as there can be.
    let most_clusters = most_clusters.min(sample.rows() as usize);
    let mut packings = Vec::new();
    for &chunk in chunks {
        let mut count = 1;
        while count <= most_clusters {
            packings.push(learn(sample, chunk, count, rows)?);
            count *= 2;
        }
    }
    Ok(packings)
}

fn learn(sample: &Sample, chunk: ChunkSize, count: usize, rows: u64) -> Result<Learned> {
    let learned_from = sample.learned_from()?;
    let clusters = clusters_of(learned_from, chunk, count, SEED)?;
    let thresholds = clusters.iter().map(|cluster| cluster.threshold_percent).collect();
    let metadata: u64 = clusters.iter().map(|cluster| cluster.metadata.bytes() as u64).sum();
    let index = cluster_index_bytes(clusters.len(), rows);
    let coder = |metadata: Metadata| RowCoder::new(metadata, chunk);
    let coders = clusters.into_iter().map(|cluster| coder(cluster.metadata));
    let coders = coders.collect::<std::result::Result<Vec<_>, _>>()?;
    let size = |row: &[u8]| {
        let packed = coders.iter().filter_map(|coder| coder.compressed_bytes(row));
        packed.min().unwrap_or(row.len()) as u64
    };
    let measured_on = sample.measured_on()?;
    let input = Packing {
        chunk_bytes: chunk.bytes() as u64,
        clusters: coders.len() as u64,
        metadata: Bytes(metadata + index),
        sizes: measured_on.iter().map(size).collect(),
    };
    Ok(Learned { input, thresholds })
}
