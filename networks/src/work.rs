//! How much an op computes and moves.

use schema::{Compute as DeviceCompute, Dtype, OpKind};

use super::class::{Class, Pass};
use super::conventions::Conventions;
use super::layer::{self, Compute, Like, Network, Saves, elements};
use super::options::{Activation, Optimizer, Tf32};
use super::part::Part;

/// What an op has to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// What methods tell ops apart by.
    pub kind: OpKind,
    /// What its time is modelled by.
    pub class: Class,
    /// Floating-point operations, from the shapes alone.
    pub flops: u64,
    /// Bytes that its kernels read and write.
    pub bytes: u64,
    /// Of kernels that run after it and are part of the same op: the sum that is a bias's gradient.
    pub beside: u64,
    /// Of convolutions of 3x3 with a step of one: the operations of as many outputs as whole tiles of 4x4 have,
    /// which Winograd's way begins with.
    pub tiled_flops: u64,
    /// For products: their sizes.
    pub product: Option<ProductExtents>,
    /// Which units do the arithmetic.
    pub units: Units,
}

/// Which units of a device do arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Units {
    /// Those for 32-bit floats.
    #[default]
    Vectors,
    /// Matrix units that take 32-bit floats with the mantissa cut to 10 bits.
    Tf32,
    /// Matrix units for 16-bit floats.
    Half,
}

/// So many products of matrices of `rows` x `depth` and `depth` x `columns`. A convolution is one:
/// rows are samples and positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProductExtents {
    /// How many products of this size: the groups of a convolution, the heads of an attention.
    pub count: u64,
    /// Rows of the result.
    pub rows: u64,
    /// Columns of the result.
    pub columns: u64,
    /// Over how many terms each result is summed.
    pub depth: u64,
}

/// A multiplication and an addition.
const MULTIPLY_ADD: u64 = 2;

impl Work {
    pub(crate) fn new(kind: OpKind, class: Class, flops: u64, bytes: u64) -> Self {
        let (units, tiled_flops) = (Units::Vectors, 0);
        Self { kind, class, flops, bytes, beside: 0, tiled_flops, product: None, units }
    }

    /// The same of a convolution with outputs of this extent in space.
    pub(crate) fn in_tiles(mut self, space: &[u64]) -> Self {
        const SIDE: u64 = 4;
        if matches!(self.class, Class::Square(_)) {
            let share =
                |extent: &u64| extent.next_multiple_of(SIDE) as f64 / (*extent).max(1) as f64;
            self.tiled_flops =
                (self.flops as f64 * space.iter().map(share).product::<f64>()) as u64;
        }
        self
    }

    /// The same as a product of these sizes on these units.
    pub(crate) fn of_product(mut self, extents: ProductExtents, units: Units) -> Self {
        // Channels of their own are no products of matrices.
        if !matches!(self.class, Class::Depthwise(_) | Class::Grouped(_)) {
            (self.units, self.product) = (units, Some(extents));
        }
        self
    }

    /// The same as a device does it: on matrix units where it has those that are allowed, and then with their class.
    pub fn on(&self, device: &DeviceCompute) -> Self {
        let units = match self.units {
            Units::Tf32 if device.tf32_flops.is_none() => Units::Vectors,
            units => units,
        };
        let class = match (units, self.kind, self.class) {
            (Units::Half, _, Class::Matrix) => Class::Matrix16,
            (Units::Tf32, _, Class::Matrix) => Class::MatrixTf32,
            (Units::Half, OpKind::Convolution, _) => Class::Convolution16,
            (Units::Tf32, OpKind::Convolution, _) => Class::ConvolutionTf32,
            (_, _, class) => class,
        };
        // Half of the operands, read and written, go from one layout to the other and back (NCHW to NHWC, which
        // kernels for matrix units want), as the kernels' names of a recorded ResNet-50 say.
        let laid_out = self.kind == OpKind::Convolution
            && self.product.is_some()
            && units != Units::Vectors
            && has_matrix_units(device);
        let beside = if laid_out { self.beside.saturating_add(self.bytes) } else { self.beside };
        Self { units, class, beside, ..*self }
    }
}

/// Whether a device has matrix units: by how many times as fast 16 bits are.
pub(crate) fn has_matrix_units(device: &DeviceCompute) -> bool {
    device.tf32_flops.is_some() || device.f16_flops / 4 >= device.f32_flops
}

/// Sizes that the work of a layer follows from.
struct Sizes {
    output: u64,
    inputs: u64,
    parameters: u64,
    width: u64,
}

impl Sizes {
    fn of(network: &Network, id: usize) -> Self {
        let layer = &network.layers[id];
        let of_input = |id: &super::layer::LayerId| elements(&network.layers[id.0].shape);
        let parameters = layer.parameters.iter().map(|id| network.parameters[*id].elements);
        Self {
            output: elements(&layer.shape),
            inputs: layer.inputs.iter().map(of_input).fold(0, u64::saturating_add),
            parameters: parameters.fold(0, u64::saturating_add),
            width: network.dtype.bytes(),
        }
    }

    /// Bytes of `outputs` times the output and `inputs` times the inputs.
    fn bytes(&self, outputs: u64, inputs: u64) -> u64 {
        let moved = self.output.saturating_mul(outputs);
        moved.saturating_add(self.inputs.saturating_mul(inputs)).saturating_mul(self.width)
    }

    /// Bytes of the output, the inputs and the parameters.
    fn operands(&self) -> u64 {
        self.bytes(1, 1).saturating_add(self.parameters.saturating_mul(self.width))
    }
}

/// Terms that each output of a product is summed over.
pub(crate) fn depth(network: &Network, id: usize) -> u64 {
    let layer = &network.layers[id];
    let input = &network.layers[layer.inputs[0].0].shape;
    match &layer.compute {
        Compute::Convolution { window, groups } => {
            (input[1] / groups).saturating_mul(window.volume())
        }
        Compute::Deconvolution { groups, .. } => input[1] / groups,
        Compute::MatrixProduct { inner, .. } => *inner,
        _ => input.last().copied().unwrap_or(1),
    }
}

/// The sizes of a layer's product, or of the one that makes a gradient of it.
fn extents(network: &Network, id: usize, part: Part) -> ProductExtents {
    let layer = &network.layers[id];
    let shape = &layer.shape;
    let input = &network.layers[layer.inputs[0].0].shape;
    let depth = depth(network, id);
    if let Compute::Deconvolution { window, groups } = &layer.compute {
        let columns = (shape[1] / groups).saturating_mul(window.volume());
        let forward = ProductExtents {
            count: *groups,
            rows: elements(input) / input[1].max(1),
            columns,
            depth,
        };
        return match part {
            Part::Weights => ProductExtents { rows: depth, depth: forward.rows, ..forward },
            Part::Input => ProductExtents { columns: depth, depth: columns, ..forward },
            _ => forward,
        };
    }
    let (count, columns, back) = match &layer.compute {
        // The gradient of the input has as many rows as the input has positions.
        Compute::Convolution { window, groups } => {
            let columns = shape[1] / groups;
            let positions = elements(input) / input[1].max(1);
            let depth = columns.saturating_mul(window.volume());
            let input = ProductExtents {
                count: *groups,
                rows: positions,
                columns: input[1] / groups,
                depth,
            };
            (*groups, columns, Some(input))
        }
        Compute::MatrixProduct { product: of, .. } => {
            let columns = match of {
                layer::Product::Mix { width } => *width,
                _ => shape.last().copied().unwrap_or(1),
            };
            let rows = match of {
                layer::Product::Mix { .. } => shape[1],
                _ => shape[shape.len().saturating_sub(2)],
            };
            (elements(shape) / rows.saturating_mul(columns).max(1), columns, None)
        }
        _ => (1, shape.last().copied().unwrap_or(1), None),
    };
    let rows = elements(shape) / count.saturating_mul(columns).max(1);
    let forward = ProductExtents { count, rows, columns, depth };
    match part {
        Part::Weights | Part::Right => ProductExtents { rows: depth, depth: rows, ..forward },
        Part::Input | Part::Left => {
            back.unwrap_or(ProductExtents { columns: depth, depth: columns, ..forward })
        }
        _ => forward,
    }
}

/// Operations of a forward product.
fn product_flops(network: &Network, id: usize) -> u64 {
    let layer = &network.layers[id];
    let terms = match &layer.compute {
        Compute::Deconvolution { window, groups } => {
            let input = elements(&network.layers[layer.inputs[0].0].shape);
            input.saturating_mul((layer.shape[1] / groups).saturating_mul(window.volume()))
        }
        _ => elements(&layer.shape).saturating_mul(depth(network, id)),
    };
    terms.saturating_mul(MULTIPLY_ADD)
}

fn convolution_class(network: &Network, id: usize, pass: Pass) -> Class {
    let layer = &network.layers[id];
    match &layer.compute {
        Compute::Convolution { window, groups } | Compute::Deconvolution { window, groups } => {
            let per_group = network.layers[layer.inputs[0].0].shape[1] / groups;
            let square = window.kernel == [3, 3] && window.stride == [1, 1];
            Class::of_convolution(*groups, per_group, window.volume(), square, pass)
        }
        _ => Class::Matrix,
    }
}

fn adaptive_class(shape: &[u64], pass: Pass) -> Class {
    let is_mean = shape[2..].iter().all(|extent| *extent == 1);
    if is_mean { Class::GlobalPool(pass) } else { Class::AdaptivePool(pass) }
}

fn attention_flops(network: &Network, id: usize) -> u64 {
    let layer = &network.layers[id];
    let Compute::Attention { heads, width, keys, causal } = layer.compute else { return 0 };
    // Scores, and their product with the values; a causal mask leaves half of both.
    let products = if causal { 1 } else { 2 };
    let queries = elements(&layer.shape[..2]);
    [heads, width, keys, products * MULTIPLY_ADD].iter().fold(queries, |a, b| a.saturating_mul(*b))
}

/// What kind of op, and with which efficiency.
fn like(like: Like, pass: Pass) -> (OpKind, Class) {
    match like {
        Like::Elementwise | Like::Reduction => (OpKind::Elementwise, Class::Elementwise(pass)),
        Like::Normalisation => (OpKind::Normalisation, Class::RowNorm(pass)),
        Like::Softmax => (OpKind::Softmax, Class::Softmax(pass)),
        Like::Copy => (OpKind::Movement, Class::Movement),
        Like::View | Like::Part => (OpKind::View, Class::View),
    }
}

/// Operations per element, about what the functions cost in additions and multiplications.
fn activation_flops(activation: Activation) -> u64 {
    match activation {
        Activation::Relu | Activation::LeakyRelu | Activation::Relu6 => 1,
        Activation::Elu
        | Activation::Gelu
        | Activation::Silu
        | Activation::Sigmoid
        | Activation::Tanh => 8,
    }
}

/// What the ops of a network cost as some framework runs them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs<'a> {
    pub network: &'a Network,
    pub by: &'a Conventions,
}

impl Costs<'_> {
    /// Whether GELU is several kernels, which keep what they make.
    pub fn gelu_in_steps(&self) -> bool {
        self.by.module_activations && self.network.writes_gelu_out
    }

    fn units(&self, of: OpKind) -> Units {
        match (self.network.dtype, self.network.options.tf32) {
            // Kernels of attention take 32 bits as they are.
            (Dtype::F32, _) if !self.by.tf32 || of == OpKind::Attention => Units::Vectors,
            (Dtype::F32, Tf32::All) => Units::Tf32,
            (Dtype::F32, Tf32::Convolutions) if of == OpKind::Convolution => Units::Tf32,
            (Dtype::F32, _) => Units::Vectors,
            _ => Units::Half,
        }
    }

    /// The work of a layer's own op.
    pub fn forward(&self, id: usize) -> Work {
        let network = self.network;
        let layer = &network.layers[id];
        let index = self.by.index.bytes();
        let sizes = Sizes::of(network, id);
        let (output, bytes) = (sizes.output, sizes.operands());
        let pass = Pass::Forward;
        let per_output = |n: u64| output.saturating_mul(n);
        let work = |kind, class, flops, bytes| Work::new(kind, class, flops, bytes);
        match &layer.compute {
            Compute::Input | Compute::Parameter | Compute::View => {
                work(OpKind::View, Class::View, 0, 0)
            }
            Compute::Convolution { .. } | Compute::Deconvolution { .. } => {
                let class = convolution_class(network, id, pass);
                let flops = product_flops(network, id);
                let work = work(OpKind::Convolution, class, flops, bytes);
                let work =
                    if self.by.winograd_apart { work.in_tiles(&layer.shape[2..]) } else { work };
                let extents = extents(network, id, Part::Forward);
                work.of_product(extents, self.units(OpKind::Convolution))
            }
            Compute::Linear | Compute::MatrixProduct { .. } => {
                let flops = product_flops(network, id);
                let product = work(OpKind::MatrixProduct, Class::Matrix, flops, bytes);
                product.of_product(
                    extents(network, id, Part::Forward),
                    self.units(OpKind::MatrixProduct),
                )
            }
            // Statistics in a pass of their own.
            Compute::BatchNorm => work(
                OpKind::Normalisation,
                Class::batch_norm(sizes.width, pass),
                per_output(8),
                sizes.bytes(1, 2),
            ),
            Compute::RowNorm => {
                work(OpKind::Normalisation, Class::RowNorm(pass), per_output(8), bytes)
            }
            Compute::Activation(activation) => work(
                OpKind::Activation,
                Class::Elementwise(pass),
                per_output(activation_flops(*activation)),
                // Power, tangent and four kernels with a number take and make one each, a sum and a
                // product of two one more.
                if *activation == Activation::Gelu && self.gelu_in_steps() {
                    sizes.bytes(18, 0)
                } else {
                    bytes
                },
            ),
            Compute::MaxPool(window) => work(
                OpKind::Pooling,
                Class::MaxPool(pass),
                per_output(window.volume()),
                bytes.saturating_add(per_output(index)),
            ),
            Compute::AveragePool(window) => {
                work(OpKind::Pooling, Class::AveragePool(pass), per_output(window.volume()), bytes)
            }
            Compute::AdaptivePool => {
                work(OpKind::Pooling, adaptive_class(&layer.shape, pass), sizes.inputs, bytes)
            }
            Compute::Dropout { .. } => work(
                OpKind::Dropout,
                Class::Dropout(pass),
                per_output(2),
                bytes.saturating_add(self.mask(output)),
            ),
            Compute::Add | Compute::Multiply | Compute::Fixed(_) => {
                work(OpKind::Elementwise, Class::Elementwise(pass), output, bytes)
            }
            Compute::Other(other) => {
                let (kind, class) = like(other.like, pass);
                let bytes = match other.like {
                    Like::View | Like::Part if self.by.views => 0,
                    Like::View | Like::Part | Like::Copy => sizes.bytes(2, 0),
                    _ => bytes,
                };
                let each = match other.like {
                    Like::View | Like::Part | Like::Copy => 0,
                    Like::Reduction => sizes.inputs,
                    Like::Elementwise => output,
                    Like::Normalisation | Like::Softmax => per_output(8),
                };
                work(kind, class, each, bytes)
            }
            Compute::Softmax => work(OpKind::Softmax, Class::Softmax(pass), per_output(8), bytes),
            Compute::Attention { .. } => {
                let flops = attention_flops(network, id);
                Work {
                    units: self.units(OpKind::Attention),
                    ..work(OpKind::Attention, Class::Attention(pass), flops, bytes)
                }
            }
            // Of the table only the rows that are looked up.
            Compute::Embedding => {
                work(OpKind::Embedding, Class::Embedding(pass), 0, sizes.bytes(2, 0))
            }
            Compute::Concat | Compute::Movement(_) => {
                work(OpKind::Movement, Class::Movement, 0, sizes.bytes(2, 0))
            }
            Compute::Upsample => {
                work(OpKind::Movement, Class::Upsample(pass), per_output(7), bytes)
            }
            Compute::Loss if !self.by.fused_loss => {
                work(OpKind::Loss, Class::Loss, per_output(5), sizes.bytes(1, 1))
            }
            // Log-softmax out and in, and the gradient.
            Compute::Loss => work(OpKind::Loss, Class::Loss, per_output(10), sizes.bytes(4, 1)),
        }
    }

    /// The work of one of a layer's backward ops, which adds up `gradients` of the layer's output.
    pub fn backward(&self, id: usize, part: Part, gradients: usize) -> Work {
        let (network, by) = (self.network, self.by);
        let pass = match part {
            Part::Weights | Part::Table => Pass::Parameters,
            _ => Pass::Input,
        };
        let layer = &network.layers[id];
        let sizes = Sizes::of(network, id);
        let forward = self.forward(id);
        let mut work = Work { product: None, ..forward };
        // Gradients and values of the output, and of the inputs, that are read and written.
        let moved = |outputs, inputs| sizes.bytes(outputs, inputs);
        match &layer.compute {
            Compute::Convolution { .. }
            | Compute::Deconvolution { .. }
            | Compute::Linear
            | Compute::MatrixProduct { .. } => {
                let class = convolution_class(network, id, pass);
                // A bias's gradient is the sum of the output's over all rows.
                let bias = pass == Pass::Parameters && layer.parameters.len() > 1;
                let beside = if bias { moved(1, 0) } else { 0 };
                return Work { class, beside, ..work }
                    .of_product(extents(network, id, part), forward.units);
            }
            Compute::BatchNorm => {
                (work.class, work.bytes) = (Class::batch_norm(sizes.width, pass), moved(2, 3));
            }
            // Twice through both: for the input, and for the parameters.
            Compute::RowNorm => (work.class, work.bytes) = (Class::RowNorm(pass), moved(2, 3)),
            Compute::MaxPool(_) => {
                let indices = sizes.output.saturating_mul(by.index.bytes());
                let kept = by.keeps_positions(&network.options);
                work.class = if kept { Class::MaxPoolIndices } else { Class::MaxPool(pass) };
                let (inputs, indices) = if kept { (1, indices) } else { (3, 2 * indices) };
                work.bytes = moved(1, inputs).saturating_add(indices);
            }
            Compute::AveragePool(_) => work.class = Class::AveragePool(pass),
            Compute::AdaptivePool => work.class = adaptive_class(&layer.shape, pass),
            Compute::Upsample => work.class = Class::Upsample(pass),
            Compute::Attention { .. } => {
                // Five products for the forward's two.
                let flops = forward.flops.saturating_mul(5) / 2;
                let class = Class::Attention(pass);
                return Work { class, flops, bytes: moved(2, 2), ..work };
            }
            Compute::Embedding => {
                // The gradient of a table is as large as the table, and zero where nobody looked.
                work.class = Class::Embedding(Pass::Parameters);
                let table = sizes.parameters.saturating_mul(sizes.width);
                work.bytes = moved(2, 0).saturating_add(table);
            }
            Compute::View | Compute::Concat if by.views => {
                (work.kind, work.class, work.bytes) = (OpKind::View, Class::View, 0);
            }
            Compute::Loss => (work.flops, work.bytes) = (sizes.output, moved(1, 1)),
            // What was repeated is summed up.
            Compute::Add if !by.joint_gradients => work.bytes = moved(1, 0),
            // One input's gradient takes the place of the output's, the other is a copy or the same.
            Compute::Add if by.copies_sums => {
                (work.flops, work.bytes) = (0, sizes.output.saturating_mul(2 * sizes.width));
            }
            Compute::Add => {
                (work.class, work.flops, work.bytes) = (Class::View, 0, 0);
            }
            // Gradient times output comes first, as a kernel of its own.
            Compute::Softmax => {
                (work.class, work.bytes) = (Class::Softmax(pass), moved(4, 2));
            }
            Compute::Other(other) => {
                (work.kind, work.class) = like(other.like, pass);
                if other.like == Like::Part {
                    (work.kind, work.class) = (OpKind::Movement, Class::Movement);
                }
                work.bytes = match other.saves {
                    _ if other.like == Like::View && by.views => 0,
                    Saves::Nothing | Saves::First | Saves::Last => moved(1, 1),
                    Saves::Inputs => moved(1, 2),
                    Saves::Output => moved(2, 1),
                };
            }
            // A product for each input.
            Compute::Multiply => work.bytes = moved(2, 2),
            // Of the product 6, the tangent 3, the power 7, three kernels with a number 2 each, and two
            // sums of gradients 3 each.
            Compute::Activation(Activation::Gelu) if self.gelu_in_steps() => {
                work.bytes = moved(28, 0)
            }
            Compute::Activation(_) | Compute::Dropout { .. } => {
                // A byte an element, in the place of a saved input or output.
                let dropout = matches!(layer.compute, Compute::Dropout { .. });
                let (saved, mask) = if dropout { (0, self.mask(sizes.output)) } else { (1, 0) };
                work.bytes = moved(1 + saved, 1).saturating_add(mask);
                if dropout {
                    work.class = Class::Dropout(pass);
                }
            }
            _ => {}
        }
        if let Class::Elementwise(_) = work.class {
            work.class = Class::Elementwise(Pass::Input);
        }
        // A gradient beyond the first is added to it before.
        let extra = self.sum(sizes.output, gradients);
        work.flops = work.flops.saturating_add(extra.flops);
        work.bytes = work.bytes.saturating_add(extra.bytes);
        work
    }

    /// A sum of `terms` gradients, one at a time over the first.
    pub fn sum(&self, count: u64, terms: usize) -> Work {
        let additions = count.saturating_mul(terms.saturating_sub(1) as u64);
        let bytes = additions.saturating_mul(3 * self.network.dtype.bytes());
        let class = Class::Elementwise(Pass::Forward);
        Work::new(OpKind::Elementwise, class, additions, bytes)
    }

    /// A copy of a gradient.
    pub fn copy(&self, count: u64) -> Work {
        let bytes = count.saturating_mul(2 * self.network.dtype.bytes());
        Work::new(OpKind::Movement, Class::Movement, 0, bytes)
    }

    /// What keeps the running statistics of a layer, for each channel: both statistics of the
    /// batch in, those of all in and out.
    pub fn running(&self, id: usize) -> Work {
        let channels = self.network.layers[id].shape[1];
        let (class, bytes) = (Class::Elementwise(Pass::Forward), channels.saturating_mul(6 * 4));
        Work::new(OpKind::Normalisation, class, channels.saturating_mul(9), bytes)
    }

    /// The optimizer's step: gradient in, parameter and state in and out.
    pub fn update(&self, count: u64) -> Work {
        let network = self.network;
        let width = if self.by.uniform { network.dtype.bytes() } else { 4 };
        let narrow = width < 4;
        let master = if narrow && network.options.master_weights { 4 } else { 0 };
        let moment = match network.optimizer {
            Optimizer::Adam8bit => 1,
            _ if narrow && master == 0 => 2,
            _ => 4,
        };
        let state = moment * network.optimizer.moments() + master;
        let flops = match network.optimizer {
            Optimizer::None => 0,
            Optimizer::Sgd => 2,
            Optimizer::Momentum => 4,
            Optimizer::Adam | Optimizer::Adam8bit => 12,
        };
        let bytes = count.saturating_mul(3 * width + 2 * state);
        Work::new(OpKind::Optimizer, Class::Optimizer, count.saturating_mul(flops), bytes)
    }

    /// Bytes of a mask, a byte an element, where there is one.
    fn mask(&self, elements: u64) -> u64 {
        if self.by.masks { elements } else { 0 }
    }
}
