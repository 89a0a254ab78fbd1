//! A network that was trained in one of several ways.

use schema::{Bytes, Nanos};
use serde::Serialize;

/// What became of a network that was trained in some way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trained {
    /// The way: what plans made of the network's memory.
    pub way: String,
    /// The method that planned.
    pub method: String,
    /// The codecs that its plans used, in the order in which they came up.
    pub codecs: Vec<String>,
    /// The loss of each iteration.
    pub losses: Vec<f32>,
    /// Mean loss of each epoch.
    pub epoch_losses: Vec<f64>,
    /// After each epoch, the share of the test's images whose class the network tells.
    pub accuracies: Vec<f64>,
    /// Iterations before the budget held: they kept everything, for statistics.
    pub in_core_iterations: usize,
    /// End of the highest address of the arena that was in use while the budget held.
    pub arena_bytes: Bytes,
    /// Median time of the iterations while the budget held.
    pub iteration_ns: Nanos,
    /// What such an iteration copied out and in, in the mean.
    pub copied_bytes: Bytes,
    /// How often data did worse than was reserved for its compressed form, and was moved or kept as
    /// it is.
    pub fallbacks: u64,
    /// What else there is to say about it, in sentences.
    pub notes: Vec<String>,
}

impl Trained {
    /// Mean loss of the last epoch.
    pub fn final_loss(&self) -> f64 {
        self.epoch_losses.last().copied().unwrap_or(f64::NAN)
    }

    /// Accuracy after the last epoch.
    pub fn final_accuracy(&self) -> f64 {
        self.accuracies.last().copied().unwrap_or(0.0)
    }
}
