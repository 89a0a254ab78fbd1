//! Which ops use a device alike.

/// Ops that use a device alike, and so have an efficiency in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Convolutions with a window of one element: matrix products in all but name.
    Pointwise(Pass),
    /// Convolutions of 3x3 and more.
    Window(Pass),
    /// Convolutions in groups of more than one channel.
    Grouped(Pass),
    /// Convolutions of each channel with a window of its own.
    Depthwise(Pass),
    /// Matrix products in 32 bits.
    Matrix,
    /// Matrix products and convolutions in 16 bits, on matrix units.
    Matrix16,
    /// Fused attention.
    Attention(Pass),
    /// Batch normalisation.
    BatchNorm(Pass),
    /// Layer and RMS normalisation.
    RowNorm(Pass),
    /// Softmax.
    Softmax,
    /// Activations, sums, products, dropout, rotary embeddings.
    Elementwise(Pass),
    /// Max pooling.
    MaxPool(Pass),
    /// The backward of max pooling with indices that were kept.
    MaxPoolIndices,
    /// Average pooling.
    AveragePool(Pass),
    /// Average pooling to one element: a mean.
    GlobalPool(Pass),
    /// Average pooling to another size.
    AdaptivePool(Pass),
    /// Bilinear up-sampling.
    Upsample(Pass),
    /// Concatenation and copies.
    Movement,
    /// Views: nothing moves.
    View,
    /// Embedding tables.
    Embedding(Pass),
    /// The loss.
    Loss,
    /// The optimizer's step.
    Optimizer,
}

/// Which gradient, if any, an op makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pass {
    /// None: it belongs to the forward phase.
    Forward,
    /// That of the parameters.
    Parameters,
    /// That of the input, and where it is one op, of the parameters too.
    Input,
}

impl Class {
    /// The name in `efficiencies.toml`.
    pub fn name(self) -> String {
        let (name, pass) = match self {
            Self::Pointwise(pass) => ("pointwise-convolution", Some(pass)),
            Self::Window(pass) => ("window-convolution", Some(pass)),
            Self::Grouped(pass) => ("grouped-convolution", Some(pass)),
            Self::Depthwise(pass) => ("depthwise-convolution", Some(pass)),
            Self::Matrix => ("matrix-product", None),
            Self::Matrix16 => ("matrix-product-16", None),
            Self::Attention(pass) => ("attention", Some(pass)),
            Self::BatchNorm(pass) => ("batch-norm", Some(pass)),
            Self::RowNorm(pass) => ("row-norm", Some(pass)),
            Self::Softmax => ("softmax", None),
            Self::Elementwise(pass) => ("elementwise", Some(pass)),
            Self::MaxPool(pass) => ("max-pool", Some(pass)),
            Self::MaxPoolIndices => ("max-pool-indices", Some(Pass::Input)),
            Self::AveragePool(pass) => ("average-pool", Some(pass)),
            Self::GlobalPool(pass) => ("global-pool", Some(pass)),
            Self::AdaptivePool(pass) => ("adaptive-pool", Some(pass)),
            Self::Upsample(pass) => ("upsample", Some(pass)),
            Self::Movement => ("movement", None),
            Self::View => ("view", None),
            Self::Embedding(pass) => ("embedding", Some(pass)),
            Self::Loss => ("loss", None),
            Self::Optimizer => ("optimizer", None),
        };
        match pass {
            Some(Pass::Forward) => format!("{name}-forward"),
            Some(Pass::Parameters) => format!("{name}-parameter-gradient"),
            Some(Pass::Input) => format!("{name}-input-gradient"),
            None => name.to_string(),
        }
    }

    /// All classes, in the order of `efficiencies.toml`.
    pub fn all() -> Vec<Self> {
        let of = |class: fn(Pass) -> Self| {
            [Pass::Forward, Pass::Parameters, Pass::Input].map(class).to_vec()
        };
        let two = |class: fn(Pass) -> Self| [Pass::Forward, Pass::Input].map(class).to_vec();
        let mut all = [
            of(Self::Pointwise),
            of(Self::Window),
            of(Self::Grouped),
            of(Self::Depthwise),
            vec![Self::Matrix, Self::Matrix16],
            two(Self::Attention),
            two(Self::BatchNorm),
            two(Self::RowNorm),
            vec![Self::Softmax],
            two(Self::Elementwise),
            two(Self::MaxPool),
            vec![Self::MaxPoolIndices],
            two(Self::AveragePool),
            two(Self::GlobalPool),
            two(Self::AdaptivePool),
            two(Self::Upsample),
            vec![Self::Movement, Self::View],
        ]
        .concat();
        all.extend([Pass::Forward, Pass::Parameters].map(Self::Embedding));
        all.extend([Self::Loss, Self::Optimizer]);
        all
    }
}
