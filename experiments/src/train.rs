//! One small network, trained under one memory budget in several ways: what codecs do to loss and
//! accuracy.
//!
//! The network tells ten kinds of stripes apart under noise: six convolutions and a linear layer. Every way
//! begins with the same weights and sees the same images.

mod statistics;
mod table;
mod trainer;
mod ways;

use codecs::CodecId;
use planner::PlanError;
use reports::Trained;
use runtime::training::{Constants, Images};
use schema::Bytes;

use crate::{Error, Result};

pub use table::{Summary, text};
pub use trainer::Trainer;
pub use ways::Way;

/// Rows and columns of the images, their colours, and the noise: enough of it that a few hundred
/// iterations do not tell all images right, so that lines can differ.
pub fn images(seed: u64) -> Images {
    Images { side: 16, channels: 3, noise: 2.0, seed }
}

/// Batches of other images that the network is tested with after each epoch.
pub const TEST_BATCHES: usize = 10;

/// Sizes of the tensors that codecs are sampled on: those of this network. Few, for it is the curves
/// that are looked at, and times only beside them.
pub const TENSORS: [Bytes; 3] = [Bytes(64 << 10), Bytes(256 << 10), Bytes(1 << 20)];

/// A way that the network was trained in.
pub struct Done {
    /// The way.
    pub way: Way,
    /// What was learnt, or why there is no plan.
    pub outcome: std::result::Result<(Trained, Constants), PlanError>,
}

/// Trains the network in each way.
///
/// # Errors
/// If anything fails but to find a plan.
pub fn train(trainer: &Trainer, ways: &[Way]) -> Result<Vec<Done>> {
    let train = |way: &Way| {
        let outcome = match way.train(trainer) {
            Ok(trained) => Ok(trained),
            Err(Error::Plan(error)) => Err(error),
            Err(error) => return Err(error),
        };
        Ok(Done { way: *way, outcome })
    };
    ways.iter().map(train).collect()
}

/// The codecs that ways choose from where nobody named any.
pub fn codecs_of(ways: &[Way]) -> Vec<CodecId> {
    let needed = ways.iter().flat_map(|way| way.codecs());
    needed.map(|name| name.parse().expect("a test reads them all")).collect()
}

/// Whether ways that lose nothing learnt the same: losses, accuracies and weights, bit for bit. None
/// where there are no two of them.
pub fn lossless(done: &[Done]) -> Option<bool> {
    let mut ways = done.iter().filter(|done| done.way.is_lossless());
    let mut outcomes = ways.by_ref().filter_map(|done| done.outcome.as_ref().ok());
    let (first, constants) = outcomes.next()?;
    let bits = |way: &Trained| way.losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>();
    let same = |(other, others): &(Trained, Constants)| {
        bits(other) == bits(first) && other.accuracies == first.accuracies && others == constants
    };
    outcomes.map(same).reduce(|all, one| all && one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::Nanos;

    fn done(way: Way, losses: &[f32], accuracy: f64) -> Done {
        let trained = Trained {
            way: way.name().into(),
            method: "sc".into(),
            codecs: Vec::new(),
            losses: losses.into(),
            epoch_losses: Vec::new(),
            accuracies: vec![accuracy],
            in_core_iterations: 0,
            arena_bytes: Bytes(1),
            iteration_ns: Nanos(1),
            copied_bytes: Bytes(0),
            fallbacks: 0,
            notes: Vec::new(),
        };
        Done { way, outcome: Ok((trained, Constants::default())) }
    }

    #[test]
    fn ways_that_lose_nothing_must_learn_the_same() {
        let in_core = || done(Way::InCore, &[2.0, 1.0], 0.5);
        let all = |other| lossless(&[in_core(), other]);
        assert_eq!(all(done(Way::Zvc, &[2.0, 1.0], 0.5)), Some(true));
        assert_eq!(all(done(Way::Zvc, &[2.0, 1.0000001], 0.5)), Some(false));
        assert_eq!(all(done(Way::Zvc, &[2.0, 1.0], 0.6)), Some(false));
        assert_eq!(all(done(Way::Sz, &[2.0, 3.0], 0.1)), None, "lossy ways are not compared");
    }
}
