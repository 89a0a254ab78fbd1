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
use planner::{Monitor, PlanError};
use profiler::codec_samples::Sampling;
use profiler::machine::measure_machine;
use profiler::profile::{Measuring, measure_ops};
use reports::Trained;
use runtime::training::{Constants, Course, Images, classifier};
use scenarios::Budget;
use schema::{Bytes, CodecModels};

use crate::fits::sample_and_fit;
use crate::{Error, Result};
use trainer::Trainer;

pub use table::Summary;
pub use ways::Way;

/// Rows and columns of the images, their colours, and the noise: enough of it that a few hundred
/// iterations do not tell all images right, so that lines can differ.
const SIDE: usize = 16;
const COLOURS: usize = 3;
const NOISE: f32 = 2.0;

/// Batches of other images that the network is tested with after each epoch.
const TEST_BATCHES: usize = 10;

/// Sizes of the tensors that codecs are sampled on: those of this network. Few, for it is the curves
/// that are looked at, and times only beside them.
const TENSORS: [Bytes; 3] = [Bytes(64 << 10), Bytes(256 << 10), Bytes(1 << 20)];

/// Which ways the network is trained in, and how long.
pub struct Asked {
    /// The ways, one after the other.
    pub ways: Vec<Way>,
    /// Images per iteration.
    pub batch: usize,
    /// How often the images are gone through.
    pub epochs: usize,
    /// Iterations of an epoch.
    pub batches: usize,
    /// Device memory of every way but in-core.
    pub budget: Budget,
    /// The longest interval in which COMET's bounds are set anew, in iterations.
    pub refresh: u32,
    /// Codecs to choose from; where none is named, those that the ways need.
    pub sampled: Vec<CodecId>,
}

/// What came of all ways.
pub struct Trainings {
    /// For programs.
    pub summary: Summary,
    /// For people.
    pub text: String,
    no_plan: Option<PlanError>,
}

/// A way that the network was trained in.
struct Done {
    way: Way,
    outcome: std::result::Result<(Trained, Constants), PlanError>,
}

/// Measures, plans and trains the network in each way.
///
/// # Errors
/// If anything fails but to find a plan.
pub fn train(asked: &Asked, how: &Measuring, monitor: &dyn Monitor) -> Result<Trainings> {
    let Asked { ways, batch, epochs, batches, budget, refresh, .. } = asked;
    for (index, way) in ways.iter().enumerate() {
        if ways[..index].contains(way) {
            return Err(Error::Twice("--ways", way.name().into()));
        }
    }
    let images = Images { side: SIDE, channels: COLOURS, noise: NOISE, seed: how.seed };
    let network = classifier(&images, *batch)?;
    how.target.room_to_train(&network)?;
    let models = codec_models(asked, how, monitor)?;
    let machine = measure_machine(how, monitor)?.machine;
    let (trace, _) = measure_ops(&network, "tidegate train".into(), how, &machine, monitor)?;
    let peak = simulator::in_core(&trace).peak;
    let trainer = Trainer {
        target: &how.target,
        monitor,
        network: &network,
        trace: &trace,
        machine: &machine,
        models: &models,
        images,
        course: Course { epochs: *epochs, batches: *batches, test_batches: TEST_BATCHES },
        budget: Budget::resolve(Some(*budget), &machine, peak),
        refresh: *refresh,
        seed: how.seed,
    };
    let train = |way: &Way| {
        let outcome = match way.train(&trainer) {
            Ok(trained) => Ok(trained),
            Err(Error::Plan(error)) => Err(error),
            Err(error) => return Err(error),
        };
        Ok(Done { way: *way, outcome })
    };
    let done = ways.iter().map(train).collect::<Result<Vec<_>>>()?;
    let lossless_equal = lossless(&done);
    let text = table::text(&trainer, peak, &done, lossless_equal);
    let no_plan = done.iter().find_map(|done| done.outcome.as_ref().err().cloned());
    let ways = done.into_iter().filter_map(|done| Some(done.outcome.ok()?.0)).collect();
    let (in_core_peak_bytes, budget_bytes) = (peak, trainer.budget);
    let summary = Summary { in_core_peak_bytes, budget_bytes, lossless_equal, ways };
    Ok(Trainings { summary, text, no_plan })
}

impl Trainings {
    /// # Errors
    /// If a lossless codec changed what was learnt, or a way has no plan.
    pub fn end(&self) -> Result<()> {
        match (self.summary.lossless_equal, &self.no_plan) {
            (Some(false), _) => Err(Error::LearntOtherwise),
            (_, Some(error)) => Err(Error::WayWithoutPlan(error.clone())),
            _ => Ok(()),
        }
    }
}

/// Models of the codecs that the ways need, or of those that were named.
fn codec_models(asked: &Asked, how: &Measuring, monitor: &dyn Monitor) -> Result<CodecModels> {
    let needed = asked.ways.iter().flat_map(|way| way.codecs());
    let codecs: Vec<CodecId> = match asked.sampled.as_slice() {
        [] => needed.map(|name| name.parse().expect("a test reads them all")).collect(),
        named => named.to_vec(),
    };
    if codecs.is_empty() {
        let (device, source) = ("none".into(), "none".into());
        return Ok(CodecModels { device, source, models: Vec::new() });
    }
    let sampling =
        Sampling { codecs: &codecs, sizes: &TENSORS, shares: 7, runs: 2, seed: 0, done: &[] };
    Ok(sample_and_fit(&sampling, &how.target, monitor)?.1)
}

/// Whether ways that lose nothing learnt the same: losses, accuracies and weights, bit for bit. None
/// where there are no two of them.
fn lossless(done: &[Done]) -> Option<bool> {
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
