//! `tidegate study`

use std::path::PathBuf;

use experiments::study::{self, Options, Over, Partition};

use crate::exit::{Result, unless};
use crate::networks::RankArgs;
use crate::output::{Format, print};
use crate::progress::Bar;

/// Plan every point of a study; what is done stays done
#[derive(clap::Args)]
pub struct Args {
    /// A bundled study (see `list studies`) or a file (.toml)
    #[arg(value_name = "STUDY")]
    study: String,

    /// Folder of the results; points that it holds already are not planned again. Any number of
    /// processes may share one
    #[arg(long, short, value_name = "FOLDER", required_unless_present = "list")]
    output: Option<PathBuf>,

    /// So many GPUs copy over each machine's host link at once, and each has its share of it
    #[arg(long, value_name = "GPUS")]
    share_link: Option<u32>,

    #[command(flatten)]
    ranks: RankArgs,

    /// List the points instead
    #[arg(long, conflicts_with_all = ["output", "status", "point", "partition", "also", "jobs"])]
    list: bool,

    /// Say which points have results instead
    #[arg(long, conflicts_with_all = ["point", "partition", "jobs"])]
    status: bool,

    /// Plan one point alone, by its number from 0 [where only `--point` is written: that of HQ_ENTRY, HQ_TASK_ID
    /// or SLURM_ARRAY_TASK_ID]
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, conflicts_with_all = ["partition", "also", "jobs"])]
    point: Option<Option<usize>>,

    /// Plan one part of the points only: 1/4 or slice:1/4 for every fourth, or hash:1/4, which has the
    /// same points however many others the study has
    #[arg(long, value_name = "[slice:|hash:]PART/PARTS")]
    partition: Option<Partition>,

    /// Folders with results of other partitions, to read together with these
    #[arg(long, value_delimiter = ',', value_name = "FOLDERS")]
    also: Vec<PathBuf>,

    /// Points to plan at a time [default: as many as there are cores]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// How to print what the results come to, or --list and --status; of results, JSON has the numbers of
    /// the study's paper
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let (share_link, RankArgs { ranks, shard, net_link }) = (args.share_link, args.ranks.clone());
    let study = study::read(&args.study, &Over { share_link, net_link, ranks, shard })?;
    if args.list {
        let points = study::list(&study);
        return args.format.show(&points, || study::list_text(&points));
    }
    let options = Options {
        folder: args.output.clone().unwrap_or_default(),
        also: args.also.clone(),
        partition: args.partition.unwrap_or(Partition::WHOLE),
        jobs: args.jobs.map(usize::from),
    };
    if args.status {
        let status = study::status(&study, &options)?;
        return args.format.show(&status, || status.to_string());
    }
    let bar = Bar::new(&study.name);
    if let Some(number) = args.point {
        let number = number.map_or_else(study::task, Ok)?;
        return print(study::run_point(&study, &options.folder, number, &bar)?);
    }
    let outcome = study::run(&study, &options, &bar)?;
    args.format.show(&outcome, || outcome.text.clone())?;
    unless(outcome.interrupted, "interrupted; what is done is kept")
}
