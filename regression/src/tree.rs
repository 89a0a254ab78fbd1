//! A regression tree (CART; Breiman et al., 1984). The trees of linfa classify only.

use crate::Sample;
use crate::method::Regression;

/// Samples of a leaf, at least.
const LEAF: usize = 2;

/// Splits by size or ratio where that leaves the least squared error, down to leaves, which give
/// the mean of their samples.
pub(crate) enum Tree {
    Leaf(f64),
    Split { by_ratio: bool, at: f64, below: Box<Tree>, above: Box<Tree> },
}

impl Tree {
    pub(crate) fn fit(samples: &[Sample]) -> Self {
        Self::grow(samples.to_vec())
    }

    fn grow(mut samples: Vec<Sample>) -> Self {
        let mean = samples.iter().map(Sample::ms).sum::<f64>() / samples.len() as f64;
        let mut best: Option<(f64, bool, usize)> = None;
        for by_ratio in [false, true] {
            samples.sort_by(|a, b| value(a, by_ratio).total_cmp(&value(b, by_ratio)));
            // Of the best split, the sums on both sides make the most of squares over counts.
            let total: f64 = samples.iter().map(|s| s.ms() - mean).sum();
            let mut below = 0.0;
            for at in 1..samples.len() {
                below += samples[at - 1].ms() - mean;
                let same = value(&samples[at - 1], by_ratio) == value(&samples[at], by_ratio);
                if same || at < LEAF || samples.len() - at < LEAF {
                    continue;
                }
                let above = total - below;
                let gain = below * below / at as f64 + above * above / (samples.len() - at) as f64;
                if gain > best.map_or(1e-12, |(gain, ..)| gain) {
                    best = Some((gain, by_ratio, at));
                }
            }
        }
        let Some((_, by_ratio, at)) = best else { return Self::Leaf(mean) };
        samples.sort_by(|a, b| value(a, by_ratio).total_cmp(&value(b, by_ratio)));
        let rest = samples.split_off(at);
        let border = (value(&samples[at - 1], by_ratio) + value(&rest[0], by_ratio)) / 2.0;
        let (below, above) = (Box::new(Self::grow(samples)), Box::new(Self::grow(rest)));
        Self::Split { by_ratio, at: border, below, above }
    }
}

fn value(sample: &Sample, by_ratio: bool) -> f64 {
    if by_ratio { sample.ratio() } else { sample.mib() }
}

impl Regression for Tree {
    fn predict(&self, mib: f64, ratio: f64) -> f64 {
        match self {
            Self::Leaf(ms) => *ms,
            Self::Split { by_ratio, at, below, above } => {
                let value = if *by_ratio { ratio } else { mib };
                if value < *at { below } else { above }.predict(mib, ratio)
            }
        }
    }
}
