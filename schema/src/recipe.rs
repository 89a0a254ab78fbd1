//! How to build a network again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::{Digest, Dtype};

/// How to build a network again: which one, by whose conventions, and what was chosen about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// A network that comes with tidegate, or the file that describes one.
    pub network: String,
    /// Digest of the file's bytes, where it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Digest>,
    /// Whose ops its iteration is to consist of.
    pub conventions: Framework,
    /// What was chosen about it.
    pub options: NetworkOptions,
}

/// What a user may choose about a network. What is absent is as the network's own authors have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkOptions {
    /// Samples per iteration.
    pub batch: u32,
    /// The activation of networks that leave the choice (the convolutional ones with ReLU).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Height and width of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<[u32; 2]>,
    /// Frames of videos.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<u32>,
    /// Tokens per sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// Element type of activations, parameters and gradients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// What of 32 bits may run on matrix units that take it as TF32, where a GPU has them.
    #[serde(skip_serializing_if = "Tf32::is_pytorchs")]
    pub tf32: Tf32,
    /// What the optimizer keeps for each parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,
    /// Whether ReLU and residual additions write over their input, as frameworks let them. If
    /// not, each output is a tensor beside its input, as profiles list them.
    pub in_place: bool,
    /// Whether max pooling keeps the indices of its maxima (64-bit) for its backward, as PyTorch does, or
    /// keeps its input and finds them again, as cuDNN does and so Chainer.
    pub pool_indices: bool,
    /// Whether attention is one op that keeps no scores (as FlashAttention), or three.
    pub fused_attention: bool,
    /// How far training has come, from 0 (its first epoch) to 1 (its last): what the sparsity of
    /// tensors depends on.
    pub progress: f64,
    /// In how many passes the batch goes forward and backward, one after another, before the update; each
    /// adds to the gradients of the one before.
    #[serde(skip_serializing_if = "is_one")]
    pub accumulate: u32,
    /// Whether parameters of 16 bits have a copy of 32 bits that updates change, and the optimizer's state has
    /// 32 bits. If not, both have 16.
    #[serde(skip_serializing_if = "is_true")]
    pub master_weights: bool,
    /// Whether each layer's parameters are updated as soon as their gradients are there, between the layers'
    /// backward ops, or all when all gradients are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update_in_backward: bool,
    /// ONNX files: whether a batch norm that was folded into a convolution is put back behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub training_batch_norm: bool,
    /// Transformers: extents in place of the authors'.
    #[serde(skip_serializing_if = "Extents::are_the_authors")]
    pub extents: Extents,
    /// Transformers: what is trained in place of the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<Lora>,
    /// How many ranks train it together, each on a batch of its own.
    #[serde(skip_serializing_if = "is_one")]
    pub ranks: u32,
    /// What each of these has only its share of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Extents of a transformer. What is absent is the authors', or follows from what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Extents {
    /// Blocks.
    pub layers: Option<u32>,
    /// Features of a token; those between the two layers of a block's network change with it.
    pub hidden: Option<u32>,
    /// Heads of attention; where only `hidden` is there, heads keep their width.
    pub heads: Option<u32>,
    /// Heads of keys and values, which divide the heads.
    pub kv_heads: Option<u32>,
    /// Rows of the table of words.
    pub vocab: Option<u32>,
}

impl Extents {
    fn are_the_authors(&self) -> bool {
        *self == Self::default()
    }
}

/// Low-rank adaptation (Hu et al. 2022): parameters stay as they are, and beside some linear layers two
/// thin ones are trained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// Features between the two.
    pub rank: u32,
    /// The layers: `q`, `k`, `v`, `out`, `up`, `gate`, `down`.
    pub targets: Vec<String>,
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
            tf32: Tf32::default(),
            optimizer: None,
            in_place: true,
            pool_indices: true,
            fused_attention: true,
            progress: 0.0,
            accumulate: 1,
            master_weights: true,
            update_in_backward: false,
            training_batch_norm: false,
            extents: Extents::default(),
            lora: None,
            ranks: 1,
            shard: None,
        }
    }
}

/// What each of several ranks has only its share of (Rajbhandari et al. 2020, *ZeRO: Memory Optimizations
/// Toward Training Trillion Parameter Models*, section 5): each stage adds to the one before.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Shard {
    /// The optimizer's state.
    Zero1,
    /// And the gradients.
    Zero2,
    /// And the parameters.
    Zero3,
}

impl Shard {
    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What of 32 bits may run on matrix units that take it as TF32: with a mantissa of 10 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Tf32 {
    /// Nothing.
    None,
    /// Convolutions, as PyTorch has it since 1.12 where nobody chooses
    /// (`torch.backends.cudnn.allow_tf32`, and not `torch.backends.cuda.matmul.allow_tf32`).
    #[default]
    Convolutions,
    /// Convolutions and matrix products.
    All,
}

impl Tf32 {
    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn is_pytorchs(&self) -> bool {
        *self == Self::default()
    }
}

/// The framework whose ops an iteration consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Framework {
    /// PyTorch's autograd.
    #[default]
    Pytorch,
    /// Caffe.
    Caffe,
    /// Chainer.
    Chainer,
    /// The runtime that comes with tidegate.
    Tidegate,
}

/// Functions applied to each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Activation {
    /// max(0, x): half or more of the output is zero.
    Relu,
    /// x where positive, a hundredth of x elsewhere: nothing becomes zero.
    LeakyRelu,
    /// x where positive, e^x - 1 elsewhere (Clevert, Unterthiner and Hochreiter 2016): nothing
    /// becomes zero.
    Elu,
    /// ReLU that stops at 6.
    Relu6,
    /// Gaussian error linear unit, in the form with a hyperbolic tangent (Hendrycks and Gimpel
    /// 2016, section 2).
    Gelu,
    /// x · sigmoid(x), also called swish.
    Silu,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// All of them.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the derivative is told from the output alone, so that the input need not be kept
    /// and the output may take its place.
    pub fn backward_reads_output(self) -> bool {
        !matches!(self, Self::Gelu | Self::Silu)
    }

    /// Whether it makes zeros.
    pub fn makes_zeros(self) -> bool {
        matches!(self, Self::Relu | Self::Relu6)
    }
}

/// What updates parameters, and what it keeps for each, in 32-bit floats where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Optimizer {
    /// The iteration ends with the gradients: no update, no state.
    None,
    /// Stochastic gradient descent without momentum.
    Sgd,
    /// With momentum: one figure a parameter.
    Momentum,
    /// Adam: two figures a parameter.
    // Decay that is apart from the gradient keeps nothing more.
    #[strum(to_string = "adam", serialize = "adamw")]
    Adam,
    /// Adam whose two figures have 8 bits, and share one of 32 in blocks of 256 (Dettmers et al. 2022, *8-bit
    /// Optimizers via Block-wise Quantization*).
    #[serde(rename = "adam-8bit")]
    #[strum(
        to_string = "adam-8bit",
        serialize = "adamw-8bit",
        serialize = "adam8bit",
        serialize = "adamw8bit"
    )]
    Adam8bit,
}

impl Optimizer {
    /// Figures per parameter.
    pub fn moments(self) -> u64 {
        match self {
            Self::None | Self::Sgd => 0,
            Self::Momentum => 1,
            Self::Adam | Self::Adam8bit => 2,
        }
    }

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    fn are_in_documents<T: DeserializeOwned + Into<&'static str>>(names: &str) {
        for name in names.split(' ') {
            let value: T = serde_json::from_value(name.into()).expect(name);
            assert_eq!(value.into(), name);
        }
    }

    #[test]
    fn names_are_those_of_documents() {
        are_in_documents::<Shard>("zero1 zero2 zero3");
        are_in_documents::<Tf32>("none convolutions all");
        are_in_documents::<Activation>("relu leaky-relu elu relu6 gelu silu sigmoid tanh");
        are_in_documents::<Optimizer>("none sgd momentum adam adam-8bit");
        are_in_documents::<Dtype>(
            "f32 f16 bf16 f64 i64 i32 u8 bool i16 i8 f8_e4m3 f8_e5m2 complex64",
        );
    }
}
