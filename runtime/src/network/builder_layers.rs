//! The layers that a network may have.

use schema::{Dtype, Phase, Role, TensorId};

use super::initial::Initial;
use super::{Builder, Op, Step, Value};
use crate::layers::{
    Activation, AveragePool, BatchNorm, Broadcast, Convolution, Dropout, Linear, MaxPool, Movement,
    RowNorm, Shape, ShapeError, Upsample, Window,
};

impl Builder {
    /// A convolution, with a bias or without.
    pub fn convolution(
        &mut self,
        name: &str,
        x: &Value,
        channels: usize,
        (window, groups): (Window, usize),
        bias: bool,
    ) -> Result<Value, ShapeError> {
        let conv = Convolution::new(Shape::from_extents(&x.shape)?, channels, window, groups)?;
        let w = self.parameter(name, "weight", conv.weights(), Initial::weights(conv.rows()));
        let mut reads = vec![x.tensor, w];
        if bias {
            reads.push(self.parameter(name, "bias", channels, Initial::Constant(0.0)));
        }
        let shape = spatial(&x.shape, conv.output());
        Ok(self.layer(name, Step::Convolution(conv), &reads, &shape))
    }

    /// Batch normalisation, and the op that keeps its running statistics.
    pub fn batch_norm(&mut self, name: &str, x: &Value) -> Result<Value, ShapeError> {
        let shape = Shape::from_extents(&x.shape)?;
        let norm = BatchNorm::new(shape);
        let gamma = self.parameter(name, "weight", shape.c, Initial::Constant(1.0));
        let beta = self.parameter(name, "bias", shape.c, Initial::Constant(0.0));
        let y = self.layer(name, Step::BatchNorm(norm), &[x.tensor, gamma, beta], &x.shape);
        let saved = self.also_writes("saved", norm.saved_floats(), Dtype::F32);
        let updates = [("running_mean", 0.0), ("running_variance", 1.0)].map(|(what, value)| {
            let (name, initial) = (format!("{name}.{what}"), Initial::Constant(value));
            self.constant(&name, shape.c, Role::OptimizerState, initial)
        });
        let (step, name) = (Step::RunningStatistics(norm), format!("{name}.running"));
        let op = Op::new(name, step, Phase::Forward, vec![saved]);
        self.op(Op { updates: updates.to_vec(), ..op });
        Ok(y)
    }

    /// Layer normalisation, where `centred`, or RMS normalisation of the last dimension.
    pub fn row_norm(&mut self, name: &str, x: &Value, centred: bool) -> Value {
        let width = x.width();
        let norm = RowNorm { rows: x.elements() / width, width, centred };
        let mut reads = vec![x.tensor];
        reads.push(self.parameter(name, "weight", width, Initial::Constant(1.0)));
        if centred {
            reads.push(self.parameter(name, "bias", width, Initial::Constant(0.0)));
        }
        let y = self.layer(name, Step::RowNorm(norm), &reads, &x.shape);
        self.also_writes("saved", norm.saved_floats(), Dtype::F32);
        y
    }

    /// A function of each element.
    pub fn activation(&mut self, name: &str, x: &Value, activation: Activation) -> Value {
        self.same(name, x, Step::Activation(activation, x.elements()))
    }

    /// Maximum pooling.
    pub fn max_pool(&mut self, name: &str, x: &Value, window: Window) -> Result<Value, ShapeError> {
        let pool = MaxPool::new(Shape::from_extents(&x.shape)?, window)?;
        let shape = spatial(&x.shape, pool.output());
        let y = self.layer(name, Step::MaxPool(pool), &[x.tensor], &shape);
        self.also_writes("positions", pool.output().elements(), Dtype::I32);
        Ok(y)
    }

    /// Average pooling over a window that slides.
    pub fn average_pool(
        &mut self,
        name: &str,
        x: &Value,
        window: Window,
    ) -> Result<Value, ShapeError> {
        let pool = AveragePool::new(Shape::from_extents(&x.shape)?, window)?;
        Ok(self.averages(name, x, pool))
    }

    /// Average pooling to `extents` in space: as many as the input has, or one for all.
    pub fn adaptive_pool(
        &mut self,
        name: &str,
        x: &Value,
        extents: &[usize],
    ) -> Result<Value, ShapeError> {
        let to = Shape::from_extents(&with_space(&x.shape, extents)?)?;
        let pool = AveragePool::adaptive(Shape::from_extents(&x.shape)?, to.space)?;
        Ok(self.averages(name, x, pool))
    }

    fn averages(&mut self, name: &str, x: &Value, pool: AveragePool) -> Value {
        let shape = spatial(&x.shape, pool.output());
        self.layer(name, Step::AveragePool(pool), &[x.tensor], &shape)
    }

    /// Linear up-sampling to `extents` in space.
    pub fn upsample(
        &mut self,
        name: &str,
        x: &Value,
        extents: &[usize],
    ) -> Result<Value, ShapeError> {
        let shape = with_space(&x.shape, extents)?;
        let to = Shape::from_extents(&shape)?;
        let upsample = Upsample::new(Shape::from_extents(&x.shape)?, to.space)?;
        Ok(self.layer(name, Step::Upsample(upsample), &[x.tensor], &shape))
    }

    /// A linear layer of the last dimension, with a bias or without.
    pub fn linear(
        &mut self,
        name: &str,
        x: &Value,
        outputs: usize,
        bias: bool,
    ) -> Result<Value, ShapeError> {
        let fan_in = x.width();
        let weights = fan_in * outputs;
        let weight = self.parameter(name, "weight", weights, Initial::small_weights(fan_in));
        self.tied_linear(name, x, weight, bias)
    }

    /// A linear layer of the last dimension with the weights of another layer, such as the table
    /// of an embedding.
    pub fn tied_linear(
        &mut self,
        name: &str,
        x: &Value,
        weight: TensorId,
        bias: bool,
    ) -> Result<Value, ShapeError> {
        let inputs = x.width();
        let weights = self.tensors[weight.index()].elements;
        if x.elements() == 0 || weights == 0 || !weights.is_multiple_of(inputs) {
            return Err(ShapeError::Mismatch { left: x.shape.clone(), right: vec![weights] });
        }
        let (rows, outputs) = (x.elements() / inputs, weights / inputs);
        let linear = Linear { rows, inputs, outputs };
        let mut reads = vec![x.tensor, weight];
        if bias {
            reads.push(self.parameter(name, "bias", outputs, Initial::Constant(0.0)));
        }
        let mut shape = x.shape.clone();
        shape.pop();
        shape.push(outputs);
        Ok(self.layer(name, Step::Linear(linear), &reads, &shape))
    }

    /// Softmax of the last dimension.
    pub fn softmax(&mut self, name: &str, x: &Value) -> Value {
        let (width, elements) = (x.width(), x.elements());
        self.same(name, x, Step::Softmax { width, elements })
    }

    /// The sum of two outputs; the second may have an extent of 1 where the first has more.
    pub fn add(&mut self, name: &str, a: &Value, b: &Value) -> Result<Value, ShapeError> {
        let broadcast = Broadcast::new(&a.shape, &b.shape)?;
        let step = match a.shape == b.shape {
            true => Step::Add { elements: a.elements() },
            false => Step::AddBroadcast(broadcast),
        };
        let reads = self.distinct(name, &[a, b]);
        Ok(self.layer(name, step, &reads, &a.shape))
    }

    /// The product, element by element, of two outputs; the second may have an extent of 1 where
    /// the first has more.
    pub fn multiply(&mut self, name: &str, a: &Value, b: &Value) -> Result<Value, ShapeError> {
        let step = Step::Multiply(Broadcast::new(&a.shape, &b.shape)?);
        let reads = self.distinct(name, &[a, b]);
        Ok(self.layer(name, step, &reads, &a.shape))
    }

    /// The inputs one after another along a dimension.
    pub fn concat(
        &mut self,
        name: &str,
        inputs: &[&Value],
        axis: usize,
    ) -> Result<Value, ShapeError> {
        let first = inputs.first().map(|input| &input.shape[..]).unwrap_or_default();
        if axis >= first.len() {
            return Err(ShapeError::Rank { rank: first.len() });
        }
        let mut shape = first.to_vec();
        for other in inputs.iter().skip(1).map(|input| &input.shape) {
            let agree = |(i, (a, b)): (usize, (&usize, &usize))| i == axis || a == b;
            let agrees = first.iter().zip(other).enumerate().all(agree);
            if !agrees || other.len() != first.len() {
                return Err(ShapeError::Mismatch { left: first.to_vec(), right: other.clone() });
            }
            shape[axis] += other[axis];
        }
        let outer = shape[..axis].iter().product();
        let step = Step::Concat { outer, elements: shape.iter().product() };
        let reads = self.distinct(name, inputs);
        Ok(self.layer(name, step, &reads, &shape))
    }

    /// Dropout of so many elements in a hundred.
    pub fn dropout(&mut self, name: &str, x: &Value, percent: u8) -> Value {
        let seed = self.seed();
        let dropout = Dropout { percent, layer: self.dropouts };
        self.dropouts += 1;
        self.layer(name, Step::Dropout(dropout, x.elements()), &[x.tensor, seed], &x.shape)
    }

    /// A copy in another order: the input's dimension `order[i]` becomes the output's `i`.
    pub fn reorder(&mut self, name: &str, x: &Value, order: &[usize]) -> Result<Value, ShapeError> {
        let movement = Movement::reorder(&x.shape, order)?;
        let shape: Vec<usize> = order.iter().map(|axis| x.shape[*axis]).collect();
        Ok(self.layer(name, Step::Movement(movement), &[x.tensor], &shape))
    }

    /// A copy of the first of the second dimension, which goes.
    pub fn first(&mut self, name: &str, x: &Value) -> Result<Value, ShapeError> {
        let movement = Movement::first(&x.shape)?;
        let mut shape = x.shape.clone();
        shape.remove(1);
        Ok(self.layer(name, Step::Movement(movement), &[x.tensor], &shape))
    }

    /// A copy of every so many positions, with channels of zeros; see [`Movement::subsample`].
    pub fn subsample(
        &mut self,
        name: &str,
        x: &Value,
        shape: &[usize],
    ) -> Result<Value, ShapeError> {
        let movement = Movement::subsample(&x.shape, shape)?;
        Ok(self.layer(name, Step::Movement(movement), &[x.tensor], shape))
    }

    /// A layer whose output is shaped as its input.
    pub(super) fn same(&mut self, name: &str, x: &Value, step: Step) -> Value {
        self.layer(name, step, &[x.tensor], &x.shape)
    }

    /// The inputs' tensors, with a copy of each that was there before: an op reads no tensor
    /// twice.
    pub(super) fn distinct(&mut self, name: &str, inputs: &[&Value]) -> Vec<TensorId> {
        let mut tensors = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            let mut tensor = input.tensor;
            if tensors.contains(&tensor) {
                let count = input.elements();
                let copy = Movement::copy(count);
                let name = format!("{name}.copy{index}");
                tensor = self.layer(&name, Step::Movement(copy), &[tensor], &[count]).tensor;
            }
            tensors.push(tensor);
        }
        tensors
    }
}

/// The extents of `to`, with as many dimensions as `from`.
fn spatial(from: &[usize], to: Shape) -> Vec<usize> {
    let dimensions = from.len().saturating_sub(2);
    let space = &to.space[to.space.len() - dimensions..];
    [&[to.n, to.c], space].concat()
}

/// `shape` with other extents in space; a single one is for all.
fn with_space(shape: &[usize], extents: &[usize]) -> Result<Vec<usize>, ShapeError> {
    let rank = shape.len();
    let dimensions = rank.checked_sub(2).ok_or(ShapeError::Rank { rank })?;
    let space = match extents {
        [one] => vec![*one; dimensions],
        _ if extents.len() == dimensions => extents.to_vec(),
        _ => return Err(ShapeError::Mismatch { left: shape.to_vec(), right: extents.to_vec() }),
    };
    Ok([&shape[..2], &space].concat())
}
