//! The bytes of a row, worked out by hand.

use codecs::ibp::{ChunkSize, Metadata, RowCoder, Rows, analyse};

fn compressed(mask: &[u8], bitval: &[u8], chunk: ChunkSize, row: &[u8]) -> Option<Vec<u8>> {
    let metadata = Metadata::new(mask.to_vec(), bitval.to_vec()).unwrap();
    let coder = RowCoder::new(metadata, chunk).unwrap();
    let mut out = Vec::new();
    let smaller = coder.compress(row, &mut out);
    assert_eq!(smaller.then_some(out.len()), coder.compressed_bytes(row));
    smaller.then_some(out)
}

/// Four chunks of four bytes of which the top two bytes are 0x3f80; the third differs.
#[test]
fn participation_bits_then_the_bits_that_stay_from_the_top() {
    let mask = [0, 0, 0xff, 0xff].repeat(4);
    let bitval = [0, 0, 0x80, 0x3f].repeat(4);
    let row: Vec<u8> =
        [0x3f80_1234u32, 0x3f80_abcd, 0x4080_0001, 0x3f80_0007].map(u32::to_le_bytes).concat();
    let expected =
        [0b1011u32, 0x1234_abcd, 0x4080_0001, 0x0007_0000].map(u32::to_le_bytes).concat();
    // As long as the row itself, which therefore stays as it is.
    assert_eq!(compressed(&mask, &bitval, ChunkSize::Four, &row), None);

    let longer = [&row[..], &row[..4]].concat();
    let mask = [&mask[..], &mask[..4]].concat();
    let bitval = [&bitval[..], &bitval[..4]].concat();
    let mut expected_longer = expected;
    expected_longer[0] = 0b11011;
    expected_longer[12..16].copy_from_slice(&0x0007_1234u32.to_le_bytes());
    assert_eq!(compressed(&mask, &bitval, ChunkSize::Four, &longer), Some(expected_longer));
}

#[test]
fn the_word_is_the_chunk() {
    // Two bits stay of each byte, in the middle.
    let mask = [0b1110_0111u8; 16];
    let row = [0b0000_1000u8; 16];
    let bytes = compressed(&mask, &[0; 16], ChunkSize::One, &row).unwrap();
    assert_eq!(bytes, [0xff, 0xff, 0x55, 0x55, 0x55, 0x55]);
    let bytes = compressed(&mask, &[0; 16], ChunkSize::Two, &row).unwrap();
    assert_eq!(bytes, [0xff, 0x00, 0x55, 0x55, 0x55, 0x55]);
    let (mask, row) = (mask.repeat(2), row.repeat(2));
    let bytes = compressed(&mask, &[0; 32], ChunkSize::Eight, &row).unwrap();
    assert_eq!(bytes, [[15, 0, 0, 0, 0, 0, 0, 0], [0x55; 8]].concat());
}

#[test]
fn of_thresholds_that_save_the_same_the_lowest_is_taken() {
    let rows = [7u8; 80];
    let analysis = analyse(Rows::new(&rows, 8).unwrap(), ChunkSize::Eight).unwrap();
    assert_eq!(analysis.threshold_percent, 70);
    assert_eq!(analysis.metadata.mask(), [0xff; 8]);
}
