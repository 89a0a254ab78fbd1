//! Bayesian ridge regression.
//!
//! linfa has none. MacKay, "Bayesian Interpolation" (1992), as scikit-learn's `BayesianRidge`,
//! which CSWAP+ section 6.4 compares with: the precisions of the weights, alpha, and of the noise,
//! beta, are those under which the samples are most likely, found by iteration. Two features, the
//! bytes of the tensor and of its compressed form, both standardised.

use crate::Sample;
use crate::method::Regression;

const ITERATIONS: usize = 300;
/// Precisions stay below this, so that samples on a plane divide by no zero.
const LARGEST: f64 = 1e12;

/// Features and target, standardised.
type Standard = ([f64; 2], f64);

/// A plane over the bytes of the tensor and of its compressed form.
pub(crate) struct BayesianRidge {
    mean: [f64; 2],
    scale: [f64; 2],
    weights: [f64; 2],
    mean_ms: f64,
}

/// Mean and standard deviation; 1 for what does not vary.
pub(crate) fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let deviation = (values.map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
    (mean, if deviation > 0.0 { deviation } else { 1.0 })
}

impl BayesianRidge {
    pub(crate) fn fit(samples: &[Sample]) -> Self {
        let features = |s: &Sample| [s.mib(), s.mib() * s.ratio()];
        let column = |index: usize| moments(samples.iter().map(move |s| features(s)[index]));
        let (columns, (mean_ms, deviation)) =
            ([column(0), column(1)], moments(samples.iter().map(Sample::ms)));
        let (mean, scale) = (columns.map(|c| c.0), columns.map(|c| c.1));
        let standard = |s: &Sample| {
            let x = features(s);
            [0, 1].map(|i| (x[i] - mean[i]) / scale[i])
        };
        let rows: Vec<Standard> =
            samples.iter().map(|s| (standard(s), (s.ms() - mean_ms) / deviation)).collect();
        let sum = |term: &dyn Fn(&Standard) -> f64| rows.iter().map(term).sum::<f64>();
        let xx =
            [sum(&|(x, _)| x[0] * x[0]), sum(&|(x, _)| x[0] * x[1]), sum(&|(x, _)| x[1] * x[1])];
        let xy = [sum(&|(x, y)| x[0] * y), sum(&|(x, y)| x[1] * y)];
        let (mut alpha, mut beta, mut weights) = (1.0, 1.0, [0.0; 2]);
        for _ in 0..ITERATIONS {
            // A = alpha I + beta X'X; weights = beta A^-1 X'y.
            let (a, b, d) = (alpha + beta * xx[0], beta * xx[1], alpha + beta * xx[2]);
            let determinant = a * d - b * b;
            weights = [
                beta * (d * xy[0] - b * xy[1]) / determinant,
                beta * (a * xy[1] - b * xy[0]) / determinant,
            ];
            // gamma: how many of the weights the samples determine, 2 - alpha trace(A^-1).
            let gamma = (2.0 - alpha * (a + d) / determinant).clamp(0.0, 2.0);
            let left = sum(&|(x, y)| (y - weights[0] * x[0] - weights[1] * x[1]).powi(2));
            let size = weights[0].powi(2) + weights[1].powi(2);
            alpha = (gamma / size).clamp(1.0 / LARGEST, LARGEST);
            beta = ((rows.len() as f64 - gamma) / left).clamp(1.0 / LARGEST, LARGEST);
        }
        Self { mean, scale, weights: weights.map(|w| w * deviation), mean_ms }
    }
}

impl Regression for BayesianRidge {
    fn predict(&self, mib: f64, ratio: f64) -> f64 {
        let x = [mib, mib * ratio];
        let term = |i: usize| self.weights[i] * (x[i] - self.mean[i]) / self.scale[i];
        self.mean_ms + term(0) + term(1)
    }
}
