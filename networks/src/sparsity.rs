//! How many zeros tensors hold: as they were counted while the network trained (`zeros.toml`), else by a model of what
//! CSWAP+ prints for VGG16 (section 3.1, figure 2): 20 % to 80 % over layers and epochs; the fourth ReLU goes from
//! 50 % to 80 %; the fourth pooling stays under 45 %.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::layer::{Compute, Network};

/// What was counted of a network, which holds for its other sizes, too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    /// Said for the reader of the file.
    #[allow(dead_code)]
    source: String,
    /// Thousandths of the outputs of ReLU and max pooling, after each of the epochs that a training has, by layer.
    zeros_permille: BTreeMap<String, Vec<u32>>,
}

/// By the network's name without its data.
static COUNTED: LazyLock<BTreeMap<String, Counted>> =
    LazyLock::new(|| toml::from_str(include_str!("../zeros.toml")).expect("a test reads it"));

impl Counted {
    /// The share of zeros of a layer's output, on a line between epochs.
    fn share(&self, layer: &str, progress: f64) -> Option<f64> {
        let epochs = self.zeros_permille.get(layer)?;
        let at = progress.clamp(0.0, 1.0) * epochs.len().checked_sub(1)? as f64;
        let [before, after] =
            [at.floor(), at.ceil()].map(|epoch| f64::from(epochs[epoch as usize]));
        Some((before + at.fract() * (after - before)) / 1e3)
    }
}

/// The least and the most that the paper shows.
const RANGE: (f64, f64) = (0.2, 0.8);
/// The fourth ReLU is the fifth of VGG16's 20 ReLU and pooling outputs; 0 is the first, 1 the last.
const FOURTH_RELU: f64 = 4.0 / 19.0;
/// What it has at first, and what it gains.
const FOURTH_RELU_AT_FIRST: f64 = 0.5;
const GAIN: f64 = 0.3;
/// How fast the gain comes: most of it in the first fifth of the training, as in figure 2.
const HASTE: f64 = 5.0;
/// A pooled element is zero only where its whole window is. 0.45 / 0.8 would let the fourth
/// pooling reach 45 %.
const POOLED: f64 = 0.55;

/// Share of zeros in the output of a ReLU at `depth` (0 the first, 1 the last of the network)
/// when the training has come to `progress` (0 the first epoch, 1 the last).
///
/// At first s = 0.2 + 0.6 (1 - 2^(-depth / d)), d being where VGG16's fourth ReLU is, which so
/// begins at 50 %; the gain is 0.3 (1 - e^(-5 progress)) / (1 - e^-5), and 80 % is the
/// end of it. Both are
/// stated shapes through the figures that the paper prints; between them they are a guess.
pub fn sparsity(depth: f64, progress: f64) -> f64 {
    let (least, most) = RANGE;
    let (depth, progress) = (depth.clamp(0.0, 1.0), progress.clamp(0.0, 1.0));
    let span = most - least;
    let left = (most - FOURTH_RELU_AT_FIRST) / span;
    let at_first = most - span * left.powf(depth / FOURTH_RELU);
    let gain = GAIN * (-HASTE * progress).exp_m1() / (-HASTE).exp_m1();
    // Rounding may leave the range by a little.
    (at_first + gain).clamp(least, most)
}

/// Share of zeros in each layer's output. What is neither made by a ReLU nor copied from one is
/// dense.
pub(crate) fn of_layers(network: &Network) -> Vec<f64> {
    let relu = |compute: &Compute| match compute {
        Compute::Activation(activation) => activation.makes_zeros(),
        _ => false,
    };
    let makes = |compute: &Compute| relu(compute) || matches!(compute, Compute::MaxPool(_));
    let count = network.layers.iter().filter(|layer| makes(&layer.compute)).count();
    let progress = network.options.progress;
    let counted = COUNTED.get(network.name.trim_end_matches("-cifar10"));
    let mut passed = 0;
    let mut shares: Vec<f64> = Vec::with_capacity(network.layers.len());
    for layer in &network.layers {
        let depth = passed as f64 / count.saturating_sub(1).max(1) as f64;
        passed += usize::from(makes(&layer.compute));
        let of_input = layer.inputs.first().map_or(0.0, |input| shares[input.0]);
        shares.push(match &layer.compute {
            compute if relu(compute) => {
                let share = counted.and_then(|counted| counted.share(&layer.name, progress));
                share.unwrap_or_else(|| sparsity(depth, progress))
            }
            Compute::MaxPool(_) if of_input > 0.0 => {
                let share = counted.and_then(|counted| counted.share(&layer.name, progress));
                share.unwrap_or_else(|| (of_input * POOLED).max(RANGE.0))
            }
            Compute::View | Compute::Movement(_) => of_input,
            Compute::Dropout { percent } => {
                1.0 - (1.0 - of_input) * (1.0 - f64::from(*percent) / 100.0)
            }
            Compute::Concat => {
                let sizes = layer.inputs.iter().map(|input| {
                    let size = super::layer::elements(&network.layers[input.0].shape) as f64;
                    (size * shares[input.0], size)
                });
                let (zeros, all) = sizes.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
                zeros / all
            }
            _ => 0.0,
        });
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetworkOptions;

    #[test]
    fn what_was_counted_is_of_layers_that_there_are() {
        for (name, counted) in COUNTED.iter() {
            for progress in [0.0, 0.5, 1.0] {
                let options = NetworkOptions { batch: 1, progress, ..NetworkOptions::default() };
                let network = crate::network(name, &options).expect("it comes with tidegate");
                let layer = |layer: &str| network.layers.iter().position(|l| l.name == layer);
                let shares = of_layers(&network);
                for (of, permille) in &counted.zeros_permille {
                    let at = layer(of).unwrap_or_else(|| panic!("{name} has no {of}"));
                    let is_pool = !matches!(network.layers[at].compute, Compute::Activation(_));
                    let epoch = (progress * (permille.len() - 1) as f64) as usize;
                    let [low, high] = [epoch, epoch + usize::from(progress == 0.5)]
                        .map(|epoch| f64::from(permille[epoch]) / 1e3);
                    let within = low.min(high) - 1e-9..=low.max(high) + 1e-9;
                    assert!(
                        is_pool || within.contains(&shares[at]),
                        "{name}, {of}: {}",
                        shares[at]
                    );
                }
            }
        }
    }
}
