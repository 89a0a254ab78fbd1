//! What is in memory before the first iteration.

use schema::TensorId;

use super::Network;
use crate::layers::cell_from_index;

/// The value of a constant before the first iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Initial {
    /// The same number everywhere.
    Constant(f32),
    /// Uniform between minus and plus this bound.
    Uniform(f32),
    /// Uniform among this many classes, as indices.
    Classes(usize),
}

impl Initial {
    /// Weights that keep the variance of activations from layer to layer behind a ReLU
    /// (He et al. 2015), for a layer that adds up `fan_in` products.
    pub(super) fn weights(fan_in: usize) -> Self {
        Self::Uniform((6.0 / fan_in as f32).sqrt())
    }
}

impl Network {
    /// Fills `data` with what the tensor holds before the first iteration: drawn from `seed` and
    /// the tensor's id, so that it does not depend on the order of calls. A tensor that an op
    /// writes holds nothing yet; `data` then stays as it is.
    pub fn initialise(&self, tensor: TensorId, seed: u64, data: &mut [f32]) {
        let mut random = Random::new(seed ^ (u64::from(tensor.0) << 32));
        match self.tensor(tensor).initial {
            None => {}
            Some(Initial::Constant(value)) => data.fill(value),
            Some(Initial::Uniform(bound)) => data.fill_with(|| random.uniform(bound)),
            Some(Initial::Classes(classes)) => {
                data.fill_with(|| cell_from_index((random.next() % classes as u64) as u32));
            }
        }
    }
}

/// Pseudo-random numbers that are the same on every machine and in every version: SplitMix64
/// (Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// The next number between `-bound` and `bound`, of 2^24 evenly spaced ones.
    pub fn uniform(&mut self, bound: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u32 << 24) as f32;
        (2.0 * unit - 1.0) * bound
    }
}
