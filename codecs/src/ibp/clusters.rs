//! Clustered compression: tables whose rows agree with some of the others and not with all.

use rayon::prelude::*;

use super::metadata::majority;
use super::{Analysis, ChunkSize, IbpError, Metadata, RowCoder, Rows, analyse};
use crate::synthetic::next;

/// Rounds of k-means after which clusters are taken as they are.
const ROUNDS: usize = 12;

/// A Mask and Bitval for each of several groups of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clusters {
    /// Mask and Bitval of each cluster, at least one.
    pub metadata: Vec<Metadata>,
    /// Bytes that they save on the rows that they were learned from, all of their own bytes
    /// (metadata, and each row's cluster) counted. Negative where they cost more.
    pub net_saved: i64,
}

impl Clusters {
    /// Most clusters that a table can have.
    pub const MAX: usize = 1 << 16;

    /// Bytes of saying for each of `rows` rows which of `clusters` it belongs to: whole bits, none
    /// for one cluster. The paper's "net space saved" counts the metadata alone.
    pub fn index_bytes(clusters: usize, rows: u64) -> u64 {
        let bits = clusters.max(1).next_power_of_two().trailing_zeros();
        (u128::from(rows) * u128::from(bits)).div_ceil(8) as u64
    }
}

/// Divides rows into at most `most` clusters (section 6.5, "Clustered Compression"), of 1, 2, 4 and
/// so on the number that saves most; the fewest of those that save the same.
///
/// "We modify k-means to use tensor bit-similarity for distances": the distance of a row to a
/// centre is the number of bits in which they differ, and a centre has at each bit the value that
/// most of its rows have, which is nearest to them. Of what the paper leaves open: the first
/// centres are drawn as in k-means++ (Arthur and Vassilvitskii, 2007) but with the distance itself,
/// as it is already a square; after 12 rounds clusters are taken as they are; each has its own
/// threshold.
///
/// # Errors
/// [`IbpError::ClusterCount`] where `most` is none or more than [`Clusters::MAX`]; as [`analyse`].
pub fn cluster(
    rows: Rows<'_>,
    chunk: ChunkSize,
    most: usize,
    seed: u64,
) -> Result<Clusters, IbpError> {
    if !(1..=Clusters::MAX).contains(&most) {
        return Err(IbpError::ClusterCount(most));
    }
    let mut best = judged(rows, chunk, clusters_of(rows, chunk, 1, seed)?)?;
    let mut count = 2;
    while count <= most.min(rows.len()) {
        let found = judged(rows, chunk, clusters_of(rows, chunk, count, seed)?)?;
        if found.net_saved > best.net_saved {
            best = found;
        }
        count *= 2;
    }
    Ok(best)
}

/// What is learned of each of `count` clusters, fewer where fewer rows differ: as [`cluster`],
/// which says how rows are divided, but of one number of clusters.
///
/// # Errors
/// As [`cluster`].
pub fn clusters_of(
    rows: Rows<'_>,
    chunk: ChunkSize,
    count: usize,
    seed: u64,
) -> Result<Vec<Analysis>, IbpError> {
    match count {
        1 => Ok(vec![analyse(rows, chunk)?]),
        2..=Clusters::MAX if rows.is_empty() => Err(IbpError::NoRows),
        2..=Clusters::MAX => {
            let groups = k_means(rows, count, seed);
            let groups = groups.iter().map(|group| Rows::new(group, rows.row_bytes()));
            groups.map(|group| analyse(group?, chunk)).collect()
        }
        _ => Err(IbpError::ClusterCount(count)),
    }
}

/// What these clusters save when each row goes to the one with which it becomes smallest.
fn judged(rows: Rows<'_>, chunk: ChunkSize, found: Vec<Analysis>) -> Result<Clusters, IbpError> {
    let coders = found.into_iter().map(|cluster| RowCoder::new(cluster.metadata, chunk));
    let coders = coders.collect::<Result<Vec<_>, _>>()?;
    let saved = |row: &[u8]| {
        let sizes = coders.iter().filter_map(|coder| coder.compressed_bytes(row));
        (row.len() - sizes.min().unwrap_or(row.len())) as i64
    };
    let saved: i64 = rows.bytes().par_chunks_exact(rows.row_bytes()).map(saved).sum();
    let own: u64 = coders.iter().map(|coder| coder.metadata().bytes() as u64).sum();
    let index = Clusters::index_bytes(coders.len(), rows.len() as u64);
    let metadata = coders.into_iter().map(RowCoder::into_metadata).collect();
    Ok(Clusters { metadata, net_saved: saved - (own + index) as i64 })
}

/// The rows of each cluster, back to back; clusters that end without rows are left out.
fn k_means(rows: Rows<'_>, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut centres = first_centres(rows, count, seed);
    let mut assigned = Vec::new();
    for _ in 0..ROUNDS {
        let nearest: Vec<usize> = (rows.bytes().par_chunks_exact(rows.row_bytes()))
            .map(|row| nearest(row, &centres).0)
            .collect();
        if nearest == assigned {
            break;
        }
        assigned = nearest;
        let groups = grouped(rows, &assigned, centres.len());
        let centre = |group: &Vec<u8>| Rows::new(group, rows.row_bytes()).ok().map(majority);
        centres = groups.par_iter().filter(|group| !group.is_empty()).filter_map(centre).collect();
        if centres.len() < groups.len() {
            // Numbers have shifted: assign anew before anything is concluded from them.
            assigned.clear();
        }
    }
    let last: Vec<usize> = rows.iter().map(|row| nearest(row, &centres).0).collect();
    let mut groups = grouped(rows, &last, centres.len());
    groups.retain(|group| !group.is_empty());
    groups
}

fn grouped(rows: Rows<'_>, assigned: &[usize], count: usize) -> Vec<Vec<u8>> {
    let mut groups = vec![Vec::new(); count];
    for (row, &cluster) in rows.iter().zip(assigned) {
        groups[cluster].extend_from_slice(row);
    }
    groups
}

/// Rows drawn with a chance that grows with their distance to those drawn before; fewer than
/// `count` where no more rows differ.
fn first_centres(rows: Rows<'_>, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = seed;
    let first = (next(&mut random) % rows.len() as u64) as usize;
    let mut centres = vec![rows.get(first).unwrap_or_default().to_vec()];
    let mut distances = vec![u64::MAX; rows.len()];
    while centres.len() < count {
        let newest = &centres[centres.len() - 1];
        for (row, least) in rows.iter().zip(&mut distances) {
            *least = differing_bits(row, newest).min(*least);
        }
        let total: u128 = distances.iter().map(|&distance| u128::from(distance)).sum();
        if total == 0 {
            break;
        }
        let mut ticket = u128::from(next(&mut random)) % total;
        let drawn = distances.iter().position(|&distance| {
            let hit = ticket < u128::from(distance);
            ticket = ticket.saturating_sub(u128::from(distance));
            hit
        });
        centres.push(drawn.and_then(|row| rows.get(row)).unwrap_or_default().to_vec());
    }
    centres
}

/// The nearest centre, the first of those that are equally near, and its distance.
fn nearest(row: &[u8], centres: &[Vec<u8>]) -> (usize, u64) {
    let distances = centres.iter().map(|centre| differing_bits(row, centre)).enumerate();
    distances.min_by_key(|&(_, distance)| distance).unwrap_or((0, 0))
}

fn differing_bits(a: &[u8], b: &[u8]) -> u64 {
    let (a_lanes, a_rest) = a.as_chunks::<8>();
    let (b_lanes, b_rest) = b.as_chunks::<8>();
    let lanes = a_lanes
        .iter()
        .zip(b_lanes)
        .map(|(a, b)| (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b)).count_ones());
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| (a ^ b).count_ones());
    lanes.chain(rest).map(u64::from).sum()
}
