//! What COMET collects of a network in training.

use codecs::{CodecId, Dims, ErrorBound, Layout, TensorView, codec};
use planner::methods::{Comet, LayerStatistics, loss_weight};
use runtime::device::Device;
use runtime::network::{Network, Step};
use runtime::profile::InCore;
use runtime::training::{Images, TrainingError, look_inside};
use schema::{Dtype, OpId, Phase, TensorId, Trace};

/// What the next plan follows from.
#[derive(Default)]
pub(super) struct Collected {
    /// The method, with the statistics of each convolution by the tensor that it reads.
    pub comet: Comet,
    /// The error bound of each tensor that has one.
    pub bounds: Vec<Option<f64>>,
    /// What SZ makes of it within that bound, in thousandths of its size.
    pub permille: Vec<Option<u32>>,
}

/// Two iterations beside the device with its weights, on the batch that it ran last (section 3.1 of
/// COMET): one for the statistics, and one in which what is to be compressed is, so that the plan knows the ratio
/// ("based on the previous compression ratio", section 3.4).
pub(super) fn collect(
    device: &mut dyn Device,
    (network, trace): (&Network, &Trace),
    images: (&Images, usize),
) -> Result<Collected, TrainingError> {
    let mut statistics = vec![None; network.tensors().len()];
    look_inside(device, network, images, |id, in_core| {
        if let Some((input, layer)) = of_op(network, id, in_core) {
            statistics[input.index()] = Some(layer);
        }
    })?;
    let comet = Comet { statistics };
    let bounds = comet.bounds(trace);
    let mut permille = vec![None; bounds.len()];
    look_inside(device, network, images, |id, in_core| {
        for made in network.op(id).writes.iter().filter(|_| network.op(id).phase == Phase::Forward)
        {
            let bound = bounds[made.index()].and_then(ErrorBound::new);
            permille[made.index()] =
                bound.zip(in_core.get(*made)).and_then(|(bound, data)| share(bound, data));
        }
    })?;
    Ok(Collected { comet, bounds, permille })
}

/// What SZ makes of some numbers, in thousandths of their size.
fn share(bound: ErrorBound, data: &[f32]) -> Option<u32> {
    let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
    let sz = codec(CodecId::Sz { bound, dims: Dims::One }).ok()?;
    let layout = Layout::new(Dtype::F32, &[data.len()]).ok()?;
    let mut payload = vec![0; sz.worst_case(&layout)];
    let length = sz.compress(TensorView::new(&layout, &bytes).ok()?, &mut payload).ok()?;
    Some((length * 1000).div_ceil(bytes.len().max(1)) as u32)
}

/// Those of the convolution whose weights' gradient the op just made; nothing for other ops.
fn of_op(network: &Network, id: OpId, in_core: &InCore) -> Option<(TensorId, LayerStatistics)> {
    let op = network.op(id);
    let Step::ConvolutionWeights(_) = op.step else { return None };
    let [input, gradient] = *op.reads.as_slice() else { return None };
    let weights = in_core.get(*op.writes.first()?)?;
    let (x, dy) = (in_core.get(input)?, in_core.get(gradient)?);
    // The gradient of the bias has a value for each channel.
    let channels = network.tensor(*op.writes.get(1)?).elements;
    let layer = LayerStatistics {
        gradient: mean(weights.iter().map(|g| f64::from(g.abs()))),
        loss_gradient: loss_weight(dy, dy.len() / (network.batch * channels).max(1)),
        batch: network.batch as u32,
        nonzero: mean(x.iter().map(|x| if *x == 0.0 { 0.0 } else { 1.0 })),
    };
    Some((input, layer))
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
            assert_eq!(layer.batch, 2, "{name}");
            assert!(
                layer.gradient > 0.0 && layer.loss_gradient > 0.0 && layer.nonzero > 0.0,
                "{name}: {layer:?}"
            );
            assert_eq!(layer.nonzero == 1.0, name == "images", "{name}: {layer:?}");
        }
    }
}
