//! `tidegate train`

use std::path::PathBuf;

use clap::builder::PossibleValue;
use experiments::page::PendingPage;
use experiments::train::{Asked, Way, train};
use reports::Report;
use scenarios::Budget;

use crate::device_args::OnDevice;
use crate::exit::Result;
use crate::output::{Format, print};
use crate::progress::Bar;

/// Train a small network under a memory budget with several codecs, and show what that does to
/// loss and accuracy
///
/// The network tells ten kinds of stripes apart under noise: twelve convolutions, three batch norms, a linear layer. Every
/// way begins with the same weights and sees the same images; plans are by stated times, so that each run learns the same.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: OnDevice,

    /// What plans make of the network's memory, one after the other
    #[arg(
        long,
        value_parser = Way::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about)),
        value_delimiter = ',',
        value_name = "WAYS",
        default_value = "in-core,zvc,zfp,sz"
    )]
    ways: Vec<String>,

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
    #[arg(long, short, value_name = "BUDGET", default_value = "60%")]
    budget: Budget,

    /// Iterations after which COMET's error bounds are set for the first time, and between two times as
    /// long as bounds settle; the paper's 1000 are more than a short training has
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    refresh: u32,

    /// How often each way is trained, each time with other weights and images
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Seed of the first training's weights and images; the others follow it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// A folder for a page with the figures; it is made where there is none
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,

    /// How to print what came of it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let asked = Asked {
        ways: args.ways.iter().filter_map(|name| Way::named(name)).collect(),
        batch: args.batch as usize,
        epochs: args.epochs as usize,
        batches: args.batches as usize,
        budget: args.budget,
        refresh: args.refresh,
        seeds: args.seeds,
        seed: args.seed,
    };
    let page = args.output.as_deref().map(PendingPage::create).transpose()?;
    let trained = train(&asked, &args.device.target()?, &Bar::new("train"))?;
    args.format.show(&trained.summary, || trained.text.clone())?;
    let ended = trained.end();
    if let Some(page) = page {
        let report = Report { trainings: trained.summary.ways, ..Report::default() };
        let (page, figures) = page.finish(&report)?;
        if let Format::Text = args.format {
            print(format!("{}: {figures} figures\n", page.display()))?;
        }
    }
    Ok(ended?)
}
