//! What is in memory before the first iteration.

use rayon::prelude::*;
use schema::TensorId;

use super::{Initial, Network, bf16};
use crate::layers::dropout::{GOLDEN, mix};
use crate::layers::{cell_from_index, cells_from_seed};

/// Cells that one thread draws at once.
const PIECE: usize = 1 << 16;

fn fill(initial: Initial, random: &mut Random, data: &mut [f32]) {
    match initial {
        Initial::Constant(value) => data.fill(value),
        // Side by side, with the numbers that one after the other would have.
        Initial::Uniform(bound) => {
            data.par_chunks_mut(PIECE).enumerate().for_each(|(piece, data)| {
                let mut random = random.clone();
                random.skip((piece * PIECE) as u64);
                data.fill_with(|| random.uniform(bound));
            })
        }
        Initial::Classes(classes) => {
            data.fill_with(|| cell_from_index((random.next() % classes.max(1) as u64) as u32));
        }
        Initial::Positions(length) => {
            let positions = (0..length.max(1) as u32).cycle();
            data.iter_mut().zip(positions).for_each(|(cell, at)| *cell = cell_from_index(at));
        }
        Initial::Seed => {
            let cells = cells_from_seed(random.next());
            data.iter_mut().zip(cells).for_each(|(to, cell)| *to = cell);
        }
    }
}
impl Network {
    /// Fills `data` with what the tensor holds before the first iteration: drawn from `seed` and
    /// the tensor's id, so that it does not depend on the order of calls. A tensor that an op
    /// writes holds nothing yet; `data` then stays as it is.
    pub fn initialise(&self, tensor: TensorId, seed: u64, data: &mut [f32]) {
        let mut random = Random::new(seed ^ (u64::from(tensor.0) << 32));
        if let Some(initial) = self.tensor(tensor).initial {
            fill(initial, &mut random, data);
        }
        if self.tensor(tensor).is_narrow() {
            bf16::round(data);
        }
    }

    /// Fills `data` with what the seed of dropout is to be in an iteration, counted from zero: the
    /// same for the same `seed` and iteration, and what [`Network::initialise`] writes for the
    /// first. Whoever trains writes it into the tensor that is `dropout_seed` before each iteration.
    pub fn reseed(&self, seed: u64, iteration: u64, data: &mut [f32]) {
        if let Some(tensor) = self.dropout_seed() {
            let mut random = Random::new(seed ^ (u64::from(tensor.0) << 32));
            random.skip(iteration);
            fill(Initial::Seed, &mut random, data);
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
        self.skip(1);
        mix(self.0)
    }

    /// Leaves out the next so many.
    pub fn skip(&mut self, count: u64) {
        self.0 = self.0.wrapping_add(GOLDEN.wrapping_mul(count));
    }

    /// The next number between `-bound` and `bound`, of 2^24 evenly spaced ones.
    pub fn uniform(&mut self, bound: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u32 << 24) as f32;
        (2.0 * unit - 1.0) * bound
    }
}
