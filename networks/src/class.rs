//! Which ops use a device alike.

use serde::{Deserialize, Serialize};

/// Ops that use a device alike, and so have an efficiency in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Class {
    /// Convolutions with a window of one element: matrix products in all but name.
    Pointwise(Pass),
    /// Convolutions of 3x3 with a step of one, which libraries may do by Winograd's way.
    Square(Pass),
    /// Other convolutions with a window of more than one element.
    Window(Pass),
    /// Convolutions in groups of more than one channel.
    Grouped(Pass),
    /// Convolutions of each channel with a window of its own.
    Depthwise(Pass),
    /// Matrix products in 32 bits.
    Matrix,
    /// Matrix products in 16 bits, on matrix units.
    Matrix16,
    /// Matrix products in TF32, on matrix units.
    MatrixTf32,
    /// Convolutions in 16 bits, on matrix units.
    Convolution16,
    /// Convolutions in TF32, on matrix units.
    ConvolutionTf32,
    /// Fused attention.
    Attention(Pass),
    /// Batch normalisation.
    BatchNorm(Pass),
    /// Batch normalisation of 16 bits, which other kernels do.
    BatchNorm16(Pass),
    /// Layer and RMS normalisation.
    RowNorm(Pass),
    /// Softmax.
    Softmax(Pass),
    /// Activations, sums, products, rotary embeddings.
    Elementwise(Pass),
    /// Dropout.
    Dropout(Pass),
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

impl Class {
    /// That of batch normalisation of elements of so many bytes.
    pub(crate) fn batch_norm(width: u64, pass: Pass) -> Self {
        if width == 2 { Self::BatchNorm16(pass) } else { Self::BatchNorm(pass) }
    }
}

impl From<Class> for String {
    fn from(class: Class) -> Self {
        class.name()
    }
}

impl TryFrom<String> for Class {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = Self::all().into_iter().find(|class| class.name() == name);
        known.ok_or_else(|| format!("`{name}` is no class of ops: delete it"))
    }
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
    /// That of a convolution by its groups, channels of each, elements of its window, and whether that is
    /// 3x3 with a step of one.
    pub(crate) fn of_convolution(
        groups: u64,
        per_group: u64,
        window: u64,
        square: bool,
        pass: Pass,
    ) -> Self {
        match (groups, per_group, window) {
            (1, _, 1) => Self::Pointwise(pass),
            (1, ..) if square => Self::Square(pass),
            (1, ..) => Self::Window(pass),
            (_, 1, _) => Self::Depthwise(pass),
            _ => Self::Grouped(pass),
        }
    }

    /// The name in `efficiencies.toml`.
    pub fn name(self) -> String {
        let (name, pass) = match self {
            Self::Pointwise(pass) => ("pointwise-convolution", Some(pass)),
            Self::Square(pass) => ("square-convolution", Some(pass)),
            Self::Window(pass) => ("window-convolution", Some(pass)),
            Self::Grouped(pass) => ("grouped-convolution", Some(pass)),
            Self::Depthwise(pass) => ("depthwise-convolution", Some(pass)),
            Self::Matrix => ("matrix-product", None),
            Self::Matrix16 => ("matrix-product-16", None),
            Self::MatrixTf32 => ("matrix-product-tf32", None),
            Self::Convolution16 => ("convolution-16", None),
            Self::ConvolutionTf32 => ("convolution-tf32", None),
            Self::Attention(pass) => ("attention", Some(pass)),
            Self::BatchNorm(pass) => ("batch-norm", Some(pass)),
            Self::BatchNorm16(pass) => ("batch-norm-16", Some(pass)),
            Self::RowNorm(pass) => ("row-norm", Some(pass)),
            Self::Softmax(pass) => ("softmax", Some(pass)),
            Self::Elementwise(pass) => ("elementwise", Some(pass)),
            Self::Dropout(pass) => ("dropout", Some(pass)),
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
            of(Self::Square),
            of(Self::Window),
            of(Self::Grouped),
            of(Self::Depthwise),
            vec![Self::Matrix, Self::Matrix16, Self::MatrixTf32],
            vec![Self::Convolution16, Self::ConvolutionTf32],
            two(Self::Attention),
            two(Self::BatchNorm),
            two(Self::BatchNorm16),
            two(Self::RowNorm),
            two(Self::Softmax),
            two(Self::Elementwise),
            two(Self::Dropout),
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
