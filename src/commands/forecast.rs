//! `tidegate forecast`

use std::path::PathBuf;

use experiments::forecast::{List, forecasts, read_all, table};
use experiments::recipes::efficiencies;

use crate::exit::Result;
use crate::output::{Format, tell};

/// Say what the time model makes of recordings that it has not seen, beside what they say
///
/// For the same network, batch and element type on the same GPU; where the model was fitted on it, by a
/// fit that was not (`seen` in JSON). A table of op times lies in a folder with the device's name, and the
/// times of iterations beside it; an execution trace has the summary.json of its runs or its profile
/// beside it; of a DTR log or an opgraph, a list says what it is of. What cannot be forecast is named.
#[derive(clap::Args)]
pub struct Args {
    /// Recordings: tables of op times (.csv), files of torch.profiler, execution traces or the
    /// summary.json of their runs, DTR logs, opgraphs
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,

    /// What all of them ran on [default: as each says]
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,

    /// A TOML file of what recordings are of [default: networks/efficiency-samples.toml]
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,

    /// Efficiencies that `fit` wrote [default: networks/efficiencies.toml]
    #[arg(long, value_name = "FILE")]
    efficiencies: Option<PathBuf>,

    /// How to print the forecasts
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reads the recordings, and shows what the model says of each.
pub fn run(args: &Args) -> Result {
    let list = args.list.as_deref().map(List::read).transpose()?.unwrap_or_else(List::bundled);
    let by = efficiencies(args.efficiencies.as_deref())?;
    let (known, left_out) = read_all(&args.recordings, &list, args.machine.as_deref())?;
    tell(left_out);
    let forecasts = forecasts(&known, &by);
    args.format.show(&forecasts, || table(&forecasts))
}
