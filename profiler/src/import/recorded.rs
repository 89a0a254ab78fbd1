//! Recordings as what their times follow from: which kernels of what size each op launched.

pub(super) mod functions;
mod nodes;
mod ops;
mod spans;

use std::path::Path;

use super::error::ImportError;
use super::format::{Format, detect, is_op_times};
use super::unpack::unpack;

pub use ops::{Recorded, RecordedOp};

/// What is known of a recording beside its file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beside {
    /// The labels that come with a table of op times.
    pub labels: Option<String>,
    /// Whether matrix products and convolutions of 32-bit floats were left to TF32.
    pub tf32: bool,
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
