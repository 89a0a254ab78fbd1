//! In-core execution as simple as can be: every tensor in memory of its own.

use std::collections::BTreeMap;

use runtime::device::{Device, HostTensors};
use runtime::network::Network;
use schema::{OpId, TensorId};

/// A network and all its tensors.
pub struct InCore<'a> {
    network: &'a Network,
    pub host: HostTensors<'a>,
}

impl<'a> InCore<'a> {
    pub fn new(network: &'a Network, seed: u64) -> Self {
        Self { network, host: HostTensors::new(network, seed) }
    }

    pub fn iterate(&mut self) {
        for (index, op) in self.network.ops().iter().enumerate() {
            let made = self.host.run(OpId::from_index(index));
            let made = made.unwrap_or_else(|error| panic!("{}: {error}", op.name));
            for (tensor, made) in op.updates.iter().chain(&op.writes).zip(made) {
                self.host.tensors[tensor.index()] = made;
            }
        }
    }

    /// What outlives an iteration, bit by bit: weights, the optimizer's state, statistics, the
    /// loss, and gradients where nothing uses them.
    pub fn outcome(&self) -> BTreeMap<TensorId, Vec<u32>> {
        let freed: Vec<TensorId> =
            self.network.ops().iter().flat_map(|op| op.frees.iter().copied()).collect();
        let all = (0..self.host.tensors.len()).map(TensorId::from_index);
        let stays = all.filter(|id| !freed.contains(id));
        stays.map(|id| (id, bits(&self.host.tensors[id.index()]))).collect()
    }

    /// Share of zeros of each tensor of floats.
    pub fn sparsity(&self) -> Vec<Option<f64>> {
        let share = |data: &Vec<f32>| {
            let zeros = data.iter().filter(|value| value.to_bits() == 0).count();
            Some((zeros as f64 / data.len().max(1) as f64 * 1e4).round() / 1e4)
        };
        self.host.tensors.iter().map(share).collect()
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
