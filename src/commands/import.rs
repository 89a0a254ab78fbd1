//! `tidegate import`

use std::path::PathBuf;

use profiler::import::{Figures, Format as Kind, ImportOptions, Recording};
use reports::columns;
use schema::file::read_bytes;
use schema::{Document, PendingFile, Trace};
use serde::Serialize;
use simulator::in_core;

use crate::exit::{Exit, OrExit, Result};
use crate::inputs::InPlace;
use crate::output::{Format, print_json, tell};

/// Import a recording of another tool as a trace
///
/// Recordings are told apart by what is in them, and read from gzip and tar archives as they are: of
/// PyTorch, files of torch.profiler (`kineto`), execution traces (`execution-trace`) and snapshots of
/// the CUDA allocator (`memory-snapshot`, which make no trace); op logs of the DTR prototype (`dtr`) and
/// per-op profiles of MONeT (`opgraph`).
#[derive(clap::Args)]
pub struct Args {
    /// The recording; `-` is the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The kind of recording: kineto, execution-trace, memory-snapshot, dtr or opgraph [default: as
    /// the file looks]
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

/// What came of a recording.
#[derive(Serialize)]
struct Summary<'a> {
    kind: &'static str,
    network: Option<&'a str>,
    ops: usize,
    tensors: usize,
    time_ns: u64,
    in_core_peak_bytes: u64,
    constant_bytes: u64,
    #[serde(flatten)]
    figures: &'a Figures,
    notes: &'a [String],
}

impl<'a> Summary<'a> {
    fn of(Recording { format, trace, figures }: &'a Recording) -> Self {
        let summary = Self {
            kind: format.name(),
            network: None,
            ops: 0,
            tensors: 0,
            time_ns: 0,
            in_core_peak_bytes: figures.recorded_peak_bytes.unwrap_or(0),
            constant_bytes: 0,
            figures,
            notes: &figures.notes,
        };
        let Some(trace) = trace else { return summary };
        let in_core = in_core(trace);
        Self {
            network: Some(&trace.network),
            ops: trace.ops.len(),
            tensors: trace.tensors.len(),
            time_ns: in_core.iteration.0,
            in_core_peak_bytes: in_core.peak.0,
            constant_bytes: in_core.fixed.0,
            notes: &trace.provenance.notes,
            ..summary
        }
    }

    /// The same for a person.
    fn text(&self, title: String) -> String {
        let mut rows = vec![vec![title, String::new(), String::new()]];
        let bytes = |value: u64| schema::Bytes(value).to_string();
        let mut row = |name: &str, exact: u64, shown: String| {
            rows.push(vec![name.into(), exact.to_string(), shown]);
        };
        if self.network.is_some() {
            row("ops", self.ops as u64, String::new());
            row("tensors", self.tensors as u64, String::new());
            row("time, ns", self.time_ns, schema::Nanos(self.time_ns).to_string());
            row("in-core peak, B", self.in_core_peak_bytes, bytes(self.in_core_peak_bytes));
            row("constants, B", self.constant_bytes, bytes(self.constant_bytes));
        }
        if self.has_events() {
            row("allocations", self.figures.allocations, String::new());
            row("frees", self.figures.frees, String::new());
            row("unmatched", self.figures.unmatched, String::new());
        }
        let figures = self.figures;
        for (name, value) in [
            ("recorded peak, B", figures.recorded_peak_bytes),
            ("reserved peak, B", figures.reserved_peak_bytes),
            ("reserved, predicted, B", figures.predicted_reserved_bytes),
            ("reserved, from empty, B", figures.reserved_from_empty_bytes),
        ] {
            value.into_iter().for_each(|value| row(name, value, bytes(value)));
        }
        if let Some(alike) = figures.placed_alike {
            row("placed where they were", alike, format!("of {}", figures.allocations));
        }
        let mut text = columns(&rows);
        for holder in &self.figures.at_peak {
            let (held, count) = (bytes(holder.bytes), holder.allocations);
            text += &format!("at the peak: {held} in {count} from {}\n", holder.place);
        }
        for note in self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }

    /// Whether the recording itself has allocations; elsewhere they are what the trace makes.
    fn has_events(&self) -> bool {
        self.figures.recorded_peak_bytes.is_some()
    }
}

/// Imports and shows what came of it.
pub fn run(args: &Args) -> Result {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let bytes = read_bytes(&args.file)?;
    let times = match &args.times {
        Some(file) => Some((read_bytes(file)?, file.clone())),
        None => None,
    };
    let options = ImportOptions {
        network: args.network.clone(),
        in_place: args.in_place.into(),
        step: args.step,
        times,
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
            let title = recording.trace.as_ref().map_or_else(|| summary.kind.into(), Trace::title);
            // A summary is for a person who looks on; the standard output may be the trace.
            tell(summary.text(title));
            Ok(())
        }
    }
}
