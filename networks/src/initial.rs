//! What is in memory before the first iteration.

/// The value of a constant before the first iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Initial {
    /// The same number everywhere.
    Constant(f32),
    /// Uniform between minus and plus this bound.
    Uniform(f32),
    /// Uniform among this many classes, or rows of a table, as indices.
    Classes(usize),
    /// Indices that count from zero to this length, then begin again: positions in a sequence.
    Positions(usize),
    /// The seed of dropout.
    Seed,
}

impl Initial {
    /// A bound for the uniform weights of a table, whose deviation is then 0.02, as transformers
    /// have it.
    pub(crate) const TABLE: Self = Self::Uniform(0.034_64);

    /// Weights that keep the variance of activations from layer to layer behind a ReLU
    /// (He et al. 2015), for a layer that adds up `fan_in` products.
    pub fn weights(fan_in: u64) -> Self {
        Self::Uniform((6.0 / fan_in.max(1) as f32).sqrt())
    }

    /// Weights of a linear layer as frameworks have them by default: smaller than
    /// [`Initial::weights`], so that a deep network's first guesses are about even and its first
    /// steps small.
    pub fn small_weights(fan_in: u64) -> Self {
        Self::Uniform(1.0 / (fan_in.max(1) as f32).sqrt())
    }

    /// Values with mean zero and variance one, such as pixels.
    pub fn normalised() -> Self {
        Self::Uniform(3f32.sqrt())
    }

    /// Whether the cells are indices.
    pub fn is_index(self) -> bool {
        matches!(self, Self::Classes(_) | Self::Positions(_) | Self::Seed)
    }
}
