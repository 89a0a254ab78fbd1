//! Every tensor of a network in a place of its own: what devices are held to.

use schema::{Dtype, OpId, Role, TensorId};

use crate::network::bf16::store;
use crate::network::{Network, Operands, Random, RunError};

/// A network and all of its tensors on the host, none of which ever gives its place to another.
pub struct HostTensors<'a> {
    network: &'a Network,
    /// The cells of each tensor.
    pub tensors: Vec<Vec<f32>>,
}

impl<'a> HostTensors<'a> {
    /// Constants as [`Network::initialise`] has them; what ops make is no number before.
    pub fn new(network: &'a Network, seed: u64) -> Self {
        let tensors = network.tensors().iter().enumerate().map(|(index, tensor)| {
            let mut cells = vec![f32::NAN; tensor.elements];
            network.initialise(TensorId::from_index(index), seed, &mut cells);
            cells
        });
        Self { network, tensors: tensors.collect() }
    }

    /// Makes all parameters random, so that none hides a mistake.
    pub fn with_random_parameters(mut self) -> Self {
        for (index, cells) in self.tensors.iter_mut().enumerate() {
            if self.network.tensor(TensorId::from_index(index)).role == Role::Parameter {
                let mut random = Random::new(index as u64);
                cells.fill_with(|| random.uniform(1.0));
            }
        }
        self
    }

    /// A tensor as it is stored.
    pub fn stored(&self, tensor: TensorId) -> Vec<u8> {
        let about = self.network.tensor(tensor);
        let mut bytes = vec![0; about.elements * about.element_bytes()];
        store(self.network, tensor, &self.tensors[tensor.index()], &mut bytes);
        bytes
    }

    /// What an op changes and writes, of which nothing is kept.
    ///
    /// # Errors
    /// Where a label or token is none.
    pub fn run(&self, id: OpId) -> Result<Vec<Vec<f32>>, RunError> {
        let op = self.network.op(id);
        let of = |tensors: &[TensorId]| -> Vec<Vec<f32>> {
            tensors.iter().map(|tensor| self.tensors[tensor.index()].clone()).collect()
        };
        let (mut updates, mut writes) = (of(&op.updates), of(&op.writes));
        let reads = op.reads.iter().map(|tensor| Some(&self.tensors[tensor.index()][..]));
        let operands = Operands {
            reads: reads.collect(),
            updates: updates.iter_mut().map(Vec::as_mut_slice).collect(),
            writes: writes.iter_mut().map(Vec::as_mut_slice).collect(),
            workspace: &mut vec![f32::NAN; op.step.workspace_floats()],
        };
        self.network.run_op(id, operands)?;
        Ok(updates.into_iter().chain(writes).collect())
    }

    /// Runs an op, and keeps what it makes.
    ///
    /// # Errors
    /// Where a label or token is none.
    pub fn advance(&mut self, id: OpId) -> Result<(), RunError> {
        let (op, made) = (self.network.op(id), self.run(id)?);
        for (tensor, made) in op.updates.iter().chain(&op.writes).zip(made) {
            self.tensors[tensor.index()] = made;
        }
        Ok(())
    }

    /// Runs all ops in their order.
    ///
    /// # Errors
    /// Where a label or token is none.
    pub fn iterate(&mut self) -> Result<(), RunError> {
        (0..self.network.ops().len()).try_for_each(|index| self.advance(OpId::from_index(index)))
    }

    /// The largest difference of an element, as a share of the largest value that is expected,
    /// without the one step that rounding to 16 bits may go either way. Infinite where one of them
    /// is no number, or where indices differ.
    pub fn difference(&self, tensor: TensorId, expected: &[f32], found: &[f32]) -> f64 {
        let about = self.network.tensor(tensor);
        let bits = |cells: &[f32]| cells.iter().map(|cell| cell.to_bits()).collect::<Vec<_>>();
        if about.dtype == Dtype::I32 {
            return if bits(expected) == bits(found) { 0.0 } else { f64::INFINITY };
        }
        let largest = expected.iter().fold(f32::MIN_POSITIVE, |most, value| most.max(value.abs()));
        let off = |(expected, found): (&f32, &f32)| {
            if expected == found {
                return 0.0;
            }
            let step = if about.is_narrow() { expected.abs() / 128.0 } else { 0.0 };
            let apart = ((expected - found).abs() - step).max(0.0) / largest;
            // What is no number is as far as can be.
            if apart.is_nan() || found.is_nan() { f64::INFINITY } else { f64::from(apart) }
        };
        expected.iter().zip(found).map(off).fold(0.0, f64::max)
    }
}
