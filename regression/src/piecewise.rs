//! Linear regressions, one for each of several ranges of the ratio.
//!
//! CSWAP+ section 5.4: sub-model i is trained on the samples whose ratio lies in `[Ratio_base +
//! R*i/n, Ratio_base + R*(i+1)/n)`, 0 <= i < n. `Ratio_base` and `R` are here the least ratio of
//! the samples and the range that they span. The paper's sub-models are linear in size and ratio;
//! ours are linear in the bytes of the tensor and of its compressed form, so that the ratio's
//! effect grows with the size, and bend at two sizes: caches make small tensors quicker. A
//! sub-model with too few samples takes in its neighbours'.

use std::collections::BTreeSet;

use linfa::Dataset;
use linfa::traits::Fit;
use linfa_linear::LinearRegression;
use ndarray::{Array1, Array2};

use crate::method::Regression;
use crate::{FitError, Method, Sample};

/// Sub-models; the paper does not state its n.
const MODELS: usize = 6;
/// Samples that a sub-model needs: twice its coefficients.
const LEAST: usize = 10;
/// Sizes that samples have, so that lines bend.
const SIZES: usize = 5;
/// Ratios that differ by less cannot be told from one.
const SAME_RATIO: f64 = 5e-3;

/// Sub-models by ascending ratio.
pub(crate) struct Piecewise {
    base: f64,
    width: f64,
    /// Sizes at which the lines bend, ascending, in MiB.
    bends: Vec<f64>,
    models: Vec<Linear>,
}

/// Milliseconds: at no bytes, per raw MiB, per raw MiB beyond each bend, and per compressed MiB.
struct Linear {
    fixed: f64,
    raw: f64,
    beyond: Vec<f64>,
    compressed: f64,
}

impl Piecewise {
    pub(crate) fn fit(samples: &[Sample]) -> Result<Self, FitError> {
        let ratios = || samples.iter().map(Sample::ratio);
        let base = ratios().fold(f64::INFINITY, f64::min);
        let range = ratios().fold(0.0, f64::max) - base;
        let count = if range < SAME_RATIO { 1 } else { MODELS };
        let mut whole =
            Self { base, width: range / count as f64, bends: bends(samples), models: Vec::new() };
        let mut bands = vec![Vec::new(); count];
        for sample in samples {
            bands[whole.band(sample.ratio(), count)].push(*sample);
        }
        for index in 0..count {
            let mut reach = 0;
            let chosen = loop {
                let near = index.saturating_sub(reach)..(index + reach + 1).min(count);
                let all = near.len() == count;
                let chosen: Vec<Sample> = bands[near].concat();
                if all || is_enough(&chosen, &whole.bends) {
                    break chosen;
                }
                reach += 1;
            };
            whole.models.push(Linear::fit(&chosen, &whole.bends)?);
        }
        Ok(whole)
    }

    fn band(&self, ratio: f64, count: usize) -> usize {
        // A ratio below all others gives a negative number, which becomes 0.
        let band = if count == 1 { 0.0 } else { (ratio - self.base) / self.width };
        (band as usize).min(count - 1)
    }
}

/// A third and two thirds of the way through the samples' sizes, where there are some.
fn bends(samples: &[Sample]) -> Vec<f64> {
    let sizes: BTreeSet<u64> = samples.iter().map(|sample| sample.bytes.0).collect();
    if sizes.len() < SIZES {
        return Vec::new();
    }
    let sizes: Vec<u64> = sizes.into_iter().collect();
    let mib = |index: usize| sizes[index] as f64 / f64::from(1 << 20);
    vec![mib(sizes.len() / 3), mib(sizes.len() * 2 / 3)]
}

/// Whether the samples determine every coefficient: two sizes before the first bend, and one after
/// each.
fn is_enough(samples: &[Sample], bends: &[f64]) -> bool {
    let mut sizes = BTreeSet::new();
    let mut segments = vec![0; bends.len() + 1];
    for sample in samples.iter().filter(|sample| sizes.insert(sample.bytes.0)) {
        segments[bends.iter().filter(|bend| sample.mib() > **bend).count()] += 1;
    }
    samples.len() >= LEAST && segments[0] >= 2 && segments.iter().all(|sizes| *sizes >= 1)
}

impl Regression for Piecewise {
    fn predict(&self, mib: f64, ratio: f64) -> f64 {
        let Linear { fixed, raw, beyond, compressed } =
            &self.models[self.band(ratio, self.models.len())];
        let bent =
            beyond.iter().zip(&self.bends).map(|(slope, bend)| slope * (mib - bend).max(0.0));
        fixed + mib * (raw + compressed * ratio) + bent.sum::<f64>()
    }

    fn borders(&self) -> Vec<f64> {
        (1..self.models.len()).map(|index| self.base + index as f64 * self.width).collect()
    }
}

impl Linear {
    fn fit(samples: &[Sample], bends: &[f64]) -> Result<Self, FitError> {
        let ratios = || samples.iter().map(Sample::ratio);
        let span = ratios().fold(0.0, f64::max) - ratios().fold(f64::INFINITY, f64::min);
        // With one ratio, compressed bytes say nothing that raw ones do not.
        let columns = 1 + bends.len() + usize::from(span >= SAME_RATIO);
        let feature = |(row, column): (usize, usize)| {
            let sample: &Sample = &samples[row];
            match column.checked_sub(1) {
                None => sample.mib(),
                Some(index) => match bends.get(index) {
                    Some(bend) => (sample.mib() - bend).max(0.0),
                    None => sample.mib() * sample.ratio(),
                },
            }
        };
        let records = Array2::from_shape_fn((samples.len(), columns), feature);
        let targets: Array1<f64> = samples.iter().map(Sample::ms).collect();
        let no_solution =
            |why: String| FitError::NoSolution { method: Method::Piecewise.name(), why };
        let fitted = LinearRegression::default()
            .fit(&Dataset::new(records, targets))
            .map_err(|error| no_solution(error.to_string()))?;
        let slopes = fitted.params();
        if !fitted.intercept().is_finite() || slopes.iter().any(|slope| !slope.is_finite()) {
            return Err(no_solution("a coefficient is no number".into()));
        }
        Ok(Self {
            fixed: fitted.intercept(),
            raw: slopes[0],
            beyond: slopes.iter().skip(1).take(bends.len()).copied().collect(),
            compressed: slopes.get(1 + bends.len()).copied().unwrap_or(0.0),
        })
    }
}
