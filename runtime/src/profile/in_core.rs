//! Running ops with everything in memory, for whoever wants to see tensors on the way.

use schema::{Dtype, OpId, TensorId};

use super::store::Store;
use crate::memory::NoRoom;
use crate::network::{Network, RunError};

/// A network in memory without a limit. Its ops are run one by one by the caller, who sees what
/// they make: for statistics that a device does not keep, or for a forward pass alone.
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

/// The share of zeros of each tensor of floats that an op wrote, to four digits, in the last of so
/// many iterations on one random batch; none of what no op writes.
///
/// # Errors
///
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
pub enum ZerosError {
    /// The machine has no memory for the network.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// An op did not run.
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
