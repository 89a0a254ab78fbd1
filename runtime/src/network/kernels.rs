//! The kernel of each op of a network's tape.

use networks::layer::{Compute, Fixed, Layer, Movement as Moved, Product as Described};
use networks::{Lowered, Op, Part, Tensor};
use schema::Bytes;

use super::{NotTrainable, Step};
use crate::layers::{
    Attention, AveragePool, BatchNorm, Broadcast, Convolution, Dropout, Embedding, Linear, MaxPool,
    Movement, Optimizer, Product, Rotary, RowNorm, SPACE, Shape, ShapeError, SigmoidCrossEntropy,
    SoftmaxCrossEntropy, Upsample, Window,
};

const CELL: u64 = 4;

pub(super) struct Kernels<'a> {
    pub network: &'a networks::Network,
    pub optimizer: Option<Optimizer>,
}

/// Why a layer has no kernel.
enum Why {
    Shape(ShapeError),
    Unknown(&'static str),
}

impl From<ShapeError> for Why {
    fn from(error: ShapeError) -> Self {
        Self::Shape(error)
    }
}

pub(super) fn with_kernels(
    lowered: Lowered<'_>,
    optimizer: Option<Optimizer>,
) -> Result<networks::Tape<Step>, NotTrainable> {
    let Lowered { network, tape } = lowered;
    let kernels = Kernels { network: &network, optimizer };
    tape.try_map(|op, tensors| {
        let step = kernels.step(op, tensors).map_err(|why| {
            let (network, layer) =
                (network.name().to_string(), network.graph()[op.step.layer].name.clone());
            match why {
                Why::Shape(source) => NotTrainable::Shape { network, layer, source },
                Why::Unknown(why) => NotTrainable::Layer { network, layer, why },
            }
        })?;
        Ok((step, Bytes(CELL * step.workspace_floats() as u64)))
    })
}

impl Kernels<'_> {
    fn step(&self, op: &Op<networks::Step>, tensors: &[Tensor]) -> Result<Step, Why> {
        let elements =
            |ids: &[schema::TensorId]| ids.first().map_or(0, |id| tensors[id.index()].elements);
        match (op.step.part, self.optimizer) {
            (Part::Sum, _) => Ok(Step::Add { elements: elements(&op.writes) }),
            (Part::Copy, _) => Ok(Step::Movement(Movement::copy(elements(&op.writes)))),
            (Part::Update, Some(optimizer)) => {
                Ok(Step::Update { optimizer, elements: elements(&op.reads) })
            }
            (part, _) => {
                let forward = self.forward(op.step.layer)?;
                let missing = "there is no kernel for one of its gradients";
                forward.part(part).ok_or(Why::Unknown(missing))
            }
        }
    }

    fn input(&self, layer: &Layer, index: usize) -> Vec<usize> {
        let input = layer.inputs.get(index).map(|input| &self.network.graph()[input.index()]);
        input.map(|input| extents(&input.shape)).unwrap_or_default()
    }

    /// The kernel of a layer's own op.
    fn forward(&self, id: usize) -> Result<Step, Why> {
        let layer = &self.network.graph()[id];
        let (x, to) = (self.input(layer, 0), extents(&layer.shape));
        let elements: usize = to.iter().product();
        let last = |shape: &[usize]| shape.last().copied().unwrap_or(1).max(1);
        let from = || Shape::from_extents(&x);
        let step = match &layer.compute {
            Compute::Input | Compute::View => return Err(Why::Unknown("it is no op")),
            Compute::Parameter | Compute::Deconvolution { .. } | Compute::Other(_) => {
                return Err(Why::Unknown("it is planned with, but no kernel runs it here"));
            }
            Compute::Convolution { window, groups } => {
                let (channels, groups) = (to.get(1).copied().unwrap_or(1), *groups as usize);
                let window = cells(window)?;
                Step::Convolution(Convolution::new(from()?, channels, window, groups)?)
            }
            Compute::Linear => {
                let (inputs, outputs) = (last(&x), last(&to));
                Step::Linear(Linear { rows: elements / outputs, inputs, outputs })
            }
            Compute::MatrixProduct { product, .. } => {
                Step::Product(matrices(*product, &x, &self.input(layer, 1))?)
            }
            Compute::BatchNorm => Step::BatchNorm(BatchNorm::new(from()?)),
            Compute::RowNorm => {
                let (width, centred) = (last(&to), layer.parameters.len() == 2);
                Step::RowNorm(RowNorm { rows: elements / width, width, centred })
            }
            Compute::Activation(function) => Step::Activation(*function, elements),
            Compute::MaxPool(window) => {
                let window = cells(window)?;
                Step::MaxPool(MaxPool::new(from()?, window)?)
            }
            Compute::AveragePool(window) => {
                let window = cells(window)?;
                Step::AveragePool(AveragePool::new(from()?, window)?)
            }
            Compute::AdaptivePool => {
                let space = Shape::from_extents(&to)?.space;
                Step::AveragePool(AveragePool::adaptive(from()?, space)?)
            }
            Compute::Upsample => {
                Step::Upsample(Upsample::new(from()?, Shape::from_extents(&to)?.space)?)
            }
            Compute::Dropout { percent } => {
                let drops = |layer: &&Layer| matches!(layer.compute, Compute::Dropout { .. });
                let before = self.network.graph()[..id].iter().filter(drops).count();
                let dropout = Dropout { percent: *percent, layer: before as u32 };
                Step::Dropout(dropout, elements)
            }
            Compute::Add if x == self.input(layer, 1) => Step::Add { elements },
            Compute::Add => Step::AddBroadcast(Broadcast::new(&x, &self.input(layer, 1))?),
            Compute::Multiply => Step::Multiply(Broadcast::new(&x, &self.input(layer, 1))?),
            Compute::Concat => {
                let axis = x.iter().zip(&to).position(|(from, to)| from != to).unwrap_or(0);
                Step::Concat { outer: to[..axis].iter().product(), elements }
            }
            Compute::Softmax => Step::Softmax { width: last(&to), elements },
            Compute::Attention { heads, causal, .. } => {
                let (k, v, heads) = (self.input(layer, 1), self.input(layer, 2), *heads as usize);
                let sizes = Heads::of(&x, &k, heads)?;
                if k != v {
                    return Err(ShapeError::Mismatch { left: k, right: v }.into());
                }
                let Heads { batch, lengths, key_heads, width } = sizes;
                let attention = Attention::new(batch, lengths, [heads, key_heads], width, *causal)?;
                Step::Attention(attention)
            }
            Compute::Embedding => {
                let (width, table) = (last(&to), layer.parameters.first());
                let cells =
                    table.map_or(0, |table| self.network.parameters()[*table].elements as usize);
                Step::Embedding(Embedding { rows: cells / width, width })
            }
            Compute::Movement(movement) => Step::Movement(match movement {
                Moved::Reorder(order) => Movement::reorder(&x, order)?,
                Moved::First => Movement::first(&x)?,
                Moved::Subsample => Movement::subsample(&x, &to)?,
                Moved::Copy => Movement::copy(elements),
            }),
            Compute::Fixed(Fixed::Rotary { width }) => {
                let &[_, tokens, features] = &x[..] else {
                    return Err(ShapeError::Rank { rank: x.len() }.into());
                };
                Step::Rotary(Rotary::new(tokens, features, *width as usize)?, elements)
            }
            Compute::Fixed(Fixed::Scale | Fixed::Sum) => {
                return Err(Why::Unknown(
                    "the import keeps the size of constants, not their values: \
                     write the network as TOML",
                ));
            }
            Compute::Loss if id + 1 < self.network.graph().len() => {
                return Err(Why::Unknown("it is one loss of several"));
            }
            Compute::Loss if layer.is_binary() => Step::BinaryLoss(SigmoidCrossEntropy, elements),
            Compute::Loss => {
                let classes = last(&to);
                Step::Loss(SoftmaxCrossEntropy { classes }, elements / classes)
            }
        };
        let made = match step {
            Step::Convolution(convolution) => convolution.output().elements(),
            Step::MaxPool(pool) => pool.output().elements(),
            Step::AveragePool(pool) => pool.output().elements(),
            _ => elements,
        };
        match made == elements {
            true => Ok(step),
            false => Err(ShapeError::Mismatch { left: vec![made], right: to }.into()),
        }
    }
}

impl Step {
    /// The kernel of an op of the layer that has this one forward.
    fn part(self, part: Part) -> Option<Self> {
        Some(match (self, part) {
            (forward, Part::Forward) => forward,
            (Self::BatchNorm(norm), Part::Running) => Self::RunningStatistics(norm),
            (Self::Convolution(conv), Part::Weights) => Self::ConvolutionWeights(conv),
            (Self::Convolution(conv), Part::Input) => Self::ConvolutionInput(conv),
            (Self::Linear(linear), Part::Weights) => Self::LinearWeights(linear),
            (Self::Linear(linear), Part::Input) => Self::LinearInput(linear),
            (Self::Product(product), Part::Left) => Self::ProductLeft(product),
            (Self::Product(product), Part::Right) => Self::ProductRight(product),
            (Self::AddBroadcast(broadcast), Part::Right) => Self::SumRepeated(broadcast),
            (Self::Multiply(broadcast), Part::Left) => Self::Multiply(broadcast),
            (Self::Multiply(broadcast), Part::Right) => Self::MultiplyRight(broadcast),
            (Self::Embedding(table), Part::Table) => Self::EmbeddingBackward(table),
            (forward, Part::Whole) => match forward {
                Self::BatchNorm(norm) => Self::BatchNormBackward(norm),
                Self::RowNorm(norm) => Self::RowNormBackward(norm),
                Self::Activation(function, elements) => {
                    Self::ActivationBackward(function, elements)
                }
                Self::MaxPool(pool) => Self::MaxPoolBackward(pool),
                Self::AveragePool(pool) => Self::AveragePoolBackward(pool),
                Self::Dropout(..) => forward,
                Self::Concat { outer, elements } => Self::Split { outer, elements },
                Self::Softmax { width, elements } => Self::SoftmaxBackward { width, elements },
                Self::Attention(attention) => Self::AttentionBackward(attention),
                Self::Rotary(rotary, elements) => Self::RotaryBackward(rotary, elements),
                Self::Movement(movement) => Self::MovementBackward(movement),
                Self::Upsample(upsample) => Self::UpsampleBackward(upsample),
                Self::Loss(loss, rows) => Self::LossBackward(loss, rows),
                Self::BinaryLoss(loss, elements) => Self::BinaryLossBackward(loss, elements),
                _ => return None,
            },
            _ => return None,
        })
    }
}

fn extents(shape: &[u64]) -> Vec<usize> {
    shape.iter().map(|extent| *extent as usize).collect()
}

/// A window of up to three dimensions.
fn cells(window: &networks::Window) -> Result<Window, Why> {
    let Some(front) = SPACE.checked_sub(window.kernel.len()) else {
        return Err(Why::Unknown("its window has more than three dimensions"));
    };
    if window.dilation.iter().any(|step| *step != 1) {
        return Err(Why::Unknown("its window is dilated"));
    }
    let figures = |figures: &[u64], idle: usize| {
        let mut all = [idle; SPACE];
        all[front..].iter_mut().zip(figures).for_each(|(to, from)| *to = *from as usize);
        all
    };
    Ok(Window {
        kernel: figures(&window.kernel, 1),
        stride: figures(&window.stride, 1),
        padding: figures(&window.padding, 0),
        ceil: window.ceil,
    })
}

/// The product of two activations of these shapes.
fn matrices(product: Described, a: &[usize], b: &[usize]) -> Result<Product, ShapeError> {
    let mismatch = || ShapeError::Mismatch { left: a.to_vec(), right: b.to_vec() };
    match product {
        Described::Plain => {
            let [batch @ .., rows, inner] = a else { return Err(mismatch()) };
            let [other @ .., depth, columns] = b else { return Err(mismatch()) };
            if batch != other || inner != depth {
                return Err(mismatch());
            }
            Ok(Product::dense(batch.iter().product(), *rows, *inner, *columns))
        }
        Described::Scores { heads, causal } => {
            let heads = heads as usize;
            let Heads { batch, lengths, key_heads, width } = Heads::of(a, b, heads)?;
            Product::scores(batch, lengths, [heads, key_heads], width, causal)
        }
        Described::Mix { width } => {
            let (&[batch, heads, queries, keys], &[samples, length, features]) = (a, b) else {
                return Err(mismatch());
            };
            let width = width as usize;
            let divides = width > 0 && features.is_multiple_of(width);
            if batch != samples || keys != length || !divides {
                return Err(mismatch());
            }
            Product::mix(batch, [queries, keys], [heads, features / width], width)
        }
    }
}

/// What attention finds out from the shapes of its queries and keys, `(batch, length, features)`.
struct Heads {
    batch: usize,
    lengths: [usize; 2],
    key_heads: usize,
    width: usize,
}

impl Heads {
    fn of(q: &[usize], k: &[usize], heads: usize) -> Result<Self, ShapeError> {
        let mismatch = || ShapeError::Mismatch { left: q.to_vec(), right: k.to_vec() };
        let (&[batch, queries, features], &[samples, keys, key_features]) = (q, k) else {
            return Err(mismatch());
        };
        if heads == 0 || !features.is_multiple_of(heads) {
            return Err(ShapeError::Groups { channels: features, groups: heads });
        }
        let width = features / heads;
        if batch != samples || !key_features.is_multiple_of(width) {
            return Err(mismatch());
        }
        let key_heads = key_features / width;
        Ok(Self { batch, lengths: [queries, keys], key_heads, width })
    }
}
