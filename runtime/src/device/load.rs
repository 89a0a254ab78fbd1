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
    D2h,
    /// A copy to the device.
    H2d,
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Product, Self::Pass, Self::Codec, Self::D2h, Self::H2d];
}

/// As tables name it.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Product => "product",
            Self::Pass => "activation",
            Self::Codec => "codec",
            Self::D2h => "copy out",
            Self::H2d => "copy in",
        })
    }
}
