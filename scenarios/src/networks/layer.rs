//! What a layer computes, and the graph of layers that makes a network.

use schema::Dtype;

use super::options::{Activation, NetworkOptions, Optimizer};

/// A layer of the network that is being built, in the order of building.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerId(pub(crate) usize);

/// Where a window slides: one figure per spatial dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Extents of the window.
    pub kernel: Vec<u64>,
    /// Steps.
    pub stride: Vec<u64>,
    /// Zeros at each of both ends.
    pub padding: Vec<u64>,
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
            ceil: false,
        }
    }

    pub(crate) fn volume(&self) -> u64 {
        self.kernel.iter().fold(1, |volume, extent| volume.saturating_mul(*extent))
    }
}

/// What a layer computes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Compute {
    /// Samples, or tokens.
    Input,
    Convolution {
        window: Window,
        groups: u64,
    },
    /// Of the last dimension with a weight matrix.
    Linear,
    /// Of two activations, over `inner`.
    MatrixProduct {
        inner: u64,
    },
    BatchNorm,
    /// Layer and RMS normalisation: of the last dimension.
    RowNorm,
    Activation(Activation),
    MaxPool(Window),
    AveragePool(Window),
    /// Average over windows that leave the size asked for.
    AdaptivePool,
    /// Of so many elements in a hundred.
    Dropout {
        percent: u8,
    },
    Add,
    Multiply,
    Concat,
    Softmax,
    /// Fused attention of queries, keys and values.
    Attention {
        heads: u64,
        width: u64,
        keys: u64,
        causal: bool,
    },
    Embedding,
    View,
    /// Copies to another order, or of a part.
    Movement,
    /// Bilinear.
    Upsample,
    /// Of one input with what no gradient depends on: rotary positions, a scale, a bias. Its
    /// backward reads nothing but the gradient.
    Fixed,
    /// Of logits and labels; it yields the gradient of the logits.
    Loss,
}

/// One layer.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub name: String,
    pub compute: Compute,
    pub inputs: Vec<LayerId>,
    /// Of the output, batch first.
    pub shape: Vec<u64>,
    /// Indices in [`Network::parameters`].
    pub parameters: Vec<usize>,
}

/// A trainable tensor.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub name: String,
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
}

impl Network {
    /// Its name, as on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Trainable figures.
    pub fn parameter_count(&self) -> u64 {
        self.parameters.iter().map(|parameter| parameter.elements).sum()
    }

    /// Name and output shape (batch first) of each layer, in the order of execution.
    pub fn layers(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.layers.iter().map(|layer| (layer.name.as_str(), layer.shape.as_slice()))
    }
}

pub(crate) fn elements(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |product, extent| product.saturating_mul(*extent))
}
