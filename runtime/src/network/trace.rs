//! A network as a trace.

use schema::{Bytes, Nanos, Provenance, TensorId, Trace};

use super::{Network, Op};

/// Bytes of a cell of workspace.
const CELL: u64 = 4;

/// What a profiler found out about a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Duration of every op, in the order of the ops; zero where the list ends early.
    pub durations: Vec<Nanos>,
    /// Share of zeros of every tensor, in the order of the tensors, where it was looked at.
    pub sparsity: Vec<Option<f64>>,
}

impl Network {
    /// The iteration as a document. An update reads the parameter and the momentum that it
    /// changes: their new values take the place of the old ones, and no tensor is made.
    pub fn trace(&self, measured: &Measured, provenance: Provenance) -> Trace {
        let sparsity = |index: usize| measured.sparsity.get(index).copied().flatten();
        let duration = |index: usize| measured.durations.get(index).copied().unwrap_or_default();
        Trace {
            network: self.name.clone(),
            batch: u32::try_from(self.batch).ok(),
            provenance,
            tensors: self
                .tensors
                .iter()
                .enumerate()
                .map(|(index, tensor)| schema::Tensor {
                    name: tensor.name.clone(),
                    bytes: Bytes((tensor.elements * tensor.element_bytes()) as u64),
                    role: tensor.role,
                    dtype: Some(tensor.dtype),
                    home: schema::Home::Device,
                    appears_before: None,
                    sparsity: sparsity(index),
                })
                .collect(),
            ops: (self.ops.iter().enumerate())
                .map(|(index, op)| self.trace_op(op, duration(index)))
                .collect(),
        }
    }

    fn trace_op(&self, op: &Op, duration: Nanos) -> schema::Op {
        schema::Op {
            name: op.name.clone(),
            kind: op.step.kind(),
            phase: op.phase,
            duration,
            recompute: None,
            reads: op.reads.iter().chain(&op.updates).copied().collect(),
            writes: op.writes.clone(),
            in_place: op.in_place.into_iter().collect(),
            workspace: Bytes(op.step.workspace_floats() as u64 * CELL),
            frees: op.frees.clone(),
            rerunnable: op.is_rerunnable(),
            flops: Some(op.step.flops()),
            bytes_moved: Some(self.bytes_moved(op)),
        }
    }

    /// Every input once and every output once; what is updated, twice. Workspace, which stays in
    /// cache where it can, and repeated passes over an operand do not count.
    fn bytes_moved(&self, op: &Op) -> Bytes {
        let bytes = |tensors: &[TensorId]| -> u64 {
            let tensors = tensors.iter().map(|id| self.tensor(*id));
            tensors.map(|tensor| (tensor.elements * tensor.element_bytes()) as u64).sum()
        };
        Bytes(bytes(&op.reads) + bytes(&op.writes) + 2 * bytes(&op.updates))
    }
}
