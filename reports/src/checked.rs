//! Plans that were run, each beside its prediction.

use schema::Nanos;

/// A plan that was run.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The network, with its options.
    pub network: String,
    /// Its budget as a share of the in-core peak, in percent.
    pub budget_percent: f64,
    /// The method.
    pub method: String,
    /// Time of one iteration, measured.
    pub measured: Nanos,
    /// Time of one iteration, predicted.
    pub predicted: Nanos,
    /// Measured time over the measured in-core time.
    pub measured_slowdown: f64,
    /// Predicted time over the predicted in-core time.
    pub predicted_slowdown: f64,
    /// The arena was used up to the address that was predicted.
    pub arena_as_predicted: bool,
}

impl Checked {
    /// How far the predicted time is off, as a share of the measured one; positive where it is
    /// longer.
    pub fn error(&self) -> f64 {
        (self.predicted.0 as f64 - self.measured.0 as f64) / self.measured.0.max(1) as f64
    }
}
