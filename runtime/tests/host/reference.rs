//! In-core execution as simple as can be: every tensor in memory of its own.

use std::collections::BTreeMap;

use runtime::device::Device;
use runtime::network::{Network, Operands};
use schema::{OpId, TensorId};

/// A network and all its tensors.
pub struct InCore<'a> {
    network: &'a Network,
    pub tensors: Vec<Vec<f32>>,
}

impl<'a> InCore<'a> {
    pub fn new(network: &'a Network, seed: u64) -> Self {
        let tensors = network.tensors().iter().enumerate().map(|(index, tensor)| {
            let mut data = vec![f32::NAN; tensor.elements];
            network.initialise(TensorId::from_index(index), seed, &mut data);
            data
        });
        Self { network, tensors: tensors.collect() }
    }

    pub fn iterate(&mut self) {
        for index in 0..self.network.ops().len() {
            self.run(OpId::from_index(index));
        }
    }

    fn run(&mut self, id: OpId) {
        let op = self.network.op(id);
        let take = |tensors: &mut Vec<Vec<f32>>, ids: &[TensorId]| -> Vec<Vec<f32>> {
            ids.iter().map(|id| std::mem::take(&mut tensors[id.index()])).collect()
        };
        let mut writes = take(&mut self.tensors, &op.writes);
        let mut updates = take(&mut self.tensors, &op.updates);
        let mut workspace = vec![f32::NAN; op.step.workspace_floats()];
        let operands = Operands {
            reads: op.reads.iter().map(|id| Some(&self.tensors[id.index()][..])).collect(),
            updates: updates.iter_mut().map(Vec::as_mut_slice).collect(),
            writes: writes.iter_mut().map(Vec::as_mut_slice).collect(),
            workspace: &mut workspace,
        };
        self.network.run_op(id, operands).unwrap_or_else(|error| panic!("{}: {error}", op.name));
        let made = op.writes.iter().zip(writes).chain(op.updates.iter().zip(updates));
        made.for_each(|(id, data)| self.tensors[id.index()] = data);
    }

    /// What outlives an iteration, bit by bit: weights, the optimizer's state, statistics, the
    /// loss, and gradients where nothing uses them.
    pub fn outcome(&self) -> BTreeMap<TensorId, Vec<u32>> {
        let freed: Vec<TensorId> =
            self.network.ops().iter().flat_map(|op| op.frees.iter().copied()).collect();
        let all = (0..self.tensors.len()).map(TensorId::from_index);
        let stays = all.filter(|id| !freed.contains(id));
        stays.map(|id| (id, bits(&self.tensors[id.index()]))).collect()
    }

    /// Share of zeros of each tensor of floats.
    pub fn sparsity(&self) -> Vec<Option<f64>> {
        let share = |data: &Vec<f32>| {
            let zeros = data.iter().filter(|value| value.to_bits() == 0).count();
            Some((zeros as f64 / data.len().max(1) as f64 * 1e4).round() / 1e4)
        };
        self.tensors.iter().map(share).collect()
    }
}

pub fn bits(data: &[f32]) -> Vec<u32> {
    data.iter().map(|value| value.to_bits()).collect()
}

/// Writes the seed of dropout for an iteration, wherever it is kept.
pub fn seed_of(network: &Network, seed: u64, iteration: u64) -> Option<(TensorId, Vec<f32>)> {
    let tensor = network.dropout_seed()?;
    let mut cells = vec![0.0; network.tensor(tensor).elements];
    network.reseed(seed, iteration, &mut cells);
    Some((tensor, cells))
}

/// What in-core execution leaves after so many iterations.
pub fn left_in_core(
    network: &Network,
    seed: u64,
    iterations: usize,
) -> BTreeMap<TensorId, Vec<u32>> {
    let mut reference = InCore::new(network, seed);
    (0..iterations).for_each(|_| reference.iterate());
    reference.outcome()
}

/// Holds what a device has against what in-core execution left.
pub fn assert_left(device: &mut dyn Device, expected: &BTreeMap<TensorId, Vec<u32>>, at: &str) {
    for (tensor, expected) in expected {
        let mut data = vec![0.0; expected.len()];
        device.read(*tensor, &mut data).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(bits(&data) == *expected, "{at}: {tensor} differs");
    }
}
