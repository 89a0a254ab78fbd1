//! Clustered compression.

use codecs::ibp::{ChunkSize, Clusters, IbpError, Placement, Rows, Table, cluster};

use super::check_rows;

const ROW_BYTES: usize = 64;

/// Numbers without a pattern, the same for the same seed.
fn noise(count: usize) -> impl Iterator<Item = u8> {
    let mut state = 1u32;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(count)
}

/// Rows of three kinds, mixed: the upper three bytes of each word are those of their kind.
fn kinds(rows: usize) -> Vec<u8> {
    let kinds: Vec<u8> = noise(3 * ROW_BYTES).collect();
    let mut table = Vec::new();
    for (row, noise) in noise(rows * ROW_BYTES).collect::<Vec<_>>().chunks(ROW_BYTES).enumerate() {
        let kind = &kinds[row % 3 * ROW_BYTES..][..ROW_BYTES];
        let byte =
            |(at, (kind, noise)): (usize, (&u8, &u8))| if at % 4 == 0 { *noise } else { *kind };
        table.extend(kind.iter().zip(noise).enumerate().map(byte));
    }
    table
}

#[test]
fn rows_of_several_kinds_are_told_apart_and_their_metadata_is_counted() {
    let data = kinds(600);
    let rows = Rows::new(&data, ROW_BYTES).unwrap();
    let one = cluster(rows, ChunkSize::Four, 1, 1).unwrap();
    let found = cluster(rows, ChunkSize::Four, 16, 1).unwrap();
    assert_eq!(one.metadata.len(), 1);
    // Three kinds: two clusters cannot hold them, and four cost little more than three.
    assert!((3..=4).contains(&found.metadata.len()), "{}", found.metadata.len());
    assert!(found.net_saved > 2 * one.net_saved.max(0), "{} {}", found.net_saved, one.net_saved);

    let mut table = Table::new(found.metadata, ChunkSize::Four, Placement::InPlace).unwrap();
    table.append(rows).unwrap();
    check_rows(&table, rows);
    let sizes = table.sizes();
    // A word of participation bits and a byte of each of 16 words.
    assert_eq!(sizes.rows, 600 * (4 + 16));
    // The bit a row that says whether it is compressed is not of the clusters.
    assert_eq!(found.net_saved, sizes.net_saved() + sizes.row_mask as i64);
}

/// Section 6.5: "A uniform distribution is difficult to compress".
#[test]
fn rows_without_kinds_stay_together() {
    let data: Vec<u8> = noise(300 * ROW_BYTES).collect();
    let rows = Rows::new(&data, ROW_BYTES).unwrap();
    assert_eq!(cluster(rows, ChunkSize::Four, 8, 1).unwrap().metadata.len(), 1);
}

#[test]
fn equal_rows_and_few_rows_are_no_obstacle() {
    for rows in [1, 2, 5] {
        let data = vec![9; rows * ROW_BYTES];
        let rows = Rows::new(&data, ROW_BYTES).unwrap();
        assert_eq!(cluster(rows, ChunkSize::Eight, 8, 1).unwrap().metadata.len(), 1);
    }
    let rows = Rows::new(&[9; ROW_BYTES], ROW_BYTES).unwrap();
    for count in [0, Clusters::MAX + 1] {
        let refused = cluster(rows, ChunkSize::Eight, count, 1);
        assert_eq!(refused, Err(IbpError::ClusterCount(count)));
    }
}
