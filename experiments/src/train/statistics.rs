//! What COMET collects of a network in training.

use planner::methods::{Comet, LayerStatistics, loss_weight};
use runtime::device::Device;
use runtime::network::{Network, Step};
use runtime::profile::InCore;
use runtime::training::{Images, TrainingError, look_inside};
use schema::{OpId, OpKind, Phase, TensorId, Trace};

use super::forms::within;

/// What the next plan follows from.
#[derive(Default)]
pub(super) struct Collected {
    /// The method, with the statistics of each convolution by the tensor that it reads.
    pub comet: Comet,
    /// The error bound of each tensor that has one.
    pub bounds: Vec<Option<f64>>,
    /// What the codec makes of it within that bound, in thousandths of its size.
    pub permille: Vec<Option<u32>>,
    /// The bound as a share of the standard deviation of its values, of each that is compressed.
    pub shares: Vec<f64>,
}

/// Two iterations beside the device with its weights, on the batch that it ran last (section 3.1 of
/// COMET): one for the statistics, and one in which what is to be compressed is, so that the plan knows the ratio
/// ("based on the previous compression ratio", section 3.4).
///
/// We depart from the paper in that it collects within the iteration, from what was decompressed: here both
/// iterations run in core, as the plan's device has given back what they look at, so that statistics are those of
/// activations without the codec's error, which is a hundredth of the gradients' size.
pub(super) fn collect(
    device: &mut dyn Device,
    (network, trace): (&Network, &Trace),
    images: (&Images, usize),
    (acceptable, codec): (f64, &str),
) -> Result<Collected, TrainingError> {
    let mut statistics = vec![None; network.tensors().len()];
    look_inside(device, network, images, |id, in_core| {
        if let Some((input, layer)) = of_op(network, id, in_core) {
            statistics[input.index()] = Some(layer);
        }
    })?;
    let comet = Comet { statistics, acceptable };
    let bounds = comet.bounds(trace);
    let (mut permille, mut shares) = (vec![None; bounds.len()], Vec::new());
    look_inside(device, network, images, |id, in_core| {
        for made in network.op(id).writes.iter().filter(|made| is_compressed(network, id, **made)) {
            let wanted = bounds[made.index()].zip(in_core.get(*made));
            shares.extend(wanted.map(|(bound, data)| bound / deviation(data)));
            permille[made.index()] = wanted.and_then(|(bound, data)| {
                let small = within(bound, codec, data)?.0 as usize;
                Some((small * 1000).div_ceil(4 * data.len().max(1)) as u32)
            });
        }
    })?;
    shares.retain(|share| share.is_finite());
    shares.sort_by(f64::total_cmp);
    Ok(Collected { comet, bounds, permille, shares })
}

/// Whether an op makes what COMET compresses: what a convolution makes, or the layer in place on that.
fn is_compressed(network: &Network, id: OpId, made: TensorId) -> bool {
    let forward = || network.ops().iter().filter(|op| op.phase == Phase::Forward);
    let is_over = |tensor| forward().any(|op| op.in_place.is_some_and(|pair| pair.input == tensor));
    let of_convolution = |tensor| {
        forward().any(|op| op.work.kind == OpKind::Convolution && op.writes.contains(&tensor))
    };
    let below = network.op(id).in_place.map_or(made, |pair| pair.input);
    network.op(id).phase == Phase::Forward && of_convolution(below) && !is_over(made)
}

/// Those of the convolution whose weights' gradient the op just made; nothing for other ops.
fn of_op(network: &Network, id: OpId, in_core: &InCore) -> Option<(TensorId, LayerStatistics)> {
    let op = network.op(id);
    let Step::ConvolutionWeights(convolution) = &op.step else { return None };
    let [input, gradient] = *op.reads.as_slice() else { return None };
    let weights = in_core.get(*op.writes.first()?)?;
    let (x, dy) = (in_core.get(input)?, in_core.get(gradient)?);
    // The gradient of the bias has a value for each channel.
    let channels = network.tensor(*op.writes.get(1)?).elements;
    let layer = LayerStatistics {
        gradient: mean(weights.iter().map(|g| f64::from(g.abs()))),
        loss_gradient: loss_weight(dy, dy.len() / (network.batch * channels).max(1)),
        batch: network.batch as u32,
        nonzero: convolution.nonzero_share((x, dy)),
    };
    Some((input, layer))
}

/// The standard deviation of some numbers.
pub(crate) fn deviation(data: &[f32]) -> f64 {
    let values = || data.iter().map(|value| f64::from(*value));
    let centre = mean(values());
    mean(values().map(|value| (value - centre).powi(2))).sqrt()
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
        assert_eq!(layers.len(), 12);
        for (tensor, layer) in layers {
            let name = &network.tensor(tensor).name;
            assert_eq!(layer.batch, 2, "{name}");
            assert!(
                layer.gradient > 0.0 && layer.loss_gradient > 0.0 && layer.nonzero > 0.0,
                "{name}: {layer:?}"
            );
            assert!(layer.nonzero < 1.0, "{name}: padding is zero: {layer:?}");
        }
    }
}
