//! What keeps parts of a device busy, to measure how much they slow each other.

use strum::{Display, VariantArray};

/// A piece of work that keeps a part of a device busy; as a text, as tables name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Load {
    /// Compute that is bound by arithmetic: a product of matrices.
    Product,
    /// Compute that is bound by the device's memory: an activation of a large tensor.
    #[strum(to_string = "activation")]
    Pass,
    /// Zero-value compression and decompression of a tensor that is half zeros.
    Codec,
    /// A copy to the host.
    #[strum(to_string = "copy out")]
    D2h,
    /// A copy to the device.
    #[strum(to_string = "copy in")]
    H2d,
}

impl Load {
    /// All of them.
    pub const ALL: &[Self] = Self::VARIANTS;
}
