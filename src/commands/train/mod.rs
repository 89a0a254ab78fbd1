//! `tidegate train`

mod statistics;
mod table;
mod trainer;
mod ways;

use std::path::PathBuf;

use codecs::CodecId;
use reports::{Report, Trained};
use runtime::training::{Constants, Course, Images, classifier};
use scenarios::Budget;
use schema::{Bytes, CodecModels};

use crate::codec_samples::Sampling;
use crate::device_args::DeviceArgs;
use crate::exit::{Exit, OrExit, Result, WithExit, usage};
use crate::measured::device::room_to_train;
use crate::measured::profile::{Measuring, measure_machine, measure_ops, sample_and_fit};
use crate::output::{Format, print, print_json};
use crate::page::PendingPage;
use crate::progress::Bar;
use trainer::{NotTrained, Trainer};
use ways::Way;

/// Train a small network under a memory budget with several codecs, and show what that does to
/// loss and accuracy
///
/// The network tells ten kinds of stripes apart under noise: six convolutions and a linear layer. Every
/// way begins with the same weights and sees the same images.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArgs,

    /// What plans make of the network's memory, one after the other
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "WAYS",
        default_value = "in-core,zvc,zfp,sz"
    )]
    ways: Vec<Way>,

    /// Images per iteration
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,

    /// How often the images are gone through
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,

    /// Iterations of an epoch
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batches: u32,

    /// Device memory of every way but in-core: an amount, or a share of the in-core peak
    #[arg(long, short, value_name = "BUDGET", default_value = "88%")]
    budget: Budget,

    /// Iterations after which COMET's error bounds are set for the first time, and between two times as
    /// long as bounds settle; the paper's 1000 are more than a short training has
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    refresh: u32,

    /// A folder for a page with the figures; it is made where there is none
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,

    /// How to print what came of it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

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

/// Shares of zeros of these tensors, and runs of which the fastest counts.
const SHARES: u32 = 7;
const RUNS: u32 = 2;

/// A way that the network was trained in.
struct Done {
    way: Way,
    outcome: std::result::Result<(Trained, Constants), planner::PlanError>,
}

/// Measures, plans, trains, and shows.
pub fn run(args: &Args) -> Result {
    for (index, way) in args.ways.iter().enumerate() {
        if args.ways[..index].contains(way) {
            return Err(usage(format!("--ways names `{}` twice", way.name())));
        }
    }
    let images = Images { side: SIDE, channels: COLOURS, noise: NOISE, seed: args.device.seed };
    let network = classifier(&images, args.batch as usize).or_exit(Exit::Failed)?;
    room_to_train(args.device.on, &network)?;
    let page = args.output.as_deref().map(PendingPage::create).transpose()?;
    let models = codec_models(args)?;
    let without_codecs = DeviceArgs { sampled: Vec::new(), ..args.device.clone() };
    let machine = measure_machine(&without_codecs)?.machine;
    let how = Measuring { args: &args.device, graph: false, budget: None };
    let (trace, _) = measure_ops(&network, "tidegate train".into(), how, &machine)?;
    let peak = simulator::in_core(&trace).peak;
    let trainer = Trainer {
        on: args.device.on,
        network: &network,
        trace: &trace,
        machine: &machine,
        models: &models,
        images,
        course: Course {
            epochs: args.epochs as usize,
            batches: args.batches as usize,
            test_batches: TEST_BATCHES,
        },
        budget: Budget::resolve(Some(args.budget), &machine, peak),
        refresh: args.refresh,
        seed: args.device.seed,
    };
    let mut done = Vec::new();
    for way in &args.ways {
        let outcome = match way.train(&trainer) {
            Ok(trained) => Ok(trained),
            Err(NotTrained::NoPlan(error)) => Err(error),
            Err(NotTrained::Ended(end)) => return Err(end),
        };
        done.push(Done { way: *way, outcome });
    }
    let lossless = lossless(&done);
    let trained: Vec<Trained> =
        done.iter().filter_map(|done| Some(done.outcome.as_ref().ok()?.0.clone())).collect();
    match args.format {
        Format::Text => print(table::text(&trainer, peak, &done, lossless))?,
        Format::Json => print_json(&table::Summary {
            in_core_peak_bytes: peak,
            budget_bytes: trainer.budget,
            lossless_equal: lossless,
            ways: &trained,
        })?,
    }
    let missing = done.iter().find_map(|done| done.outcome.as_ref().err());
    if let Some(page) = page {
        let report = Report { trainings: trained, ..Report::default() };
        let (page, figures) = page.finish(&report)?;
        if let Format::Text = args.format {
            print(format!("{}: {figures} figures\n", page.display()))?;
        }
    }
    match (lossless, missing) {
        (Some(false), _) => {
            let error = anyhow::anyhow!("a lossless codec changed what was learnt");
            Err(WithExit { exit: Exit::NotProven, error })
        }
        (_, Some(error)) => {
            let error = anyhow::anyhow!("{error}").context("a way has no plan");
            Err(WithExit { exit: Exit::Infeasible, error })
        }
        _ => Ok(()),
    }
}

/// Models of the codecs that the ways need, or of those that were named.
fn codec_models(args: &Args) -> Result<CodecModels> {
    let needed = args.ways.iter().flat_map(|way| way.codecs());
    let codecs: Vec<CodecId> = match args.device.sampled.as_slice() {
        [] => needed.map(|name| name.parse().expect("a test reads them all")).collect(),
        named => named.to_vec(),
    };
    if codecs.is_empty() {
        let (device, source) = ("none".into(), "none".into());
        return Ok(CodecModels { device, source, models: Vec::new() });
    }
    let sampling =
        Sampling { codecs: &codecs, sizes: &TENSORS, shares: SHARES, runs: RUNS, seed: 0 };
    Ok(sample_and_fit(&sampling, args.device.on, &Bar::new("codecs"))?.1)
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
