//! Clustered compression.

use codecs::ibp::{ChunkSize, IbpError, MAX_CLUSTERS, Placement, Rows, Table, clusters_of};

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
fn rows_of_several_kinds_are_told_apart() {
    let data = kinds(600);
    let rows = Rows::new(&data, ROW_BYTES).unwrap();
    let table = |count| {
        let clusters = clusters_of(rows, ChunkSize::Four, count, 1).unwrap();
        let metadata = clusters.into_iter().map(|cluster| cluster.metadata).collect();
        let mut table = Table::new(metadata, ChunkSize::Four, Placement::InPlace).unwrap();
        table.append(rows).unwrap();
        check_rows(&table, rows);
        table.sizes()
    };
    // A word of participation bits and a byte of each of 16 words.
    assert_eq!(table(4).rows, 600 * (4 + 16));
    assert!(table(1).rows > 2 * table(4).rows);
    // Two bits a row for four clusters.
    assert_eq!((table(1).index, table(4).index), (0, 600 * 2 / 8));
}

#[test]
fn equal_rows_and_few_rows_are_no_obstacle() {
    for rows in [1, 2, 5] {
        let data = vec![9; rows * ROW_BYTES];
        let rows = Rows::new(&data, ROW_BYTES).unwrap();
        assert_eq!(clusters_of(rows, ChunkSize::Eight, 8, 1).unwrap().len(), 1);
    }
    let rows = Rows::new(&[9; ROW_BYTES], ROW_BYTES).unwrap();
    for count in [0, MAX_CLUSTERS + 1] {
        let refused = clusters_of(rows, ChunkSize::Eight, count, 1);
        assert_eq!(refused, Err(IbpError::ClusterCount(count)));
    }
}
