//! What a layer computes, and the graph of layers that makes a network.

use schema::Dtype;

use super::options::{Activation, NetworkOptions, Optimizer};

/// What the names of layers contain that low-rank adaptation adds.
pub(crate) const LORA: &str = ".lora_";

/// A layer of the network that is being built, in the order of building.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerId(pub(crate) usize);

impl LayerId {
    /// The position among the network's layers.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Where a window slides: one figure per spatial dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Extents of the window.
    pub kernel: Vec<u64>,
    /// Steps.
    pub stride: Vec<u64>,
    /// Zeros at each of both ends.
    pub padding: Vec<u64>,
    /// From one element of the window to the next.
    pub dilation: Vec<u64>,
    /// Whether a last window that reaches beyond the end counts.
    pub ceil: bool,
}

impl Window {
    /// The same figures in each of two dimensions.
    pub fn square(kernel: u64, stride: u64, padding: u64) -> Self {
        Self::cube(2, kernel, stride, padding)
    }

    /// The same figures in each of some dimensions.
    pub fn cube(dimensions: usize, kernel: u64, stride: u64, padding: u64) -> Self {
        Self {
            kernel: vec![kernel; dimensions],
            stride: vec![stride; dimensions],
            padding: vec![padding; dimensions],
            dilation: vec![1; dimensions],
            ceil: false,
        }
    }

    pub(crate) fn volume(&self) -> u64 {
        self.kernel.iter().fold(1, |volume, extent| volume.saturating_mul(*extent))
    }
}

/// What a layer computes.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variants name the fields")]
pub enum Compute {
    /// Nothing: samples, or tokens, that the iteration is given.
    Input,
    /// Nothing: a parameter that is read as an activation is.
    Parameter,
    /// A convolution of as many dimensions as the window.
    Convolution { window: Window, groups: u64 },
    /// A transposed convolution: what the gradient of the input of such a convolution is.
    Deconvolution { window: Window, groups: u64 },
    /// Of the last dimension with a weight matrix.
    Linear,
    /// Of two activations, with sums of `inner` terms.
    MatrixProduct { inner: u64, product: Product },
    /// Of each channel over the batch.
    BatchNorm,
    /// Layer and RMS normalisation: of the last dimension.
    RowNorm,
    /// A function of each element.
    Activation(Activation),
    /// The maximum under a window.
    MaxPool(Window),
    /// The mean under a window.
    AveragePool(Window),
    /// Average over windows that leave the size asked for.
    AdaptivePool,
    /// Of so many elements in a hundred.
    Dropout { percent: u8 },
    /// The sum of two inputs; the second may have an extent of 1 where the first has more.
    Add,
    /// The product of two inputs, element by element, as [`Compute::Add`].
    Multiply,
    /// The inputs one after another along the one dimension in which the output has more.
    Concat,
    /// Of the last dimension.
    Softmax,
    /// Fused attention: queries of so many heads of so many features, and so many keys of a sample,
    /// of which no query sees a later one where it is causal.
    Attention { heads: u64, width: u64, keys: u64, causal: bool },
    /// The rows of a table for the tokens of the input.
    Embedding,
    /// The same elements in another shape.
    View,
    /// Copies to another order, or of a part.
    Movement(Movement),
    /// Bilinear.
    Upsample,
    /// Of one input with what no gradient depends on. Its backward reads nothing but the gradient.
    Fixed(Fixed),
    /// Of logits and labels; it yields the gradient of the logits.
    Loss,
    /// What is known by the memory that it takes alone, and has no kernel.
    Other(Other),
}

/// An op that is known by what it moves and what its backward reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    /// What it is like.
    pub like: Like,
    /// What its backward reads beside the gradient.
    pub saves: Saves,
    /// The type of its output where that is no number of the network's: nothing has a gradient then.
    pub dtype: Option<Dtype>,
}

/// What an [`Other`] is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Like {
    /// A function of each element of its inputs, which repeat where they have fewer.
    Elementwise,
    /// A sum, mean or maximum over some dimensions.
    Reduction,
    /// A normalisation over any dimensions.
    Normalisation,
    /// Softmax over any dimension.
    Softmax,
    /// A copy of some elements of its first input, in any order.
    Copy,
    /// A view in another order, whose gradient is one too.
    View,
    /// A view of a part of its input, or of the input repeated.
    Part,
}

/// What the backward of an [`Other`] reads beside the gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saves {
    /// Nothing.
    Nothing,
    /// All of its inputs.
    Inputs,
    /// The first of its inputs: a condition.
    First,
    /// The last of its inputs: which elements are copied.
    Last,
    /// Its output.
    Output,
}

/// Which products of two activations there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants name the fields")]
pub enum Product {
    /// `(..., rows, inner)` with `(..., inner, columns)`.
    Plain,
    /// Attention's scores of queries and keys, both `(batch, length, features)`, as
    /// [`Compute::Attention`].
    Scores { heads: u64, causal: bool },
    /// Attention's weights `(batch, heads, queries, keys)` with values
    /// `(batch, keys, features)` of heads of `width` features.
    Mix { width: u64 },
}

/// Which elements a movement copies where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Movement {
    /// All of them: the input's dimension `order[i]` becomes the `i`th, and then the elements are
    /// viewed in the output's shape.
    Reorder(Vec<usize>),
    /// The first of the second dimension, such as a class token.
    First,
    /// Every so many positions in space, with channels of zeros on both sides.
    Subsample,
    /// All of them, in their order.
    Copy,
}

/// What stands beside the input of a layer without gradients of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants name the fields")]
pub enum Fixed {
    /// Rotary positions of heads of `width` features.
    Rotary { width: u64 },
    /// A scale.
    Scale,
    /// A trained sum: a bias, positions.
    Sum,
}

/// One layer.
#[derive(Debug, Clone)]
pub struct Layer {
    /// For people and errors.
    pub name: String,
    /// What it computes.
    pub compute: Compute,
    /// The layers whose outputs it reads, all before it.
    pub inputs: Vec<LayerId>,
    /// Of the output, batch first.
    pub shape: Vec<u64>,
    /// Positions in [`Network::parameters`]: weights, then what is added in the end, each where
    /// the layer has it. Tied layers share them.
    pub parameters: Vec<usize>,
}

impl Layer {
    /// Whether the layer is a loss of each element against 0 or 1, as images of one channel have
    /// it, and not of classes.
    pub fn is_binary(&self) -> bool {
        self.compute == Compute::Loss && self.shape.len() > 3 && self.shape[1] == 1
    }
}

/// A trainable tensor.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// The layer's name and the part's.
    pub name: String,
    /// Number of elements.
    pub elements: u64,
}

/// A network for one batch and one choice of options: layers whose shapes agree.
#[derive(Debug, Clone)]
pub struct Network {
    pub(crate) name: String,
    pub(crate) batch: u32,
    pub(crate) dtype: Dtype,
    pub(crate) optimizer: Optimizer,
    pub(crate) options: NetworkOptions,
    pub(crate) layers: Vec<Layer>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) notes: Vec<String>,
    pub(crate) writes_gelu_out: bool,
}

impl Network {
    /// Whether its model writes GELU out, as Hugging Face's GPT-2 does: `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715
    /// x^3)))`, eight kernels, of whose results the hyperbolic tangent, its sum and half of `x` are kept.
    pub fn writes_gelu_out(&self) -> bool {
        self.writes_gelu_out
    }

    /// Its name, as on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Samples that go through it at once: the batch, or of one pass where it goes in several.
    pub fn batch(&self) -> u32 {
        self.batch
    }

    /// What activations, parameters and gradients are stored as.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// What the optimizer keeps.
    pub fn optimizer(&self) -> Optimizer {
        self.optimizer
    }

    /// The layers in the order of execution, the loss last; a [`LayerId`] is a position in this
    /// list.
    pub fn graph(&self) -> &[Layer] {
        &self.layers
    }

    /// The trainable tensors.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// All figures of parameters.
    pub fn parameter_count(&self) -> u64 {
        self.parameters.iter().map(|parameter| parameter.elements).sum()
    }

    /// Those that are trained: all but what low-rank adaptation leaves as it is.
    pub fn trained_count(&self) -> u64 {
        let trained = (0..self.parameters.len()).filter(|parameter| !self.is_frozen(*parameter));
        trained.map(|parameter| self.parameters[parameter].elements).sum()
    }

    /// What had to be decided where it was imported, in sentences for a person.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What was chosen about it.
    pub fn options(&self) -> &NetworkOptions {
        &self.options
    }

    pub(crate) fn is_frozen(&self, parameter: usize) -> bool {
        self.options.lora.is_some() && !self.parameters[parameter].name.contains(LORA)
    }

    /// Name and output shape (batch first) of each layer, in the order of execution.
    pub fn layers(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.layers.iter().map(|layer| (layer.name.as_str(), layer.shape.as_slice()))
    }
}

pub(crate) fn elements(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |product, extent| product.saturating_mul(*extent))
}
