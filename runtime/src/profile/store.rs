//! Memory for an iteration that keeps everything.

use std::collections::BTreeMap;

#[cfg(test)]
use schema::Bytes;
use schema::TensorId;

use super::Needs;
use crate::memory::{NoRoom, room_for};
use crate::network::{Network, Op, Operands};

/// What makes a network need less memory.
pub const SMALLER: &str = "choose a smaller batch, or smaller samples";

/// Holds every tensor from the op that writes it to the op that frees it. Memory that was given
/// back is used again for tensors of the same size, as caching allocators do, so that only the
/// first iteration meets memory that the operating system has yet to provide.
pub(super) struct Store<'a> {
    network: &'a Network,
    tensors: Vec<Option<Vec<f32>>>,
    spare: BTreeMap<usize, Vec<Vec<f32>>>,
    workspace: Vec<f32>,
}

/// What an op may write, taken out of the store while it runs.
pub(super) struct Loan {
    writes: Vec<Vec<f32>>,
    updates: Vec<Vec<f32>>,
    workspace: Vec<f32>,
}

impl<'a> Store<'a> {
    /// A store with the constants of `network` in it.
    pub(super) fn new(network: &'a Network, seed: u64) -> Result<Self, NoRoom> {
        room_for(&network.name, Needs::of(network).in_core, SMALLER)?;
        let workspace =
            network.ops().iter().map(|op| op.step.workspace_floats()).max().unwrap_or(0);
        let mut store = Self {
            network,
            tensors: vec![None; network.tensors().len()],
            spare: BTreeMap::new(),
            workspace: vec![0.0; workspace],
        };
        for (index, tensor) in network.tensors().iter().enumerate() {
            if tensor.is_constant() {
                let mut data = store.allocate(tensor.elements);
                network.initialise(TensorId::from_index(index), seed, &mut data);
                store.tensors[index] = Some(data);
            }
        }
        Ok(store)
    }

    /// Takes out what the op may write, allocating what is not there yet.
    pub(super) fn lend(&mut self, op: &Op) -> Loan {
        let writes = op.writes.iter().map(|tensor| self.output(op, *tensor)).collect();
        let updates = op.updates.iter().filter_map(|t| self.tensors[t.index()].take()).collect();
        Loan { writes, updates, workspace: std::mem::take(&mut self.workspace) }
    }

    fn output(&mut self, op: &Op, tensor: TensorId) -> Vec<f32> {
        // A result of the iteration before, such as the loss, gives way to its successor.
        let before = self.tensors[tensor.index()].take();
        let input = op.in_place.filter(|pair| pair.output == tensor).map(|pair| pair.input);
        before
            .or_else(|| input.and_then(|input| self.tensors[input.index()].take()))
            .unwrap_or_else(|| self.allocate(self.network.tensor(tensor).elements))
    }

    /// The memory of an op: what it reads from the store, what it writes from the loan.
    pub(super) fn operands<'b>(&'b self, op: &Op, loan: &'b mut Loan) -> Operands<'b> {
        Operands {
            reads: op.reads.iter().map(|tensor| self.get(*tensor)).collect(),
            updates: loan.updates.iter_mut().map(Vec::as_mut_slice).collect(),
            writes: loan.writes.iter_mut().map(Vec::as_mut_slice).collect(),
            workspace: &mut loan.workspace,
        }
    }

    /// Puts back what the op wrote.
    pub(super) fn put_back(&mut self, op: &Op, loan: Loan) {
        let written = op.writes.iter().zip(loan.writes);
        for (tensor, data) in written.chain(op.updates.iter().zip(loan.updates)) {
            self.tensors[tensor.index()] = Some(data);
        }
        self.workspace = loan.workspace;
    }

    /// Gives back the memory of what nothing reads after the op.
    pub(super) fn free(&mut self, op: &Op) {
        for tensor in &op.frees {
            // An input that an output was laid over is gone already.
            if let Some(data) = self.tensors[tensor.index()].take() {
                self.spare.entry(data.len()).or_default().push(data);
            }
        }
    }

    /// What a tensor holds, where it is in memory.
    pub(super) fn get(&self, tensor: TensorId) -> Option<&[f32]> {
        self.tensors.get(tensor.index())?.as_deref()
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, tensor: TensorId) -> Option<&mut [f32]> {
        self.tensors.get_mut(tensor.index())?.as_deref_mut()
    }

    /// All that was allocated so far.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> Bytes {
        let held = self.tensors.iter().flatten().chain(self.spare.values().flatten());
        let cells = held.map(Vec::len).sum::<usize>() + self.workspace.len();
        Bytes((cells * size_of::<f32>()) as u64)
    }

    fn allocate(&mut self, elements: usize) -> Vec<f32> {
        let spare = self.spare.get_mut(&elements).and_then(Vec::pop);
        spare.unwrap_or_else(|| vec![0.0; elements])
    }
}
