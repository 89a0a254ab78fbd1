//! Kinds of recordings, and how one is told from its bytes.

use std::fmt;
use std::str::FromStr;

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

/// Whether a file is a table of op times.
pub fn is_op_times(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(&first[..first.len().min(2000)]);
    ["fw_latency", "bw_latency", "input_shapes", "output_shape"]
        .iter()
        .all(|name| first.contains(name))
}
