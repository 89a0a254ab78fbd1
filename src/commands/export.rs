//! `tidegate export`

use std::path::{Path, PathBuf};

use experiments::plan_trace::computed_trace;
use experiments::policy::Policy;
use schema::{Document, PendingFile, Plan, Timeline, Trace};

use crate::exit::Result;
use crate::inputs::{InPlace, read_trace};

/// Show a timeline with another tool, or say a plan in the words of another framework
#[derive(clap::Args)]
pub struct Args {
    /// The timeline, or for a policy or modules the plan; `-` is the standard input
    #[arg(value_name = "TIMELINE|PLAN")]
    input: PathBuf,

    /// What to make of it
    #[arg(long, value_enum)]
    to: Target,

    /// For a picture, the trace, whose phases get colours of their own; for a policy or modules, the
    /// trace that the plan was made for, where that is not bundled
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,

    /// How in-place ops are taken where TRACE is a recording and belongs to a picture
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// Width of a picture, in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 960, value_parser = clap::value_parser!(u32).range(480..=8000))]
    width: u32,

    /// Where to write it; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// What a timeline or a plan can be exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// A timeline as a trace that opens in the Perfetto UI (ui.perfetto.dev) and in chrome://tracing.
    Perfetto,
    /// A timeline as a picture.
    Svg,
    /// A plan as what PyTorch's selective checkpointing is told of each forward op, by its key.
    CheckpointPolicy,
    /// A plan as the modules that are mostly recomputed, and those that are mostly copied.
    Modules,
}

pub fn run(args: &Args) -> Result {
    let output = PendingFile::create(&args.output)?;
    let text = match args.to {
        Target::Perfetto => reports::perfetto(&Timeline::read(&args.input)?),
        Target::Svg => {
            let timeline = Timeline::read(&args.input)?;
            let trace = args.trace.as_deref();
            let trace = trace.map(|name| read_trace(name, args.in_place, None)).transpose()?;
            reports::timeline_svg(&timeline, args.width, &|op| {
                trace.as_ref().and_then(|trace| trace.ops.get(op.index())).map(|op| op.phase)
            })
        }
        Target::CheckpointPolicy => {
            let (plan, trace) = planned(&args.input, args.trace.as_deref())?;
            Policy::of_ops(&plan, &trace)?.to_json()
        }
        Target::Modules => {
            let (plan, trace) = planned(&args.input, args.trace.as_deref())?;
            Policy::of_modules(&plan, &trace).to_json()
        }
    };
    Ok(output.finish(text.as_bytes())?)
}

/// A plan and the trace that it was made for.
fn planned(file: &Path, trace: Option<&str>) -> Result<(Plan, Trace)> {
    let plan = Plan::read(file)?;
    let trace = computed_trace(&plan, file, trace)?;
    Ok((plan, trace))
}
