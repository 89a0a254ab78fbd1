//! The node features of Citeseer, of which the paper prints the compression ratio.

use codecs::ibp::{ChunkSize, Placement, Rows, analyse, citeseer};

use super::{check_rows, table};

/// Table 5: "Citeseer 25.09x".
#[test]
fn the_whole_table_has_the_papers_ratio_to_the_byte() {
    let (features, row_bytes) = citeseer();
    let rows = Rows::new(&features, row_bytes).unwrap();
    let analysis = analyse(rows, ChunkSize::Four).unwrap();
    assert_eq!(analysis.threshold_percent, 70);
    for placement in [Placement::InPlace, Placement::Condensed] {
        let table = table(rows, analysis.metadata.clone(), ChunkSize::Four, placement);
        assert_eq!(table.sizes().rows, 1_964_388);
        assert_eq!(format!("{:.2}", table.sizes().ratio()), "25.09");
        check_rows(&table, rows);
    }
}
