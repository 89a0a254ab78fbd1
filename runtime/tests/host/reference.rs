//! In-core execution as simple as can be: every tensor in memory of its own.

use std::collections::BTreeMap;

use runtime::device::{Device, HostTensors};
use runtime::network::Network;
use schema::TensorId;

/// What outlives an iteration, bit by bit: weights, the optimizer's state, statistics, the
/// loss, and gradients where nothing uses them.
pub fn outcome(network: &Network, host: &HostTensors) -> BTreeMap<TensorId, Vec<u32>> {
    let freed: Vec<TensorId> = network.ops().iter().flat_map(|op| op.frees.clone()).collect();
    let all = (0..host.tensors.len()).map(TensorId::from_index);
    let stays = all.filter(|id| !freed.contains(id));
    stays.map(|id| (id, bits(&host.tensors[id.index()]))).collect()
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
    let mut host = HostTensors::new(network, seed);
    (0..iterations).for_each(|_| host.iterate().unwrap());
    outcome(network, &host)
}

/// Holds what a device has against what in-core execution left.
pub fn assert_left(device: &mut dyn Device, expected: &BTreeMap<TensorId, Vec<u32>>, at: &str) {
    for (tensor, expected) in expected {
        let mut data = vec![0.0; expected.len()];
        device.read(*tensor, &mut data).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(bits(&data) == *expected, "{at}: {tensor} differs");
    }
}
