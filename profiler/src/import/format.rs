//! Kinds of recordings, and how one is told from its bytes.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A kind of recording; as a text, its name on the command line.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case", parse_err_ty = ParseFormatError, parse_err_fn = ParseFormatError::of)]
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

/// A text that names no kind of recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a kind of recording: write dtr, opgraph, kineto, execution-trace, memory-snapshot or \
     op-times"
)]
pub struct ParseFormatError(String);

impl ParseFormatError {
    fn of(text: &str) -> Self {
        Self(text.into())
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
