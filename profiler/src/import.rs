//! Others' recordings of iterations as [`Trace`]s, exactly: no time and no byte is lost, and what
//! a recording leaves open is decided in the open, in the trace's notes.
//!
//! Two kinds of recordings are read:
//!
//! - [`Format::Dtr`], an op log of the DTR prototype (Kirisame et al., *Dynamic Tensor
//!   Rematerialization*, ICLR 2021): a log of calls, references and releases, which is replayed.
//! - [`Format::Opgraph`], a profile per op as MONeT makes them (Shah et al., *Memory Optimization
//!   for Deep Networks*, ICLR 2021): a graph whose lifetimes follow from who reads what.

mod dtr;
mod error;
mod op_kind;
mod opgraph;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use schema::{Document, Trace};

pub use error::ImportError;

/// A kind of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// An op log of the DTR prototype, one JSON object a line (`*.dtr.jsonl`).
    Dtr,
    /// A profile per op, one JSON object (`*.opgraph.json`).
    Opgraph,
}

impl Format {
    /// All kinds of recordings.
    pub const ALL: [Self; 2] = [Self::Dtr, Self::Opgraph];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dtr => "dtr",
            Self::Opgraph => "opgraph",
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
#[error("`{0}` is not a kind of recording: write dtr or opgraph")]
pub struct ParseFormatError(String);

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Self, ParseFormatError> {
        let named = Self::ALL.into_iter().find(|format| format.name() == text);
        named.ok_or_else(|| ParseFormatError(text.to_string()))
    }
}

/// The kind of recording that `text` looks like. It only chooses the importer: a damaged recording
/// is still recognised, so that the importer can say where it is damaged.
pub fn detect(text: &str) -> Option<Format> {
    if text.contains("\"INSTRUCTION\"") {
        Some(Format::Dtr)
    } else if text.contains("\"opgraph/") {
        Some(Format::Opgraph)
    } else {
        None
    }
}

/// How a recording becomes a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The network's name; absent: the one that the recording states, or its file's name.
    pub network: Option<String>,
    /// What becomes of ops that write over an argument.
    pub in_place: InPlaceOps,
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

/// Imports a recording. `file` is what errors call it and where a DTR log gets its network's name
/// from; it is not read. Without a `format` it is told from the text.
///
/// # Errors
///
/// Where the text is not a whole and consistent recording. No text makes it panic, and time and
/// memory grow linearly with the text.
pub fn import(
    text: &str,
    file: &Path,
    format: Option<Format>,
    options: &ImportOptions,
) -> Result<Trace, ImportError> {
    let trace = match format.or_else(|| detect(text)) {
        Some(Format::Dtr) => dtr::import(text, file, options)?,
        Some(Format::Opgraph) => opgraph::import(text, file, options)?,
        None => return Err(ImportError::UnknownFormat { file: file.to_path_buf() }),
    };
    trace
        .check()
        .map_err(|source| ImportError::Invalid { file: file.to_path_buf(), why: source })?;
    Ok(trace)
}

/// The last part of a file's path, for people.
fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}
