//! Support vector regression, by linfa.

use linfa::Dataset;
use linfa::traits::{Fit, Predict};
use ndarray::{Array1, Array2};

use crate::method::Regression;
use crate::ridge::moments;
use crate::{FitError, Method, Sample};

/// What an error costs, and the error that costs nothing, in standard deviations of the time.
const COST: f64 = 10.0;
const FREE: f64 = 0.01;
/// The kernel is `exp(-|x - y|^2 / WIDTH)`: scikit-learn's width for two standardised features.
const WIDTH: f64 = 2.0;

/// Support vector regression of the standardised time over standardised size and ratio.
pub(crate) struct Svm {
    model: linfa_svm::Svm<f64, f64>,
    mib: (f64, f64),
    ratio: (f64, f64),
    ms: (f64, f64),
}

impl Svm {
    pub(crate) fn fit(samples: &[Sample]) -> Result<Self, FitError> {
        let mib = moments(samples.iter().map(Sample::mib));
        let ratio = moments(samples.iter().map(Sample::ratio));
        let ms = moments(samples.iter().map(Sample::ms));
        let records = Array2::from_shape_fn((samples.len(), 2), |(row, column)| match column {
            0 => standard(samples[row].mib(), mib),
            _ => standard(samples[row].ratio(), ratio),
        });
        let targets: Array1<f64> = samples.iter().map(|s| standard(s.ms(), ms)).collect();
        let model = linfa_svm::Svm::<f64, f64>::params()
            .c_svr(COST, Some(FREE))
            .gaussian_kernel(WIDTH)
            .fit(&Dataset::new(records, targets))
            .map_err(|error| FitError::NoSolution {
                method: Method::Svm.name(),
                why: error.to_string(),
            })?;
        Ok(Self { model, mib, ratio, ms })
    }
}

fn standard(value: f64, (mean, deviation): (f64, f64)) -> f64 {
    (value - mean) / deviation
}

impl Regression for Svm {
    fn predict(&self, mib: f64, ratio: f64) -> f64 {
        let at = [standard(mib, self.mib), standard(ratio, self.ratio)];
        let records = Array2::from_shape_fn((1, 2), |(_, column)| at[column]);
        let predicted: Array1<f64> = self.model.predict(&records);
        self.ms.0 + self.ms.1 * predicted[0]
    }
}
