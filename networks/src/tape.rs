//! A training iteration as a list of ops over tensors, and the document that planners read.

use schema::{Bytes, Dtype, InPlace, Nanos, OpId, Phase, Provenance, Role, TensorId, Trace};

use super::initial::Initial;
use super::part::Part;
use super::work::Work;

/// What an op computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The layer, as a position in [`Lowered::network`](super::Lowered::network).
    pub layer: usize,
    /// Which of its ops.
    pub part: Part,
}

/// One training iteration of a network, as ops over tensors. What an op computes is a
/// [`Step`] of a layer, or a runtime's kernel for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tape<K> {
    /// The network's name.
    pub name: String,
    /// Samples per iteration.
    pub batch: usize,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) ops: Vec<Op<K>>,
    pub(crate) loss: Option<TensorId>,
    pub(crate) labels: Option<TensorId>,
    pub(crate) seed: Option<TensorId>,
}

/// A storage of the iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Number of elements.
    pub elements: usize,
    /// What it is to the training algorithm.
    pub role: Role,
    /// What an element is stored as.
    pub dtype: Dtype,
    /// Whether it keeps 32 bits where others are stored in 16: statistics, the loss.
    pub(crate) exact: bool,
    /// What is there before the first iteration; nothing where an op makes the tensor.
    pub initial: Option<Initial>,
}

impl Tensor {
    /// Whether the tensor exists before the iteration and after it: a parameter, its momentum, or
    /// what the iteration is given.
    pub fn is_constant(&self) -> bool {
        self.initial.is_some()
    }

    /// Bytes of an element where it is stored.
    pub fn element_bytes(&self) -> usize {
        self.dtype.bytes() as usize
    }

    /// Whether its elements are stored in 16 bits.
    pub fn is_narrow(&self) -> bool {
        self.dtype == Dtype::Bf16
    }

    /// Size of the storage.
    pub fn bytes(&self) -> Bytes {
        Bytes((self.elements as u64).saturating_mul(self.dtype.bytes()))
    }
}

/// One op of the iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Op<K> {
    /// Its name: the layer's, with what it is of it where it is not the forward op.
    pub name: String,
    /// What it computes.
    pub step: K,
    /// The phase of the iteration.
    pub phase: Phase,
    /// The tensors that it only reads, in the order of the kernel's operands.
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
    /// Memory that it needs while it runs.
    pub workspace: Bytes,
    /// How much it computes and moves.
    pub work: Work,
    /// Whether running it again takes less, because its statistics are there.
    pub(crate) recompute_differs: bool,
}

impl<K> Op<K> {
    /// Whether running it again gives the same values and has no lasting effect.
    pub fn is_rerunnable(&self) -> bool {
        self.updates.is_empty() && self.phase != Phase::Update
    }
}

/// What was found out about a tape by running it.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Duration of every op, in the order of the ops; zero where the list ends early.
    pub durations: Vec<Nanos>,
    /// Share of zeros of every tensor, in the order of the tensors, where it was looked at.
    pub sparsity: Vec<Option<f64>>,
}

impl<K> Tape<K> {
    /// The tensors; a [`TensorId`] is a position in this list.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The ops in execution order; an [`OpId`] is a position in this list.
    pub fn ops(&self) -> &[Op<K>] {
        &self.ops
    }

    /// The tensor that holds the loss.
    pub fn loss(&self) -> Option<TensorId> {
        self.loss
    }

    /// The labels that the loss compares with: one per row or element of the logits.
    pub fn labels(&self) -> Option<TensorId> {
        self.labels
    }

    /// The tensor with the seed of dropout, where numbers are drawn from one.
    pub fn dropout_seed(&self) -> Option<TensorId> {
        self.seed
    }

    /// What the iteration is given: samples, tokens, labels, the seed of dropout. They hold what
    /// was there before the first iteration until the caller writes something else, which it may
    /// do before any iteration.
    pub fn inputs(&self) -> impl Iterator<Item = TensorId> {
        let inputs = self.tensors.iter().enumerate().filter(|(_, t)| t.role == Role::Input);
        inputs.map(|(index, _)| TensorId::from_index(index))
    }

    /// The tensor of an id from this tape.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// The op of an id from this tape.
    pub fn op(&self, id: OpId) -> &Op<K> {
        &self.ops[id.index()]
    }

    /// The same with activations, gradients and what it is given in 16 bits, all but the statistics
    /// that an op saves and the loss, which are few and need their digits. Parameters and the
    /// optimizer's state stay in 32 bits, because updates are smaller than a step of 16 bits.
    #[must_use]
    pub fn in_bf16(mut self) -> Self {
        for tensor in &mut self.tensors {
            let narrow = matches!(tensor.role, Role::Activation | Role::Gradient | Role::Input);
            if narrow && tensor.dtype == Dtype::F32 && !tensor.exact {
                tensor.dtype = Dtype::Bf16;
            }
        }
        self
    }

    /// The same ops with what a runtime has for each: its kernel, and the memory that this needs.
    ///
    /// # Errors
    /// The first that `kernel` gives.
    pub fn try_map<L, E>(
        self,
        mut kernel: impl FnMut(&Op<K>, &[Tensor]) -> Result<(L, Bytes), E>,
    ) -> Result<Tape<L>, E> {
        let mut ops = Vec::with_capacity(self.ops.len());
        for op in self.ops {
            let (step, workspace) = kernel(&op, &self.tensors)?;
            let Op { name, phase, reads, updates, writes, in_place, frees, work, .. } = op;
            let recompute_differs = op.recompute_differs;
            ops.push(Op {
                name,
                step,
                phase,
                reads,
                updates,
                writes,
                in_place,
                frees,
                workspace,
                work,
                recompute_differs,
            });
        }
        let Self { name, batch, tensors, loss, labels, seed, .. } = self;
        Ok(Tape { name, batch, tensors, ops, loss, labels, seed })
    }

    /// The iteration as a document. An update reads what it changes: the new values take the place
    /// of the old ones, and no tensor is made.
    pub fn trace(&self, measured: &Measured, provenance: Provenance) -> Trace {
        let sparsity = |index: usize| measured.sparsity.get(index).copied().flatten();
        let duration = |index: usize| measured.durations.get(index).copied().unwrap_or_default();
        let tensors = self.tensors.iter().enumerate().map(|(index, tensor)| schema::Tensor {
            dtype: Some(tensor.dtype),
            sparsity: sparsity(index),
            ..schema::Tensor::new(&tensor.name, tensor.bytes(), tensor.role)
        });
        let ops = self.ops.iter().enumerate().map(|(index, op)| schema::Op {
            reads: op.reads.iter().chain(&op.updates).copied().collect(),
            writes: op.writes.clone(),
            in_place: op.in_place.into_iter().collect(),
            workspace: op.workspace,
            frees: op.frees.clone(),
            rerunnable: op.is_rerunnable(),
            flops: Some(op.work.flops),
            bytes_moved: Some(Bytes(op.work.bytes)),
            ..schema::Op::new(&op.name, (op.work.kind, op.phase), duration(index))
        });
        Trace {
            network: self.name.clone(),
            batch: u32::try_from(self.batch).ok(),
            provenance,
            tensors: tensors.collect(),
            ops: ops.collect(),
        }
    }
}
