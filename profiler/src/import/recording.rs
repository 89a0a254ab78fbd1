//! What a recording becomes, and how.

use std::path::{Path, PathBuf};

use schema::{Op, Origin, Provenance, Tensor, Trace};

use super::figures::Figures;
use super::format::Format;

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

/// A recording whose allocations are its trace's.
pub(super) fn of_trace(format: Format, trace: Trace) -> Recording {
    let made = trace.ops.iter().map(|op| op.writes.len() as u64).sum();
    let freed = trace.ops.iter().map(|op| op.frees.len() as u64).sum();
    let figures = Figures { allocations: made, frees: freed, ..Figures::default() };
    Recording { format, trace: Some(trace), figures }
}

/// A trace of what a recording of PyTorch's holds.
pub(super) fn of_pytorch(
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
pub(super) fn file_name(file: &Path) -> String {
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
