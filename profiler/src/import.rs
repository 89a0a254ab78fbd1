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
mod format;
mod json;
mod kineto;
mod op_kind;
mod op_times;
mod opgraph;
mod recorded;
mod recording;
mod reserved;
mod snapshot;
mod storages;
mod unpack;

use std::path::Path;

use schema::{Document, Trace};

pub use error::ImportError;
pub use figures::{Figures, Holder, Step, TimedOps};
pub use format::{Format, ParseFormatError, detect, is_op_times};
pub use recorded::{Beside, Recorded, RecordedOp, recorded};
pub use recording::{ImportOptions, InPlaceOps, Recording};
pub use unpack::unpack;

use recording::of_trace;

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
