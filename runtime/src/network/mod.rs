//! A network as a list of ops over tensors: the tape of one training iteration, written down
//! before anything runs.
//!
//! A [`Builder`] takes the layers of the forward pass; the backward pass and the updates are
//! derived from them. [`Network::run_op`] runs one op on memory that the caller provides, in whatever order a plan
//! wants; [`Network::trace`] gives the same list as a document that planners read.

mod backward;
pub(crate) mod bf16;
mod builder;
mod builder_layers;
mod builder_tokens;
mod compute;
mod initial;
mod lifetime;
mod resnet;
mod run;
mod step;
#[cfg(test)]
mod tests;
mod trace;

use schema::{Dtype, InPlace, OpId, Phase, Role, TensorId};

pub use builder::{Builder, Value};
pub use initial::{Initial, Random};
pub use resnet::{ResNet, ResNetError};
pub use run::{Operands, RunError};
pub use step::Step;
pub use trace::Measured;

/// One training iteration of a network, as ops over tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The network's name.
    pub name: String,
    /// Samples per iteration.
    pub batch: usize,
    tensors: Vec<Tensor>,
    ops: Vec<Op>,
    dropout_seed: Option<TensorId>,
}

/// A storage of the iteration. Ops compute on cells of 4 bytes, whatever an element is stored as.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Number of elements.
    pub elements: usize,
    /// What it is to the training algorithm.
    pub role: Role,
    /// What the cells hold: floats, which may be stored in 16 bits ([`Network::in_bf16`]), or indices
    /// as [`cell_from_index`](crate::layers::cell_from_index) stores them.
    pub dtype: Dtype,
    initial: Option<Initial>,
}

impl Tensor {
    /// Whether the tensor exists before the iteration and after it: a parameter, its momentum, or
    /// what the iteration is given.
    pub fn is_constant(&self) -> bool {
        self.initial.is_some()
    }
}

/// One op of the iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// Its name: the layer's, with `.backward` or `.update` where it is not the forward pass.
    pub name: String,
    /// What it computes.
    pub step: Step,
    /// The phase of the iteration.
    pub phase: Phase,
    /// The tensors that it only reads, in the order that [`Operands::reads`] takes them.
    pub reads: Vec<TensorId>,
    /// The constants that it changes: a parameter and the optimizer's state, in an update; running
    /// statistics.
    pub updates: Vec<TensorId>,
    /// The tensors that it makes.
    pub writes: Vec<TensorId>,
    /// The output that it lays over an input that nothing reads afterwards.
    pub in_place: Option<InPlace>,
    /// The tensors that nothing reads afterwards.
    pub frees: Vec<TensorId>,
}

impl Op {
    /// Whether running it again gives the same values and has no lasting effect.
    pub fn is_rerunnable(&self) -> bool {
        self.updates.is_empty()
    }
}

impl Network {
    /// The tensors; a [`TensorId`] is a position in this list.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The ops in execution order; an [`OpId`] is a position in this list.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The tensor that holds the loss, where the network has one.
    pub fn loss(&self) -> Option<TensorId> {
        self.loss_op().map(|op| op.writes[0])
    }

    /// What the iteration is given: samples, tokens, labels, the seed of dropout. They hold what
    /// [`Network::initialise`] wrote until the caller writes something else, which it may do
    /// before any iteration. Cells of [`Dtype::I32`] are indices, as
    /// [`cell_from_index`](crate::layers::cell_from_index) stores them.
    pub fn inputs(&self) -> impl Iterator<Item = TensorId> {
        let inputs = self.tensors.iter().enumerate().filter(|(_, t)| t.role == Role::Input);
        inputs.map(|(index, _)| TensorId::from_index(index))
    }

    /// The labels that the loss compares with: one per row or element of the logits.
    pub fn labels(&self) -> Option<TensorId> {
        self.loss_op().map(|op| op.reads[1])
    }

    fn loss_op(&self) -> Option<&Op> {
        let is_loss = |op: &&Op| matches!(op.step, Step::Loss(..) | Step::BinaryLoss(..));
        self.ops.iter().find(is_loss)
    }

    /// The tensor with the seed of dropout, where the network drops anything; see
    /// [`Network::reseed`].
    pub fn dropout_seed(&self) -> Option<TensorId> {
        self.dropout_seed
    }

    /// The tensor of an id from this network.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// The op of an id from this network.
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id.index()]
    }
}
