//! Running ops with everything in memory, for whoever wants to see tensors on the way.

use schema::{OpId, TensorId};

use super::store::Store;
use crate::memory::NoRoom;
use crate::network::{Network, RunError};

/// A network in memory without a limit. Its ops are run one by one by the caller, who sees what they
/// make: for statistics that a device does not keep, or for a forward pass alone.
pub struct InCore<'a> {
    network: &'a Network,
    store: Store<'a>,
}

impl<'a> InCore<'a> {
    /// A network whose constants are as [`Network::initialise`] has them.
    ///
    /// # Errors
    ///
    /// If this machine has no memory for it.
    pub fn new(network: &'a Network, seed: u64) -> Result<Self, NoRoom> {
        Ok(Self { network, store: Store::new(network, seed)? })
    }

    /// What a tensor holds; none where no op has made it, or it was freed.
    pub fn get(&self, tensor: TensorId) -> Option<&[f32]> {
        self.store.get(tensor)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, tensor: TensorId) -> Option<&mut [f32]> {
        self.store.get_mut(tensor)
    }

    /// Runs an op, whose inputs must be there.
    ///
    /// # Errors
    ///
    /// If the network does not have it, an input is not there, or it fails.
    pub fn run(&mut self, id: OpId) -> Result<(), RunError> {
        let ops = self.network.ops();
        let op = ops.get(id.index()).ok_or(RunError::UnknownOp { op: id, count: ops.len() })?;
        let mut loan = self.store.lend(op);
        let result = self.network.run_op(id, self.store.operands(op, &mut loan));
        self.store.put_back(op, loan);
        result
    }

    /// Gives back what nothing reads after an op.
    pub fn free(&mut self, id: OpId) {
        if let Some(op) = self.network.ops().get(id.index()) {
            self.store.free(op);
        }
    }
}
