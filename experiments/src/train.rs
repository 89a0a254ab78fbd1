//! One small network, trained under one memory budget in several ways: what codecs do to loss and
//! accuracy.
//!
//! The network tells ten kinds of stripes apart under noise: twelve convolutions, three batch norms and a
//! linear layer. Every way begins with the same weights and sees the same images.

mod forms;
mod statistics;
mod table;
mod trainer;
mod ways;

use networks::Efficiencies;
use planner::{Monitor, PlanError};
use profiler::MeasureError;
use profiler::device::Target;
use reports::Trained;
use runtime::network::{Measured, Network};
use runtime::profile::zeros;
use runtime::training::{Constants, Course, Images, classifier};
use scenarios::{Budget, codec_models, machine};
use schema::{Bytes, Machine, Origin, Provenance, Trace};

use crate::{Error, Result};
use trainer::Trainer;

pub(crate) use forms::{compressed, within};
pub(crate) use statistics::deviation;
pub use table::Summary;
pub use ways::Way;

/// The machine that plans are made for, whatever trains: the GPU of CSWAP+, whose codecs have stated rates.
/// Times and rates are models, so that no clock has a say in what is learnt.
const PLANNED_FOR: &str = "cswap-v100";

/// Rows and columns of the images, their colours, and the noise: enough of it that a few hundred
/// iterations do not tell all images right, so that lines can differ.
const SIDE: usize = 16;
const COLOURS: usize = 3;
const NOISE: f32 = 2.0;

/// Batches of other images that the network is tested with after each epoch.
const TEST_BATCHES: usize = 10;

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
    /// How many trainings there are of each way.
    pub seeds: u64,
    /// What the first one's weights and images are drawn from; the others' follow it.
    pub seed: u64,
}

/// What came of all ways.
pub struct Trainings {
    /// For programs.
    pub summary: Summary,
    /// For people.
    pub text: String,
    no_plan: Option<PlanError>,
}

struct Done {
    way: Way,
    outcome: std::result::Result<(Trained, Constants), PlanError>,
}

/// Plans and trains the network in each way, seed after seed.
///
/// # Errors
/// If anything fails but to find a plan.
pub fn train(asked: &Asked, target: &Target, monitor: &dyn Monitor) -> Result<Trainings> {
    for (index, way) in asked.ways.iter().enumerate() {
        if asked.ways[..index].contains(way) {
            return Err(Error::Twice("--ways", way.name().into()));
        }
    }
    let machine = machine(PLANNED_FOR).expect("bundled");
    let mut seeds = Vec::new();
    for seed in asked.seed..asked.seed.saturating_add(asked.seeds) {
        seeds.push(one_seed(asked, (target, &machine), seed, monitor)?);
    }
    Ok(Trainings::of(asked, &machine, seeds))
}

struct Seed {
    seed: u64,
    network: String,
    peak: Bytes,
    budget: Bytes,
    done: Vec<Done>,
}

fn one_seed(
    asked: &Asked,
    (target, machine): (&Target, &Machine),
    seed: u64,
    monitor: &dyn Monitor,
) -> Result<Seed> {
    let images = Images { side: SIDE, channels: COLOURS, noise: NOISE, seed };
    let network = classifier(&images, asked.batch)?;
    target.room_to_train(&network)?;
    let trace = modelled(&network, machine, seed)?;
    let peak = simulator::in_core(&trace).peak;
    let trainer = Trainer {
        target,
        monitor,
        network: &network,
        trace: &trace,
        machine,
        models: &codec_models(machine),
        images,
        course: Course {
            epochs: asked.epochs,
            batches: asked.batches,
            test_batches: TEST_BATCHES,
            after: 0,
        },
        budget: Budget::resolve(Some(asked.budget), machine, peak),
        refresh: asked.refresh,
        seed,
    };
    let train = |way: &Way| {
        monitor.step(&format!("{} from seed {seed}", way.name()));
        match way.train(&trainer) {
            Ok(trained) => Ok(Done { way: *way, outcome: Ok(trained) }),
            Err(Error::Plan(error)) => Ok(Done { way: *way, outcome: Err(error) }),
            Err(error) => Err(error),
        }
    };
    let done = asked.ways.iter().map(train).collect::<Result<Vec<_>>>()?;
    Ok(Seed { seed, network: network.name.clone(), peak, budget: trainer.budget, done })
}

/// The network's trace with modelled times, and with the zeros of its first iteration, counted.
fn modelled(network: &Network, machine: &Machine, seed: u64) -> Result<Trace> {
    let (efficiencies, on) = (Efficiencies::bundled(), &machine.device.compute);
    let measured = Measured {
        durations: network.ops().iter().map(|op| efficiencies.time(&op.work, on)).collect(),
        sparsity: zeros(network, 1, seed).map_err(MeasureError::from)?,
    };
    let of = Provenance::new(Origin::Modelled, machine.device.name.clone(), "tidegate train");
    Ok(network.trace(&measured, of))
}

impl Trainings {
    fn of(asked: &Asked, machine: &Machine, seeds: Vec<Seed>) -> Self {
        let equal = seeds.iter().filter_map(|seed| lossless(&seed.done));
        let lossless_equal = equal.reduce(|all, one| all && one);
        let text = table::text(asked, machine, &seeds, lossless_equal);
        let first = seeds.first();
        let (in_core_peak_bytes, budget_bytes) =
            first.map_or((Bytes::ZERO, Bytes::ZERO), |seed| (seed.peak, seed.budget));
        let mut ways = Vec::new();
        let mut no_plan = None;
        for done in seeds.into_iter().flat_map(|seed| seed.done) {
            match done.outcome {
                Ok((trained, _)) => ways.push(trained),
                Err(error) => no_plan = no_plan.or(Some(error)),
            }
        }
        let spread = table::spreads(asked, &ways);
        let summary = Summary { in_core_peak_bytes, budget_bytes, lossless_equal, spread, ways };
        Self { summary, text, no_plan }
    }

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

    fn done(way: Way, losses: &[f32], accuracy: f64) -> Done {
        let trained = Trained {
            way: way.name().into(),
            losses: losses.into(),
            accuracies: vec![accuracy],
            ..Trained::default()
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
        assert_eq!(
            all(done(Way::named("sz").expect("a way"), &[2.0, 3.0], 0.1)),
            None,
            "lossy ways are not compared"
        );
    }
}
