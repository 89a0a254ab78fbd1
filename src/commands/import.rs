//! `tidegate import`

use std::path::PathBuf;

use profiler::import::{Format as Kind, ImportOptions};
use reports::columns;
use schema::{Document, PendingFile, file::read_text};
use simulator::in_core;

use crate::exit::{Exit, OrExit, Result};
use crate::inputs::InPlace;
use crate::output::tell;

/// Import a recording of another tool as a trace
///
/// Recordings are op logs of the DTR prototype (`dtr`: one JSON object a line) and per-op profiles
/// of MONeT (`opgraph`).
#[derive(clap::Args)]
pub struct Args {
    /// The recording; `-` is the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The kind of recording: dtr or opgraph [default: as the file looks]
    #[arg(long, value_name = "KIND")]
    from: Option<Kind>,

    /// The network's name [default: as the recording states, or the file's name]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,

    /// How in-place ops are taken. As recorded, each makes a tensor of its own: what the
    /// recordings state, and what results published for them rest on
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// Where to write the trace; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Imports and shows what came of it.
pub fn run(args: &Args) -> Result {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let text = read_text(&args.file)?;
    let options = ImportOptions { network: args.network.clone(), in_place: args.in_place.into() };
    let trace =
        profiler::import::import(&text, &args.file, args.from, &options).or_exit(Exit::Usage)?;
    if let Some(output) = output {
        output.finish(trace.to_json().as_bytes())?;
    }
    let in_core = in_core(&trace);
    let row =
        |name: &str, exact: u64, shown: String| vec![name.to_string(), exact.to_string(), shown];
    let mut rows = vec![vec![trace.title(), String::new(), String::new()]];
    rows.push(vec!["ops".into(), trace.ops.len().to_string()]);
    rows.push(vec!["tensors".into(), trace.tensors.len().to_string()]);
    rows.push(row("time, ns", in_core.iteration.0, in_core.iteration.to_string()));
    rows.push(row("in-core peak, B", in_core.peak.0, in_core.peak.to_string()));
    rows.push(row("constants, B", in_core.fixed.0, in_core.fixed.to_string()));
    // A summary is for a person who looks on; the standard output may be the trace.
    tell(columns(&rows));
    for note in &trace.provenance.notes {
        tell(format_args!("note: {note}\n"));
    }
    Ok(())
}
