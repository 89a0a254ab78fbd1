//! The node features of Citeseer, of which the paper prints the compression ratio.

use codecs::ibp::{ChunkSize, Placement, Rows, analyse, sample_of};

use super::{check_rows, table};

const NODES: usize = 3327;
const ROW_BYTES: usize = 3703 * 4;

/// The features as 32-bit floats: 0.0, and 1.0 at the pairs (row, column) of the file.
fn features() -> Option<Vec<u8>> {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/citeseer-3327x3703.u16pairs");
    let Ok(pairs) = std::fs::read(path) else {
        eprintln!("skipped: {path} is not there");
        return None;
    };
    let mut features = vec![0; NODES * ROW_BYTES];
    for pair in pairs.as_chunks::<4>().0 {
        let row = usize::from(u16::from_le_bytes([pair[0], pair[1]]));
        let column = usize::from(u16::from_le_bytes([pair[2], pair[3]]));
        features[row * ROW_BYTES + column * 4..][..4].copy_from_slice(&1f32.to_le_bytes());
    }
    Some(features)
}

/// Table 5: "Citeseer 25.09x".
#[test]
fn the_whole_table_has_the_papers_ratio_to_the_byte() {
    let Some(features) = features() else { return };
    let rows = Rows::new(&features, ROW_BYTES).unwrap();
    let analysis = analyse(rows, ChunkSize::Four).unwrap();
    assert_eq!(analysis.threshold_percent, 70);
    for placement in [Placement::InPlace, Placement::Condensed] {
        let table = table(rows, analysis.metadata.clone(), ChunkSize::Four, placement);
        assert_eq!(table.sizes().rows, 1_964_388);
        assert_eq!(format!("{:.2}", table.sizes().ratio()), "25.09");
        check_rows(&table, rows);
    }
}

/// Table 5: what is learned from 1 % of the rows serves all of them.
#[test]
fn a_sample_reaches_nearly_the_whole_ratio() {
    let Some(features) = features() else { return };
    let rows = Rows::new(&features, ROW_BYTES).unwrap();
    let ratio = |sample: Rows<'_>| {
        let metadata = analyse(sample, ChunkSize::Four).unwrap().metadata;
        table(rows, metadata, ChunkSize::Four, Placement::InPlace).sizes().ratio()
    };
    let whole = ratio(rows);
    for percent in [1, 5, 10, 25, 50] {
        let drawn = sample_of(NODES as u64, (NODES as u64 * percent).div_ceil(100), 1);
        let drawn = drawn.filter_map(|row| rows.get(row as usize));
        let sample: Vec<u8> = drawn.flatten().copied().collect();
        let ratio = ratio(Rows::new(&sample, ROW_BYTES).unwrap());
        assert!(ratio >= 0.99 * whole, "{percent} %: {ratio} of {whole}");
    }
}
