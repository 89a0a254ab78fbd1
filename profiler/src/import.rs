//! Others' recordings of iterations as [`Trace`]s, exactly: no time and no byte is lost, and what
//! a recording leaves open is decided in the open, in the trace's notes.
//!
//! Of others' tools:
//!
//! - [`Format::Dtr`], an op log of the DTR prototype (Kirisame et al., *Dynamic Tensor
//!   Rematerialization*, ICLR 2021): a log of calls, references and releases, which is replayed.
//! - [`Format::Opgraph`], a profile per op as MONeT makes them (Shah et al., *Memory Optimization
//!   for Deep Networks*, ICLR 2021): a graph whose lifetimes follow from who reads what.
//! - [`Format::OpTimes`], a table of what the functions of a network's graph took (Lee et al.,
//!   *Forecasting GPU Performance for Deep Learning Training and Inference*, ASPLOS 2025).
//!
//! And of PyTorch, as it writes them or in gzip or a tar archive:
//!
//! - [`Format::Kineto`], a file of its profiler: times, sizes and allocations, from which who reads
//!   what is inferred.
//! - [`Format::ExecutionTrace`]: ops with the storages that they read and write, without times.
//! - [`Format::MemorySnapshot`], the allocator's history: no ops, and so no trace.

mod dtr;
mod error;
mod execution_trace;
mod figures;
mod json;
mod kineto;
mod op_kind;
mod op_times;
mod opgraph;
mod recorded;
mod reserved;
mod snapshot;
mod storages;
mod unpack;

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schema::{Document, Op, Origin, Provenance, Tensor, Trace};

pub use error::ImportError;
pub use figures::{Figures, Holder, Step, TimedOps};
pub use recorded::{Beside, Recorded, RecordedOp, is_op_times, recorded};

/// A kind of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// An op log of the DTR prototype, one JSON object a line (`*.dtr.jsonl`).
    Dtr,
    /// A profile per op, one JSON object (`*.opgraph.json`).
    Opgraph,
    /// A file of PyTorch's profiler (`torch.profiler`).
    Kineto,
    /// An execution trace of PyTorch (`ExecutionTraceObserver`).
    ExecutionTrace,
    /// A snapshot of PyTorch's CUDA memory (`torch.cuda.memory._dump_snapshot`).
    MemorySnapshot,
    /// A table of op times, as NeuSight's labels come.
    OpTimes,
}

impl Format {
    /// All kinds of recordings.
    pub const ALL: [Self; 6] = [
        Self::Dtr,
        Self::Opgraph,
        Self::Kineto,
        Self::ExecutionTrace,
        Self::MemorySnapshot,
        Self::OpTimes,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dtr => "dtr",
            Self::Opgraph => "opgraph",
            Self::Kineto => "kineto",
            Self::ExecutionTrace => "execution-trace",
            Self::MemorySnapshot => "memory-snapshot",
            Self::OpTimes => "op-times",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no kind of recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a kind of recording: write dtr, opgraph, kineto, execution-trace, memory-snapshot or \
     op-times"
)]
pub struct ParseFormatError(String);

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Self, ParseFormatError> {
        let named = Self::ALL.into_iter().find(|format| format.name() == text);
        named.ok_or_else(|| ParseFormatError(text.to_string()))
    }
}

/// The kind of recording that `bytes` look like, unpacked. It only chooses the importer: a damaged
/// recording is still recognised, so that the importer can say where it is damaged.
pub fn detect(bytes: impl AsRef<[u8]>) -> Option<Format> {
    let bytes = bytes.as_ref();
    // What Python's pickle writes since its second protocol.
    if matches!(bytes, [0x80, 2..=5, ..]) {
        return Some(Format::MemorySnapshot);
    }
    if is_op_times(bytes) {
        return Some(Format::OpTimes);
    }
    let text = String::from_utf8_lossy(bytes);
    let has = |part: &str| text.contains(part);
    if has("\"traceEvents\"") {
        Some(Format::Kineto)
    } else if has("\"INSTRUCTION\"") {
        Some(Format::Dtr)
    } else if has("\"opgraph/") {
        Some(Format::Opgraph)
    } else if has("\"nodes\"") && (has("\"rf_id\"") || has("\"ctrl_deps\"")) {
        Some(Format::ExecutionTrace)
    } else {
        None
    }
}

/// What a file holds, without the packing around it.
///
/// # Errors
///
/// Where the packing is damaged.
pub fn unpack<'a>(bytes: &'a [u8], file: &Path) -> Result<Cow<'a, [u8]>, ImportError> {
    unpack::unpack(bytes, file)
}

/// What became of a recording.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Its kind.
    pub format: Format,
    /// The iteration that it holds; absent where it has no ops.
    pub trace: Option<Trace>,
    /// What it says of itself.
    pub figures: Figures,
}

/// How a recording becomes a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The network's name; absent: the one that the recording states, or its file's name.
    pub network: Option<String>,
    /// What becomes of ops that write over an argument.
    pub in_place: InPlaceOps,
    /// The iteration of a profile or execution trace, by its number; absent: the median by time.
    pub step: Option<u64>,
    /// The profile that has an execution trace's times, and what errors call it.
    pub times: Option<(Vec<u8>, PathBuf)>,
}

/// What becomes of ops that the framework runs in place: `MUTATE` in a DTR log, forward ops whose
/// name ends in `_` in an opgraph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum InPlaceOps {
    /// The output is a tensor beside the argument: what the recordings state, and what the results
    /// published for them rest on.
    #[default]
    AsRecorded,
    /// The output takes over the argument's memory ([`schema::Op::in_place`]), as in the framework,
    /// wherever nothing else needs the argument any more.
    Alias,
}

/// Imports a recording. `file` is what errors call it and where many get their network's name
/// from; it is not read. Without a `format` it is told from the bytes.
///
/// # Errors
///
/// Where it is not a whole and consistent recording. No bytes make it panic, and time and memory grow
/// linearly with what is unpacked.
pub fn import(
    bytes: impl AsRef<[u8]>,
    file: &Path,
    format: Option<Format>,
    options: &ImportOptions,
) -> Result<Recording, ImportError> {
    let bytes = unpack(bytes.as_ref(), file)?;
    let is_network = file.extension().is_some_and(|end| end == "onnx" || end == "toml");
    let Some(format) = format.or_else(|| detect(&bytes)) else {
        let file = file.to_path_buf();
        return Err(match is_network {
            true => ImportError::Network(file),
            false => ImportError::UnknownFormat(file),
        });
    };
    let has_steps = matches!(format, Format::Kineto | Format::ExecutionTrace);
    for (option, given, applies) in [
        ("--step", options.step.is_some(), has_steps),
        ("--times", options.times.is_some(), format == Format::ExecutionTrace),
    ] {
        if given && !applies {
            return Err(ImportError::Option(file.into(), option, format));
        }
    }
    let text = || {
        std::str::from_utf8(&bytes).map_err(|why| {
            let problem = format!("it is no text: {why}: copy or record it again");
            ImportError::Content(file.into(), format, problem)
        })
    };
    let recording = match format {
        Format::Dtr => of_trace(format, dtr::import(text()?, file, options)?),
        Format::Opgraph => of_trace(format, opgraph::import(text()?, file, options)?),
        Format::Kineto => kineto::import(&bytes, file, options)?,
        Format::ExecutionTrace => execution_trace::import(&bytes, file, options)?,
        Format::MemorySnapshot => snapshot::import(&bytes, file)?,
        Format::OpTimes => of_trace(format, op_times::import(&bytes, file, options)?),
    };
    if let Some(trace) = &recording.trace {
        trace.check().map_err(|why| ImportError::Invalid(file.into(), why))?;
    }
    Ok(recording)
}

/// The trace of a recording, as [`import`] makes it.
///
/// # Errors
///
/// As [`import`]'s, and where the recording has no ops, so that nothing can be planned.
pub fn import_trace(
    bytes: impl AsRef<[u8]>,
    file: &Path,
    format: Option<Format>,
    options: &ImportOptions,
) -> Result<Trace, ImportError> {
    let recording = import(bytes, file, format, options)?;
    recording.trace.ok_or_else(|| ImportError::NoOps(file.into()))
}

/// A recording whose allocations are its trace's.
fn of_trace(format: Format, trace: Trace) -> Recording {
    let made = trace.ops.iter().map(|op| op.writes.len() as u64).sum();
    let freed = trace.ops.iter().map(|op| op.frees.len() as u64).sum();
    let figures = Figures { allocations: made, frees: freed, ..Figures::default() };
    Recording { format, trace: Some(trace), figures }
}

/// A trace of what a recording of PyTorch's holds.
fn of_pytorch(
    (file, options): (&Path, &ImportOptions),
    (device, source): (String, &str),
    notes: Vec<String>,
    (tensors, ops): (Vec<Tensor>, Vec<Op>),
) -> Trace {
    let source = format!("{source}, {}", file_name(file));
    let provenance = Provenance::new(Origin::Imported, device, source);
    Trace {
        network: options.network.clone().unwrap_or_else(|| base_name(file)),
        batch: None,
        provenance: Provenance { framework: Some("PyTorch".into()), notes, ..provenance },
        tensors,
        ops,
    }
}

/// The last part of a file's path, for people.
fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// `resnet50` for `profiles/resnet50.pt.trace.json.gz`.
fn base_name(file: &Path) -> String {
    let name = file_name(file);
    match name.split('.').find(|part| !part.is_empty()) {
        Some(stem) => stem.to_string(),
        None => name,
    }
}
