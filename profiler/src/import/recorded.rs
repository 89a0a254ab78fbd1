//! Recordings as what their times follow from: which kernels of what size each op launched.

pub(super) mod functions;
mod nodes;
mod spans;

use std::path::Path;

use networks::{Call, Work};
use schema::{Nanos, Phase};

use super::error::ImportError;
use super::{Format, detect, unpack};

/// An iteration of a recording, by what it did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// The kind of recording.
    pub kind: &'static str,
    /// The device's name, where it is stated.
    pub device: Option<String>,
    /// Element type of most arithmetic.
    pub dtype: &'static str,
    /// What ran.
    pub ops: Vec<RecordedOp>,
    /// What an iteration took, where that was measured.
    pub iteration: Option<Nanos>,
    /// Its forward phase.
    pub forward: Option<Nanos>,
    /// Its backward phase.
    pub backward: Option<Nanos>,
    /// The most that was allocated.
    pub peak: Option<u64>,
    /// Whether the times are sums of kernels, so that what the host takes is in none of them.
    pub kernels_only: bool,
}

/// What one op did.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedOp {
    /// When.
    pub phase: Phase,
    /// With which kernels.
    pub works: Vec<Work>,
    /// How often in an iteration.
    pub times: u32,
    /// What its kernels took, where it was timed alone.
    pub recorded: Option<Nanos>,
}

/// What is known of a recording beside its file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beside {
    /// The labels that come with a table of op times.
    pub labels: Option<String>,
    /// Whether matrix products and convolutions of 32-bit floats were left to TF32.
    pub tf32: bool,
}

/// Whether a file is a table of op times.
pub fn is_op_times(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(&first[..first.len().min(2000)]);
    ["fw_latency", "bw_latency", "input_shapes", "output_shape"]
        .iter()
        .all(|name| first.contains(name))
}

/// Reads what an iteration of a recording did: of a table of op times, a profile or an execution trace.
///
/// # Errors
/// Where it is none of these or damaged.
pub fn recorded(bytes: &[u8], file: &Path, beside: &Beside) -> Result<Recorded, ImportError> {
    let bytes = unpack(bytes, file)?;
    if is_op_times(&bytes) {
        return functions::read(&bytes, file, beside.labels.as_deref());
    }
    match detect(&bytes) {
        Some(Format::ExecutionTrace) => nodes::read(&bytes, file, beside.tf32),
        Some(Format::Kineto) => spans::read(&bytes, file, beside.tf32),
        _ => Err(ImportError::UnknownFormat(file.into())),
    }
}

/// What of a phase each op did: an op whose name is known stands for all that it calls.
struct Nested {
    /// What it calls, by place.
    calls: Vec<Call>,
    children: Vec<Vec<usize>>,
}

impl Nested {
    /// Appends the kernels of an op, or else of those that it calls.
    fn works(&self, index: usize, into: &mut Vec<(usize, Vec<Work>)>) {
        let call = &self.calls[index];
        let children = &self.children[index];
        match call.works() {
            Some(works) => into.push((index, works)),
            None if children.is_empty() => {
                if call.name.contains("::") && !call.name.starts_with("autograd") {
                    into.push((index, call.elementwise()));
                }
            }
            None => children.iter().for_each(|child| self.works(*child, into)),
        }
    }
}

/// The element type that most arithmetic is in.
fn dtype_of(ops: &[RecordedOp]) -> &'static str {
    use networks::Units;
    let flops = |units: Units| -> u64 {
        let works = ops.iter().flat_map(|op| &op.works);
        works.filter(|work| work.units == units).map(|work| work.flops / 1000).sum()
    };
    let [f32, tf32, half] = [Units::Vectors, Units::Tf32, Units::Half].map(flops);
    if half >= f32.max(tf32) && half > 0 {
        "bf16"
    } else if tf32 > f32 {
        "tf32"
    } else {
        "f32"
    }
}
