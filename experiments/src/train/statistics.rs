//! What COMET collects of a network in training.

use planner::methods::{LayerStatistics, loss_weight};
use runtime::device::Device;
use runtime::network::{Network, Step};
use runtime::profile::InCore;
use runtime::training::{Images, TrainingError, look_inside};
use schema::{OpId, TensorId};

/// The statistics of each convolution, by the tensor that it reads, from one iteration beside the
/// device with its weights and their momentum (section 3.1 of COMET).
pub(super) fn collect(
    device: &mut dyn Device,
    network: &Network,
    images: &Images,
) -> Result<Vec<Option<LayerStatistics>>, TrainingError> {
    let mut statistics = vec![None; network.tensors().len()];
    look_inside(device, network, images, |id, in_core| {
        if let Some((input, layer)) = of_op(network, id, in_core) {
            statistics[input.index()] = Some(layer);
        }
    })?;
    Ok(statistics)
}

/// Those of the convolution whose weights' gradient the op just made; nothing for other ops.
fn of_op(network: &Network, id: OpId, in_core: &InCore) -> Option<(TensorId, LayerStatistics)> {
    let op = network.op(id);
    let Step::ConvolutionWeights(_) = op.step else { return None };
    let [input, gradient] = *op.reads.as_slice() else { return None };
    let momentum = in_core.get(momentum_of(network, *op.writes.first()?)?)?;
    let (x, dy) = (in_core.get(input)?, in_core.get(gradient)?);
    // The gradient of the bias has a value for each channel.
    let channels = network.tensor(*op.writes.get(1)?).elements;
    let layer = LayerStatistics {
        momentum: mean(momentum.iter().map(|m| f64::from(m.abs()))),
        loss_gradient: loss_weight(dy, dy.len() / (network.batch * channels).max(1)),
        batch: network.batch as u32,
        nonzero: mean(x.iter().map(|x| if *x == 0.0 { 0.0 } else { 1.0 })),
    };
    Some((input, layer))
}

/// The momentum of the weights that a gradient is of: the optimizer changes both with it.
fn momentum_of(network: &Network, gradient: TensorId) -> Option<TensorId> {
    let is_update = |step: &Step| matches!(step, Step::Update { .. });
    let mut updates = network.ops().iter().filter(|op| is_update(&op.step));
    updates.find(|op| op.reads.contains(&gradient))?.updates.get(1).copied()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1);
    values.sum::<f64>() / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::training::classifier;

    #[test]
    fn every_convolution_of_the_network_has_its_statistics() {
        let images = Images { side: 8, channels: 1, noise: 0.5, seed: 1 };
        let network = classifier(&images, 2).expect("large enough");
        let mut in_core = InCore::new(&network, 1).expect("it is small");
        let mut layers = Vec::new();
        for id in (0..network.ops().len()).map(OpId::from_index) {
            in_core.run(id).expect("it runs");
            layers.extend(of_op(&network, id, &in_core));
        }
        assert_eq!(layers.len(), 6);
        for (tensor, layer) in layers {
            let name = &network.tensor(tensor).name;
            // Momentum is zero before the first update.
            assert_eq!((layer.momentum, layer.batch), (0.0, 2), "{name}");
            assert!(layer.loss_gradient > 0.0 && layer.nonzero > 0.0, "{name}: {layer:?}");
            assert_eq!(layer.nonzero == 1.0, name == "images", "{name}: {layer:?}");
        }
    }
}
