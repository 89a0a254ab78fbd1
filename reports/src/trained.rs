//! A network that was trained in one of several ways.

use schema::Bytes;
use serde::Serialize;

/// What became of a network that was trained in some way.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Trained {
    /// The way: what plans made of the network's memory.
    pub way: String,
    /// What its weights and images were drawn from.
    pub seed: u64,
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
    /// What such an iteration copied out and in, in the mean.
    pub copied_bytes: Bytes,
    /// How often data did worse than was reserved for its compressed form, and was moved or kept as
    /// it is.
    pub fallbacks: u64,
    /// What codecs made of each tensor at the end of each epoch.
    pub applied: Vec<Applied>,
    /// What else there is to say about it, in sentences.
    pub notes: Vec<String>,
}

/// What a codec made of a tensor of one batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Applied {
    pub iterations: usize,
    pub tensor: String,
    /// The codec, with its rate or bound.
    pub codec: String,
    pub raw_bytes: Bytes,
    pub compressed_bytes: Bytes,
    /// What the plan reserves for that. Where it is less, the tensor itself is spilled to the host.
    pub reserved_bytes: Bytes,
}

impl Applied {
    /// How many times smaller the codec made it.
    pub fn ratio(&self) -> f64 {
        self.raw_bytes.0 as f64 / self.compressed_bytes.0.max(1) as f64
    }
}

impl Trained {
    /// How many times smaller codecs made what they were applied to, over the course; none where they were not.
    pub fn ratio(&self) -> Option<f64> {
        let sum = |of: fn(&Applied) -> Bytes| self.applied.iter().map(of).sum::<Bytes>().0 as f64;
        let raw = Some(sum(|applied| applied.raw_bytes)).filter(|raw| *raw > 0.0);
        raw.map(|raw| raw / sum(|applied| applied.compressed_bytes).max(1.0))
    }

    /// What did worse than was reserved for, at the ends of epochs, as a share of what codecs were applied to.
    pub fn spilled(&self) -> f64 {
        let raw = |spilled: bool| {
            let of =
                self.applied.iter().filter(|a| !spilled || a.compressed_bytes > a.reserved_bytes);
            of.map(|applied| applied.raw_bytes).sum::<Bytes>().0 as f64
        };
        raw(true) / raw(false).max(1.0)
    }

    /// Mean loss of the last epoch.
    pub fn final_loss(&self) -> f64 {
        self.epoch_losses.last().copied().unwrap_or(f64::NAN)
    }

    /// Accuracy after the last epoch.
    pub fn final_accuracy(&self) -> f64 {
        self.accuracies.last().copied().unwrap_or(0.0)
    }
}
