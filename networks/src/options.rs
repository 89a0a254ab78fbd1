//! What a user may choose about a network.

use schema::Dtype;

/// What a user may choose about a network. What is absent is as the network's own authors have it.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkOptions {
    /// Samples per iteration.
    pub batch: u32,
    /// The activation of networks that leave the choice (the convolutional ones with ReLU).
    pub activation: Option<Activation>,
    /// Height and width of images.
    pub image: Option<[u32; 2]>,
    /// Frames of videos.
    pub frames: Option<u32>,
    /// Tokens per sample.
    pub sequence: Option<u32>,
    /// Element type of activations, parameters and gradients.
    pub dtype: Option<Dtype>,
    /// What the optimizer keeps for each parameter.
    pub optimizer: Option<Optimizer>,
    /// Whether ReLU and residual additions write over their input, as frameworks let them. If
    /// not, each output is a tensor beside its input, as profiles list them.
    pub in_place: bool,
    /// Whether max pooling keeps the indices of its maxima (64-bit, as PyTorch does) for its
    /// backward, or keeps its input and finds them again.
    pub pool_indices: bool,
    /// Whether attention is one op that keeps no scores (as FlashAttention), or three.
    pub fused_attention: bool,
    /// How far training has come, from 0 (its first epoch) to 1 (its last): what the sparsity of
    /// tensors depends on.
    pub progress: f64,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            batch: 1,
            activation: None,
            image: None,
            frames: None,
            sequence: None,
            dtype: None,
            optimizer: None,
            in_place: true,
            pool_indices: false,
            fused_attention: true,
            progress: 0.0,
        }
    }
}

/// Functions applied to each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// max(0, x): half or more of the output is zero.
    Relu,
    /// x where positive, a fraction of x elsewhere: nothing becomes zero.
    LeakyRelu,
    /// x where positive, e^x - 1 elsewhere: nothing becomes zero.
    Elu,
    /// ReLU that stops at 6.
    Relu6,
    /// Gaussian error linear unit.
    Gelu,
    /// x · sigmoid(x), also called swish.
    Silu,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// The name on the command line and in network files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::LeakyRelu => "leaky-relu",
            Self::Elu => "elu",
            Self::Relu6 => "relu6",
            Self::Gelu => "gelu",
            Self::Silu => "silu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
        }
    }

    /// The activation of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Relu,
            Self::LeakyRelu,
            Self::Elu,
            Self::Relu6,
            Self::Gelu,
            Self::Silu,
            Self::Sigmoid,
            Self::Tanh,
        ];
        all.into_iter().find(|activation| activation.name() == name)
    }

    /// Whether the derivative is told from the output alone, so that the input need not be kept
    /// and the output may take its place.
    pub(crate) fn backward_reads_output(self) -> bool {
        !matches!(self, Self::Gelu | Self::Silu)
    }

    /// Whether it makes zeros.
    pub(crate) fn makes_zeros(self) -> bool {
        matches!(self, Self::Relu | Self::Relu6)
    }
}

/// What the optimizer keeps for each parameter, in 32-bit floats. Where parameters are of 16 bits
/// it keeps a 32-bit copy of them too, as mixed-precision training does (Micikevicius et al.,
/// *Mixed Precision Training*, ICLR 2018).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Optimizer {
    /// The iteration ends with the gradients: no update, no state.
    None,
    /// Stochastic gradient descent without momentum.
    Sgd,
    /// With momentum: one figure a parameter.
    Momentum,
    /// Adam: two figures a parameter.
    Adam,
}

impl Optimizer {
    /// Figures per parameter.
    pub(crate) fn moments(self) -> u64 {
        match self {
            Self::None | Self::Sgd => 0,
            Self::Momentum => 1,
            Self::Adam => 2,
        }
    }
}

/// Bytes of an element.
pub(crate) fn element_bytes(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::U8 => 1,
        Dtype::F16 | Dtype::Bf16 => 2,
        Dtype::F32 | Dtype::I32 => 4,
        Dtype::F64 | Dtype::I64 => 8,
    }
}
