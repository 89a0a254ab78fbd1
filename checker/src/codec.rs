//! What is known of codecs by their names alone.

use schema::{CodecRef, Fidelity};

/// What a codec of this name brings back, whatever a plan says; nothing for unknown names.
fn known(name: &str) -> Option<Fidelity> {
    match name {
        "zvc" | "rle" | "csr" | "lz4" | "zstd" => Some(Fidelity::Lossless),
        "zfp" => Some(Fidelity::FixedRate),
        "sz" | "sz-1.4" | "jpeg-act-l" | "jpeg-act-h" => Some(Fidelity::ErrorBounded),
        _ => None,
    }
}

/// Whether a plan says of a codec what it is not.
pub(crate) fn is_mistaken(codec: &CodecRef) -> bool {
    known(&codec.codec).is_some_and(|fidelity| fidelity != codec.fidelity)
}

/// Bytes that a codec makes of a tensor at least, where that does not depend on the data: ZFP has
/// `parameter` bits a value, in blocks of four values and words of 64 bits.
pub(crate) fn fixed_bytes(codec: &CodecRef, bytes: u64, element: u64) -> Option<u64> {
    let rate = codec.parameter.filter(|_| codec.codec == "zfp")?;
    let blocks = bytes.div_ceil(4 * element);
    let bits_of_block = ((4.0 * rate).floor() as u64).max(1);
    Some((blocks * bits_of_block).div_ceil(64) * 8)
}
