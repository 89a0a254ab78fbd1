//! What keeps parts of a device busy, to measure how much they slow each other.

use std::fmt;

/// A piece of work that keeps a part of a device busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// Compute that is bound by arithmetic: a product of matrices.
    Product,
    /// Compute that is bound by the device's memory: an activation of a large tensor.
    Pass,
    /// Zero-value compression and decompression of a tensor that is half zeros.
    Codec,
    /// A copy to the host.
    CopyOut,
    /// A copy to the device.
    CopyIn,
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Product, Self::Pass, Self::Codec, Self::CopyOut, Self::CopyIn];
}

/// As tables name it.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Product => "product",
            Self::Pass => "activation",
            Self::Codec => "codec",
            Self::CopyOut => "copy out",
            Self::CopyIn => "copy in",
        })
    }
}
