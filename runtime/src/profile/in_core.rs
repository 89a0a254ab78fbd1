//! Running ops with everything in memory, for whoever wants to see tensors on the way.

use std::collections::BTreeMap;

#[cfg(test)]
use schema::Bytes;
use schema::{Dtype, OpId, TensorId};

use super::Needs;
use crate::memory::{NoRoom, room_for};
use crate::network::{Network, Op, Operands, RunError};

/// What makes a network need less memory.
pub const SMALLER: &str = "choose a smaller batch, or smaller samples";

/// A network in memory without a limit. Its ops are run one by one by the caller, who sees what
/// they make: for statistics that a device does not keep, or for a forward pass alone.
pub struct InCore<'a> {
    slots: Slots<'a, Vec<f32>>,
    workspace: Vec<f32>,
}

/// What holds a network's tensors: cells, or, where it is only counted, nothing.
///
/// Memory that was given back is used again for tensors of the same size, as caching allocators do,
/// so that only the first iteration meets memory that the operating system has yet to provide.
pub(super) struct Slots<'a, T> {
    network: &'a Network,
    tensors: Vec<Option<T>>,
    spare: BTreeMap<usize, Vec<T>>,
}

impl<'a, T> Slots<'a, T> {
    /// Those of constants, of so many elements.
    pub fn new(network: &'a Network, mut constant: impl FnMut(TensorId, usize) -> T) -> Self {
        let tensors = network.tensors().iter().enumerate().map(|(index, tensor)| {
            tensor.is_constant().then(|| constant(TensorId::from_index(index), tensor.elements))
        });
        Self { network, tensors: tensors.collect(), spare: BTreeMap::new() }
    }

    /// The slot of what an op writes: a new one, of so many elements, where no other serves.
    pub fn output(&mut self, op: &Op, tensor: TensorId, new: impl FnOnce(usize) -> T) -> T {
        // A result of the iteration before, such as the loss, gives way to its successor.
        let before = self.tensors[tensor.index()].take();
        let input = op.in_place.filter(|pair| pair.output == tensor).map(|pair| pair.input);
        let elements = self.network.tensor(tensor).elements;
        before
            .or_else(|| input.and_then(|input| self.tensors[input.index()].take()))
            .or_else(|| self.spare.get_mut(&elements).and_then(Vec::pop))
            .unwrap_or_else(|| new(elements))
    }

    pub fn put(&mut self, tensor: TensorId, slot: T) {
        self.tensors[tensor.index()] = Some(slot);
    }

    /// Gives back what nothing reads after an op.
    pub fn free(&mut self, op: &Op) {
        for tensor in &op.frees {
            // An input that an output was laid over is gone already.
            if let Some(slot) = self.tensors[tensor.index()].take() {
                let elements = self.network.tensor(*tensor).elements;
                self.spare.entry(elements).or_default().push(slot);
            }
        }
    }
}

impl<'a> InCore<'a> {
    /// A network whose constants are as [`Network::initialise`] has them.
    ///
    /// # Errors
    /// If this machine has no memory for it.
    pub fn new(network: &'a Network, seed: u64) -> Result<Self, NoRoom> {
        room_for(&network.name, Needs::of(network).in_core, SMALLER)?;
        let workspace = network.ops().iter().map(|op| op.step.workspace_floats()).max();
        let slots = Slots::new(network, |tensor, elements| {
            let mut data = vec![0.0; elements];
            network.initialise(tensor, seed, &mut data);
            data
        });
        Ok(Self { slots, workspace: vec![0.0; workspace.unwrap_or(0)] })
    }

    /// What a tensor holds; none where no op has made it, or it was freed.
    pub fn get(&self, tensor: TensorId) -> Option<&[f32]> {
        self.slots.tensors.get(tensor.index())?.as_deref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, tensor: TensorId) -> Option<&mut [f32]> {
        self.slots.tensors.get_mut(tensor.index())?.as_deref_mut()
    }

    /// Runs an op, whose inputs must be there.
    ///
    /// # Errors
    /// If the network does not have it, an input is not there, or it fails.
    pub fn run(&mut self, id: OpId) -> Result<(), RunError> {
        let network = self.slots.network;
        let ops = network.ops();
        let op = ops.get(id.index()).ok_or(RunError::UnknownOp { op: id, count: ops.len() })?;
        let new = |elements| vec![0.0; elements];
        let mut writes: Vec<_> =
            op.writes.iter().map(|tensor| self.slots.output(op, *tensor, new)).collect();
        let updates =
            op.updates.iter().filter_map(|tensor| self.slots.tensors[tensor.index()].take());
        let mut updates: Vec<_> = updates.collect();
        let mut workspace = std::mem::take(&mut self.workspace);
        let operands = Operands {
            reads: op.reads.iter().map(|tensor| self.get(*tensor)).collect(),
            updates: updates.iter_mut().map(Vec::as_mut_slice).collect(),
            writes: writes.iter_mut().map(Vec::as_mut_slice).collect(),
            workspace: &mut workspace,
        };
        let result = network.run_op(id, operands);
        let made = op.writes.iter().zip(writes).chain(op.updates.iter().zip(updates));
        made.for_each(|(tensor, data)| self.slots.put(*tensor, data));
        self.workspace = workspace;
        result
    }

    /// Gives back what nothing reads after an op.
    pub fn free(&mut self, id: OpId) {
        if let Some(op) = self.slots.network.ops().get(id.index()) {
            self.slots.free(op);
        }
    }

    #[cfg(test)]
    pub(super) fn allocated(&self) -> Bytes {
        let held = self.slots.tensors.iter().flatten().chain(self.slots.spare.values().flatten());
        let cells = held.map(Vec::len).sum::<usize>() + self.workspace.len();
        Bytes((cells * size_of::<f32>()) as u64)
    }
}

/// The share of zeros of each tensor of floats that an op wrote, to four digits, in the last of so
/// many iterations on one random batch; none of what no op writes.
///
/// # Errors
/// If this machine has no memory for it, or an op fails.
pub fn zeros(
    network: &Network,
    iterations: usize,
    seed: u64,
) -> Result<Vec<Option<f64>>, ZerosError> {
    let mut in_core = InCore::new(network, seed)?;
    let mut shares = vec![None; network.tensors().len()];
    for iteration in 1..=iterations {
        for (index, op) in network.ops().iter().enumerate() {
            let id = OpId::from_index(index);
            in_core.run(id)?;
            for tensor in op.writes.iter().filter(|_| iteration == iterations) {
                let floats = matches!(network.tensor(*tensor).dtype, Dtype::F32 | Dtype::Bf16);
                let data = in_core.get(*tensor).filter(|_| floats);
                let share = data.map(|data| (share_of_zeros(data) * 1e4).round() / 1e4);
                shares[tensor.index()] = share;
            }
            in_core.free(id);
        }
    }
    Ok(shares)
}

/// Why no zeros were counted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what is wrong")]
pub enum ZerosError {
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("the network did not run")]
    Run(#[from] RunError),
}

/// The share of values that are zero, of either sign; 0 where there is no value.
pub fn share_of_zeros(data: &[f32]) -> f64 {
    let zeros = data.iter().filter(|value| **value == 0.0).count();
    zeros as f64 / data.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::tiny;

    #[test]
    fn zeros_are_counted_in_what_ops_wrote() {
        let network = tiny(2, 40);
        let counted = zeros(&network, 3, 3).unwrap();
        assert_eq!(counted, zeros(&network, 3, 3).unwrap());
        let of =
            |name: &str| counted[network.tensors().iter().position(|t| t.name == name).unwrap()];
        assert!(of("block.relu1").is_some_and(|share| share > 0.2 && share < 0.8));
        assert_eq!(of("block.bn1"), Some(0.0));
        assert_eq!(of("maxpool.positions"), None);
        assert_eq!(of("fc.weight"), None);
    }
}
