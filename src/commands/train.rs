//! `tidegate train`

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use codecs::CodecId;
use experiments::fits::sample_and_fit;
use experiments::page::PendingPage;
use experiments::train::{
    Summary, TENSORS, TEST_BATCHES, Trainer, Way, codecs_of, images, lossless, text, train,
};
use profiler::codec_samples::Sampling;
use profiler::machine::measure_machine;
use profiler::profile::{Measuring, measure_ops};
use reports::{Report, Trained};
use runtime::training::{Course, classifier};
use scenarios::Budget;
use schema::CodecModels;

use crate::device_args::DeviceArgs;
use crate::exit::{Exit, OrExit, Result, WithExit, ended, usage};
use crate::output::{Format, print, print_json};
use crate::progress::Bar;

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
    ways: Vec<WayArg>,

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

/// A way, as it is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WayArg(Way);

impl ValueEnum for WayArg {
    fn value_variants<'a>() -> &'a [Self] {
        const { &[Self(Way::ALL[0]), Self(Way::ALL[1]), Self(Way::ALL[2]), Self(Way::ALL[3])] }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.about()))
    }
}

/// Measures, plans, trains, and shows.
pub fn run(args: &Args) -> Result {
    let ways: Vec<Way> = args.ways.iter().map(|way| way.0).collect();
    for (index, way) in ways.iter().enumerate() {
        if ways[..index].contains(way) {
            return Err(usage(format!("--ways names `{}` twice", way.name())));
        }
    }
    let images = images(args.device.seed);
    let network = classifier(&images, args.batch as usize).or_exit(Exit::Failed)?;
    let how = args.device.measuring()?;
    how.target.room_to_train(&network)?;
    let page = args.output.as_deref().map(PendingPage::create).transpose()?;
    let bar = Bar::new("train");
    let models = codec_models(args, &ways, &how, &bar)?;
    let machine = measure_machine(&how, &bar)?.machine;
    let (trace, _) = measure_ops(&network, "tidegate train".into(), &how, &machine, &bar)?;
    let peak = simulator::in_core(&trace).peak;
    let trainer = Trainer {
        target: &how.target,
        monitor: &bar,
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
    let done = train(&trainer, &ways)?;
    let lossless = lossless(&done);
    let trained: Vec<Trained> =
        done.iter().filter_map(|done| Some(done.outcome.as_ref().ok()?.0.clone())).collect();
    match args.format {
        Format::Text => print(text(&trainer, peak, &done, lossless))?,
        Format::Json => print_json(&Summary {
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
        (Some(false), _) => Err(ended(Exit::NotProven, "a lossless codec changed what was learnt")),
        (_, Some(error)) => {
            let error = anyhow::anyhow!("{error}").context("a way has no plan");
            Err(WithExit { exit: Exit::Infeasible, error })
        }
        _ => Ok(()),
    }
}

/// Models of the codecs that the ways need, or of those that were named.
fn codec_models(args: &Args, ways: &[Way], how: &Measuring, bar: &Bar) -> Result<CodecModels> {
    let codecs: Vec<CodecId> = match args.device.sampled.as_slice() {
        [] => codecs_of(ways),
        named => named.to_vec(),
    };
    if codecs.is_empty() {
        let (device, source) = ("none".into(), "none".into());
        return Ok(CodecModels { device, source, models: Vec::new() });
    }
    let sampling = Sampling { codecs: &codecs, sizes: &TENSORS, shares: 7, runs: 2, seed: 0 };
    Ok(sample_and_fit(&sampling, &how.target, bar)?.1)
}
