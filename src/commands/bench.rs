//! `tidegate bench`

mod codecs;
mod plan;

use experiments::bench::{Bench, Measured, replays};
use schema::Trace;

use crate::exit::Result;
use crate::inputs::{InPlace, read_trace};
use crate::output::Format;

/// Measure tidegate itself
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Time in-core replays: of traces, and of synthetic ones up to a million ops
    Replay(ReplayArgs),
    /// Time codecs on synthetic tensors, as ratios to a naive loop, to LZ4 and to one thread; on CUDA to
    /// copies within its memory
    Codecs(codecs::Args),
    /// Time planning: how long each method takes, and how many decisions it evaluates a second
    Plan(Box<plan::Args>),
}

#[derive(clap::Args)]
struct ReplayArgs {
    /// Traces, as for `plan` [default: those that are bundled]
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,

    /// How in-place ops are taken where a trace is a recording
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// Ops of the largest synthetic trace; 0 leaves them out
    #[arg(long, value_name = "OPS", default_value_t = 1_000_000)]
    sweep: u64,

    /// How to print the figures
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    match &args.what {
        What::Replay(args) => {
            let traces = traces(&args.traces, |name| read_trace(name, args.in_place, None))?;
            show(&replays(&traces, args.sweep), args.format)
        }
        What::Codecs(args) => codecs::run(args),
        What::Plan(args) => plan::run(args),
    }
}

/// The traces of these names; without one those that are bundled.
fn traces(names: &[String], read: impl Fn(&str) -> Result<Trace>) -> Result<Vec<(String, Trace)>> {
    let bundled = || scenarios::traces().map(str::to_string).collect();
    let names = if names.is_empty() { bundled() } else { names.to_vec() };
    names.into_iter().map(|name| read(&name).map(|trace| (name, trace))).collect()
}

fn show<M: Measured>(bench: &Bench<M>, format: Format) -> Result {
    format.show(&bench.rows, || bench.text())
}
