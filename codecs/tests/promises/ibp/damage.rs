//! Bytes that nobody compressed.

use codecs::ibp::{ChunkSize, IbpError, Metadata, RowCoder};

#[test]
fn a_row_that_is_cut_off_is_an_error_at_every_length() {
    let row: Vec<u8> = (0..64).collect();
    let mask = [0, 0, 0, 0xff].repeat(16);
    let bitval = mask.iter().zip(&row).map(|(mask, row)| mask & row).collect();
    let coder = RowCoder::new(Metadata::new(mask, bitval).unwrap(), ChunkSize::Four).unwrap();
    let mut compressed = Vec::new();
    assert!(coder.compress(&row, &mut compressed));
    for length in 0..compressed.len() {
        let cut_off = coder.decompress(&compressed[..length], &mut [0; 64]);
        assert!(matches!(cut_off, Err(IbpError::Corrupt(_))), "{length}");
    }
    assert_eq!(coder.decompress(&compressed, &mut [0; 64]), Ok(compressed.len()));
    // 16 chunks in a word of 32 participation bits.
    compressed[2] = 1;
    assert!(matches!(coder.decompress(&compressed, &mut [0; 64]), Err(IbpError::Corrupt(_))));
}

#[test]
fn values_without_a_mask_are_refused() {
    assert!(Metadata::new(vec![0xf0], vec![0x08]).is_err());
    assert!(Metadata::new(vec![0xf0], vec![]).is_err());
    assert!(Metadata::new(vec![], vec![]).is_err());
}
