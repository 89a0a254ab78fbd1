//! Clustered compression: tables whose rows agree with some of the others and not with all.

use rayon::prelude::*;

use super::metadata::majority;
use super::{Analysis, ChunkSize, IbpError, Rows, analyse};
use crate::synthetic::next;

/// Rounds of k-means after which clusters are taken as they are.
const ROUNDS: usize = 12;

/// Most clusters that a table can have.
pub const MAX_CLUSTERS: usize = 1 << 16;

/// Bytes of saying for each of `rows` rows which of `clusters` it belongs to: whole bits, none for
/// one cluster. The paper's "net space saved" counts the metadata alone.
pub fn cluster_index_bytes(clusters: usize, rows: u64) -> u64 {
    let bits = clusters.max(1).next_power_of_two().trailing_zeros();
    (u128::from(rows) * u128::from(bits)).div_ceil(8) as u64
}

/// Divides rows into `count` clusters (section 6.5, "Clustered Compression"), fewer where fewer rows
/// differ, and says what is learned of each.
///
/// "We modify k-means to use tensor bit-similarity for distances": the distance of a row to a
/// centre is the number of bits in which they differ, and a centre has at each bit the value that
/// most of its rows have, which is nearest to them. Of what the paper leaves open: the first
/// centres are drawn as in k-means++ (Arthur and Vassilvitskii, 2007) but with the distance itself,
/// as it is already a square; after 12 rounds clusters are taken as they are; each has its own
/// threshold.
///
/// # Errors
/// [`IbpError::ClusterCount`] where `count` is none or more than [`MAX_CLUSTERS`]; as [`analyse`].
pub fn clusters_of(
    rows: Rows<'_>,
    chunk: ChunkSize,
    count: usize,
    seed: u64,
) -> Result<Vec<Analysis>, IbpError> {
    match count {
        1 => Ok(vec![analyse(rows, chunk)?]),
        2..=MAX_CLUSTERS if rows.is_empty() => Err(IbpError::NoRows),
        2..=MAX_CLUSTERS => {
            let groups = k_means(rows, count, seed);
            let groups = groups.iter().map(|group| Rows::new(group, rows.row_bytes()));
            groups.map(|group| analyse(group?, chunk)).collect()
        }
        _ => Err(IbpError::ClusterCount(count)),
    }
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
