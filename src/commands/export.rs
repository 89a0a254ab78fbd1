//! `tidegate export`

use std::path::PathBuf;

use schema::{Document, PendingFile, Timeline};

use crate::exit::Result;
use crate::inputs::{InPlace, read_trace};

/// Show a timeline with another tool
#[derive(clap::Args)]
pub struct Args {
    /// The timeline; `-` is the standard input
    #[arg(value_name = "TIMELINE")]
    timeline: PathBuf,

    /// What to make of it
    #[arg(long, value_enum)]
    to: Target,

    /// The trace, to tell forward from backward in a picture
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,

    /// How in-place ops are taken where TRACE is a recording
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// Width of a picture, in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 960, value_parser = clap::value_parser!(u32).range(480..=8000))]
    width: u32,

    /// Where to write it; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// What a timeline can be exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// A trace that opens in the Perfetto UI (ui.perfetto.dev) and in chrome://tracing.
    Perfetto,
    /// A picture.
    Svg,
}

pub fn run(args: &Args) -> Result {
    let output = PendingFile::create(&args.output)?;
    let timeline = Timeline::read(&args.timeline)?;
    let trace = args.trace.as_deref().map(|name| read_trace(name, args.in_place)).transpose()?;
    let text = match args.to {
        Target::Perfetto => reports::perfetto(&timeline),
        Target::Svg => reports::timeline_svg(&timeline, args.width, &|op| {
            trace.as_ref().and_then(|trace| trace.ops.get(op.index())).map(|op| op.phase)
        }),
    };
    Ok(output.finish(text.as_bytes())?)
}
