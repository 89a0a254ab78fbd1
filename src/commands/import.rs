//! `tidegate import`

use std::path::PathBuf;

use experiments::imported::Summary;
use profiler::import::{Format as Kind, ImportOptions};
use schema::file::read_bytes;
use schema::{Document, PendingFile};

use crate::exit::{Exit, OrExit, Result};
use crate::inputs::InPlace;
use crate::output::{Format, print_json, tell};

/// Import a recording of another tool as a trace
///
/// Recordings are told apart by what is in them, and read from gzip and tar archives as they are: of
/// PyTorch, files of torch.profiler (`kineto`), execution traces (`execution-trace`) and snapshots of
/// the CUDA allocator (`memory-snapshot`, which make no trace); op logs of the DTR prototype (`dtr`),
/// per-op profiles of MONeT (`opgraph`) and tables of op times (`op-times`, with their labels beside).
#[derive(clap::Args)]
pub struct Args {
    /// The recording; `-` is the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The kind of recording: kineto, execution-trace, memory-snapshot, dtr, opgraph or op-times
    /// [default: as the file looks]
    #[arg(long, value_name = "KIND")]
    from: Option<Kind>,

    /// The iteration of a profile or an execution trace, by its number [default: the median by time]
    #[arg(long, value_name = "N")]
    step: Option<u64>,

    /// The profile of the same run that has an execution trace's times
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,

    /// The network's name [default: as the recording states, or the file's name]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,

    /// How in-place ops of DTR logs and opgraphs are taken. As recorded, each makes a tensor of its
    /// own: what the recordings state, and what results published for them rest on
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// Where to write the trace; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How to print what came of it: a text on the standard error, or JSON on the standard output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Imports and shows what came of it.
pub fn run(args: &Args) -> Result {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let bytes = read_bytes(&args.file)?;
    let times = args.times.clone().map(|file| read_bytes(&file).map(|bytes| (bytes, file)));
    let options = ImportOptions {
        network: args.network.clone(),
        in_place: args.in_place.into(),
        step: args.step,
        times: times.transpose()?,
    };
    let recording =
        profiler::import::import(&bytes, &args.file, args.from, &options).or_exit(Exit::Usage)?;
    let taken = output.as_ref().is_some_and(PendingFile::is_stdout);
    if let (Some(output), Some(trace)) = (output, &recording.trace) {
        output.finish(trace.to_json().as_bytes())?;
    }
    let summary = Summary::of(&recording);
    match args.format {
        // The trace has the standard output to itself.
        Format::Json if taken => Ok(()),
        Format::Json => print_json(&summary),
        Format::Text => {
            // A summary is for a person who looks on; the standard output may be the trace.
            tell(summary.text());
            Ok(())
        }
    }
}
