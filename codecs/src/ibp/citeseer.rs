//! A table of which the paper prints how small it becomes.

/// The node features of Citeseer as 32-bit floats, and the bytes of a row: 3327 rows of 3703 zeros and ones
/// (`data/README.md`).
pub fn citeseer() -> (Vec<u8>, usize) {
    let row_bytes = 3703 * 4;
    let mut features = vec![0; 3327 * row_bytes];
    for pair in include_bytes!("../../data/citeseer.u16pairs").as_chunks::<4>().0 {
        let row = usize::from(u16::from_le_bytes([pair[0], pair[1]]));
        let column = usize::from(u16::from_le_bytes([pair[2], pair[3]]));
        features[row * row_bytes + column * 4..][..4].copy_from_slice(&1f32.to_le_bytes());
    }
    (features, row_bytes)
}
