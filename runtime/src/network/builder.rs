//! Writing down a forward pass: what every layer is made of. The layers themselves are in
//! `builder_layers` and `builder_tokens`.

use schema::{Dtype, Phase, Role, TensorId};

use super::initial::Initial;
use super::{Network, Op, Step, Tensor, lifetime};
use crate::layers::{Optimizer, SEED_CELLS, ShapeError, SigmoidCrossEntropy, SoftmaxCrossEntropy};

/// Writes down the forward pass of a network, a layer a method; the methods that end it add the
/// backward pass and the updates. Names are for people: they begin those of ops and tensors.
///
/// # Errors
///
/// Each method that adds a layer refuses inputs whose shape the layer cannot have.
#[derive(Debug)]
pub struct Builder {
    name: String,
    batch: usize,
    pub(super) tensors: Vec<Tensor>,
    pub(super) ops: Vec<Op>,
    dropout_seed: Option<TensorId>,
    pub(super) dropouts: u32,
}

/// The output of a layer: where it is stored, and its shape, samples first. Several shapes of the
/// same tensor are views of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Where it is stored.
    pub tensor: TensorId,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl Value {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Extent of the last dimension.
    pub(super) fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
}

impl Builder {
    /// A network without layers, for batches of so many samples.
    pub fn new(name: &str, batch: usize) -> Self {
        Self {
            name: name.into(),
            batch,
            tensors: Vec::new(),
            ops: Vec::new(),
            dropout_seed: None,
            dropouts: 0,
        }
    }

    /// What the iteration is given: samples, or tokens as indices. `initial` says what is there
    /// until the caller writes something else.
    pub fn input(&mut self, name: &str, shape: &[usize], initial: Initial) -> Value {
        let tensor = self.constant(name, shape.iter().product(), Role::Input, initial);
        Value { tensor, shape: shape.to_vec() }
    }

    /// The same elements in another shape, which is no op.
    pub fn view(&self, x: &Value, shape: &[usize]) -> Result<Value, ShapeError> {
        if x.elements() != shape.iter().product::<usize>() {
            return Err(ShapeError::Mismatch { left: x.shape.clone(), right: shape.to_vec() });
        }
        Ok(Value { tensor: x.tensor, shape: shape.to_vec() })
    }

    /// Ends the forward pass with softmax and cross-entropy over the last dimension, against
    /// labels that begin as random, and adds the backward pass and, where there is an optimizer,
    /// the update of every parameter.
    pub fn classify(mut self, logits: &Value, optimizer: Option<Optimizer>) -> Network {
        let loss = SoftmaxCrossEntropy { classes: logits.width() };
        let rows = logits.elements() / loss.classes.max(1);
        self.finish(logits, loss.classes, rows, Step::Loss(loss, rows));
        self.train(optimizer)
    }

    /// Ends the forward pass with a sigmoid and cross-entropy of each element, against labels of
    /// 0 or 1 that begin as random, and goes on as [`Builder::classify`].
    pub fn segment(mut self, logits: &Value, optimizer: Option<Optimizer>) -> Network {
        let count = logits.elements();
        self.finish(logits, 2, count, Step::BinaryLoss(SigmoidCrossEntropy, count));
        self.train(optimizer)
    }

    fn finish(&mut self, logits: &Value, classes: usize, labels: usize, step: Step) {
        let initial = Initial::Classes(classes);
        let labels = self.constant("labels", labels, Role::Input, initial);
        self.layer("loss", step, &[logits.tensor, labels], &[1]);
        self.also_writes("probabilities", logits.elements(), Dtype::F32);
    }

    fn train(mut self, optimizer: Option<Optimizer>) -> Network {
        let loss = self.ops.last().and_then(|op| op.writes.first().copied());
        let mut results: Vec<TensorId> = loss.into_iter().collect();
        for (parameter, gradient) in self.backward() {
            match optimizer {
                Some(optimizer) => self.update(parameter, gradient, optimizer),
                // Without an update, the gradients are what the iteration is for.
                None => results.push(gradient),
            }
        }
        lifetime::settle(&self.tensors, &mut self.ops, &results);
        Network {
            name: self.name,
            batch: self.batch,
            tensors: self.tensors,
            ops: self.ops,
            dropout_seed: self.dropout_seed,
        }
    }

    fn update(&mut self, parameter: TensorId, gradient: TensorId, optimizer: Optimizer) {
        let Tensor { name, elements, .. } = &self.tensors[parameter.index()];
        let (name, elements) = (name.clone(), *elements);
        let mut updates = vec![parameter];
        let state = optimizer.state_floats(elements);
        if state > 0 {
            let name = format!("{name}.{}", optimizer.state_name());
            let zero = Initial::Constant(0.0);
            updates.push(self.constant(&name, state, Role::OptimizerState, zero));
        }
        let step = Step::Update { optimizer, elements };
        let op = Op::new(format!("{name}.update"), step, Phase::Update, vec![gradient]);
        self.op(Op { updates, ..op });
    }

    pub(super) fn parameter(
        &mut self,
        layer: &str,
        name: &str,
        elements: usize,
        initial: Initial,
    ) -> TensorId {
        self.constant(&format!("{layer}.{name}"), elements, Role::Parameter, initial)
    }

    pub(super) fn constant(
        &mut self,
        name: &str,
        elements: usize,
        role: Role,
        initial: Initial,
    ) -> TensorId {
        let dtype = if initial.is_index() { Dtype::I32 } else { Dtype::F32 };
        self.tensor(Tensor { name: name.into(), elements, role, dtype, initial: Some(initial) })
    }

    /// The tensor that holds the seed of dropout.
    pub(super) fn seed(&mut self) -> TensorId {
        if let Some(seed) = self.dropout_seed {
            return seed;
        }
        let seed = self.constant("dropout.seed", SEED_CELLS, Role::Input, Initial::Seed);
        *self.dropout_seed.insert(seed)
    }

    /// Adds a forward op with one output, which has the layer's name.
    pub(super) fn layer(
        &mut self,
        name: &str,
        step: Step,
        reads: &[TensorId],
        output: &[usize],
    ) -> Value {
        self.op(Op::new(name.into(), step, Phase::Forward, reads.to_vec()));
        let (role, dtype) = (Role::Activation, Dtype::F32);
        let tensor = self.output(name.into(), output.iter().product(), role, dtype);
        Value { tensor, shape: output.to_vec() }
    }

    /// Gives the last op a further output, which only its backward op reads.
    pub(super) fn also_writes(&mut self, what: &str, elements: usize, dtype: Dtype) -> TensorId {
        let name = self.ops.last().map(|op| format!("{}.{what}", op.name)).unwrap_or_default();
        self.output(name, elements, Role::Activation, dtype)
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
