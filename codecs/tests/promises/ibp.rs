//! Invariant bit packing.

mod citeseer;
mod clusters;
mod codec;
mod damage;
mod layout;
mod roundtrip;

use codecs::ibp::{ChunkSize, Metadata, Placement, Rows, Table};

/// A table of these rows that has one Mask and Bitval.
fn table(rows: Rows<'_>, metadata: Metadata, chunk: ChunkSize, placement: Placement) -> Table {
    let mut table = Table::new(vec![metadata], chunk, placement).unwrap();
    table.append(rows).unwrap();
    table
}

/// Asserts that every row can be read by itself, in any order.
fn check_rows(table: &Table, rows: Rows<'_>) {
    assert_eq!(table.len(), rows.len());
    let mut out = vec![0x55; rows.row_bytes()];
    for row in (0..rows.len()).rev() {
        table.read(row, &mut out).unwrap();
        assert_eq!(Some(&out[..]), rows.get(row), "row {row}");
    }
}
