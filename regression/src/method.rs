//! The regressions that are held against each other.

use crate::piecewise::Piecewise;
use crate::ridge::BayesianRidge;
use crate::sample::check;
use crate::svm::Svm;
use crate::tree::Tree;
use crate::{FitError, Sample};

/// A regression of time over size and ratio. Those of CSWAP+ section 6.4: its own, and three that
/// it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Linear regressions, one for each of several ranges of the ratio (CSWAP+ section 5.4).
    Piecewise,
    /// Bayesian ridge regression.
    BayesianRidge,
    /// A regression tree.
    Tree,
    /// Support vector regression with a Gaussian kernel.
    Svm,
}

impl Method {
    /// All of them, the one that CSWAP+ chooses first.
    pub const ALL: [Self; 4] = [Self::Piecewise, Self::BayesianRidge, Self::Tree, Self::Svm];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Piecewise => "piecewise linear",
            Self::BayesianRidge => "Bayesian ridge",
            Self::Tree => "regression tree",
            Self::Svm => "SVM",
        }
    }
}

/// A fitted regression.
pub(crate) trait Regression {
    /// Milliseconds for a tensor of so many MiB that becomes the share `ratio` of itself.
    fn predict(&self, mib: f64, ratio: f64) -> f64;

    /// Ratios at which predictions jump, ascending; none where they do not, or not at few.
    fn borders(&self) -> Vec<f64> {
        Vec::new()
    }
}

/// Fits a method to samples of one codec in one direction.
pub(crate) fn fit(method: Method, samples: &[Sample]) -> Result<Box<dyn Regression>, FitError> {
    check(samples)?;
    Ok(match method {
        Method::Piecewise => Box::new(Piecewise::fit(samples)?),
        Method::BayesianRidge => Box::new(BayesianRidge::fit(samples)),
        Method::Tree => Box::new(Tree::fit(samples)),
        Method::Svm => Box::new(Svm::fit(samples)?),
    })
}
