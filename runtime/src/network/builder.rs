//! Writing down a forward pass.

use schema::{Dtype, Phase, Role, TensorId};

use super::initial::Initial;
use super::{Network, Op, Step, Tensor, lifetime};
use crate::layers::{
    BatchNorm, Convolution, GlobalAveragePool, Linear, MaxPool, Sgd, Shape4, ShapeError,
    SoftmaxCrossEntropy, Window,
};

/// Collects the ops of a network. Each method adds one layer and returns its output.
#[derive(Debug)]
pub(super) struct Builder {
    name: String,
    batch: usize,
    pub(super) tensors: Vec<Tensor>,
    pub(super) ops: Vec<Op>,
}

/// The output of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    /// Where it is stored.
    pub(super) tensor: TensorId,
    /// Its shape.
    pub(super) shape: Shape4,
}

impl Builder {
    /// A network without layers, and its input: images whose pixels have mean zero and variance
    /// one.
    pub(super) fn new(name: &str, input: Shape4) -> (Self, Value) {
        let mut builder =
            Self { name: name.into(), batch: input.n, tensors: Vec::new(), ops: Vec::new() };
        let pixels = Initial::Uniform(3f32.sqrt());
        let tensor = builder.constant("input", input.elements(), Role::Input, pixels);
        (builder, Value { tensor, shape: input })
    }

    /// A convolution without bias.
    pub(super) fn convolution(
        &mut self,
        name: &str,
        x: Value,
        out_channels: usize,
        window: Window,
    ) -> Result<Value, ShapeError> {
        let conv = Convolution::new(x.shape, out_channels, window, 1)?;
        let w = self.parameter(name, "weight", conv.weights(), Initial::weights(conv.rows()));
        Ok(self.layer(name, Step::Convolution(conv), &[x.tensor, w], conv.output()))
    }

    /// Batch normalisation.
    pub(super) fn batch_norm(&mut self, name: &str, x: Value) -> Value {
        let norm = BatchNorm::new(x.shape);
        let gamma = self.parameter(name, "weight", x.shape.c, Initial::Constant(1.0));
        let beta = self.parameter(name, "bias", x.shape.c, Initial::Constant(0.0));
        let y = self.layer(name, Step::BatchNorm(norm), &[x.tensor, gamma, beta], x.shape);
        self.also_writes("saved", norm.saved_floats(), Dtype::F32);
        y
    }

    /// Rectified linear unit.
    pub(super) fn relu(&mut self, name: &str, x: Value) -> Value {
        self.layer(name, Step::Relu { elements: x.shape.elements() }, &[x.tensor], x.shape)
    }

    /// Maximum pooling.
    pub(super) fn max_pool(
        &mut self,
        name: &str,
        x: Value,
        window: Window,
    ) -> Result<Value, ShapeError> {
        let pool = MaxPool::new(x.shape, window)?;
        let y = self.layer(name, Step::MaxPool(pool), &[x.tensor], pool.output());
        self.also_writes("positions", pool.output().elements(), Dtype::I32);
        Ok(y)
    }

    /// Global average pooling.
    pub(super) fn average_pool(&mut self, name: &str, x: Value) -> Value {
        let pool = GlobalAveragePool::new(x.shape);
        self.layer(name, Step::AveragePool(pool), &[x.tensor], pool.output())
    }

    /// A fully connected layer on everything that a sample has.
    pub(super) fn linear(&mut self, name: &str, x: Value, outputs: usize) -> Value {
        let linear = Linear { batch: x.shape.n, inputs: x.shape.image(), outputs };
        let w = self.parameter(name, "weight", linear.weights(), Initial::weights(linear.inputs));
        let bias = self.parameter(name, "bias", outputs, Initial::Constant(0.0));
        let shape = Shape4 { n: x.shape.n, c: outputs, h: 1, w: 1 };
        self.layer(name, Step::Linear(linear), &[x.tensor, w, bias], shape)
    }

    /// The sum of two outputs of equal shape: a residual connection.
    pub(super) fn add(&mut self, name: &str, a: Value, b: Value) -> Value {
        let step = Step::Add { elements: a.shape.elements() };
        self.layer(name, step, &[a.tensor, b.tensor], a.shape)
    }

    /// Ends the forward pass with softmax and cross-entropy against random labels, and adds the
    /// backward pass and the update of every parameter.
    pub(super) fn classify(mut self, logits: Value, sgd: Sgd) -> Network {
        let loss = SoftmaxCrossEntropy { classes: logits.shape.image() };
        let labels = Initial::Classes(loss.classes);
        let labels = self.constant("labels", self.batch, Role::Input, labels);
        let scalar = Shape4 { n: 1, c: 1, h: 1, w: 1 };
        self.layer("loss", Step::Loss(loss, self.batch), &[logits.tensor, labels], scalar);
        self.also_writes("probabilities", logits.shape.elements(), Dtype::F32);

        let gradients = self.backward();
        for (parameter, gradient) in gradients {
            self.update(parameter, gradient, sgd);
        }
        lifetime::settle(&self.tensors, &mut self.ops);
        Network { name: self.name, batch: self.batch, tensors: self.tensors, ops: self.ops }
    }

    fn update(&mut self, parameter: TensorId, gradient: TensorId, sgd: Sgd) {
        let Tensor { name, elements, .. } = &self.tensors[parameter.index()];
        let (name, elements) = (name.clone(), *elements);
        let zero = Initial::Constant(0.0);
        let momentum =
            self.constant(&format!("{name}.momentum"), elements, Role::OptimizerState, zero);
        self.op(Op {
            updates: vec![parameter, momentum],
            ..Op::new(
                format!("{name}.sgd"),
                Step::Sgd { sgd, elements },
                Phase::Update,
                vec![gradient],
            )
        });
    }

    fn parameter(
        &mut self,
        layer: &str,
        name: &str,
        elements: usize,
        initial: Initial,
    ) -> TensorId {
        self.constant(&format!("{layer}.{name}"), elements, Role::Parameter, initial)
    }

    fn constant(&mut self, name: &str, elements: usize, role: Role, initial: Initial) -> TensorId {
        let dtype = if matches!(initial, Initial::Classes(_)) { Dtype::I32 } else { Dtype::F32 };
        self.tensor(Tensor { name: name.into(), elements, role, dtype, initial: Some(initial) })
    }

    /// Adds a forward op with one output, which has the layer's name.
    fn layer(&mut self, name: &str, step: Step, reads: &[TensorId], output: Shape4) -> Value {
        self.op(Op::new(name.into(), step, Phase::Forward, reads.to_vec()));
        let (role, dtype) = (Role::Activation, Dtype::F32);
        let tensor = self.output(name.into(), output.elements(), role, dtype);
        Value { tensor, shape: output }
    }

    /// Gives the last op a further output, which only its backward op reads.
    fn also_writes(&mut self, what: &str, elements: usize, dtype: Dtype) {
        let name = self.ops.last().map(|op| format!("{}.{what}", op.name)).unwrap_or_default();
        self.output(name, elements, Role::Activation, dtype);
    }

    /// Gives the last op an output.
    pub(super) fn output(
        &mut self,
        name: String,
        elements: usize,
        role: Role,
        dtype: Dtype,
    ) -> TensorId {
        let tensor = self.tensor(Tensor { name, elements, role, dtype, initial: None });
        if let Some(op) = self.ops.last_mut() {
            op.writes.push(tensor);
        }
        tensor
    }

    fn tensor(&mut self, tensor: Tensor) -> TensorId {
        self.tensors.push(tensor);
        TensorId::from_index(self.tensors.len() - 1)
    }

    pub(super) fn op(&mut self, op: Op) {
        self.ops.push(op);
    }
}

impl Op {
    /// An op that has no outputs yet.
    pub(super) fn new(name: String, step: Step, phase: Phase, reads: Vec<TensorId>) -> Self {
        Self {
            name,
            step,
            phase,
            reads,
            updates: Vec::new(),
            writes: Vec::new(),
            in_place: None,
            frees: Vec::new(),
        }
    }
}
