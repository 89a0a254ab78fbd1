//! `tidegate study`

use std::path::PathBuf;

use experiments::study::{self, Options, Partition};

use crate::exit::Result;
use crate::output::Format;
use crate::progress::points;

/// Plan every point of a study; what is done stays done
#[derive(clap::Args)]
pub struct Args {
    /// A bundled study (see `list studies`) or a file (.toml)
    #[arg(value_name = "STUDY")]
    study: String,

    /// Folder of the results; points that it holds already are not planned again
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,

    /// Plan one part of the points only, such as 1/4, so that several machines share the work
    #[arg(long, value_name = "PART/PARTS")]
    partition: Option<Partition>,

    /// Folders with results of other partitions, to read together with these
    #[arg(long, value_delimiter = ',', value_name = "FOLDERS")]
    also: Vec<PathBuf>,

    /// Points to plan at a time [default: as many as there are cores]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// How to print what the results come to; JSON has the numbers of the study's paper
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let options = Options {
        folder: args.output.clone(),
        also: args.also.clone(),
        partition: args.partition.unwrap_or(Partition::WHOLE),
        jobs: args.jobs.map(usize::from),
    };
    let outcome = study::run(&study::read(&args.study)?, &options, &points())?;
    args.format.show(&outcome, || outcome.text.clone())
}
