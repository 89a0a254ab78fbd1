//! Why a file could not be read or written.

use std::path::PathBuf;

/// Files beyond this size are not read: no document of ours comes near it.
pub(crate) const LARGEST_FILE: u64 = 1 << 30;

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum FileError {
    #[error("cannot {verb} {}", path.display())]
    Io {
        /// `read` or `write`.
        verb: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is larger than {LARGEST_FILE} bytes, which no document of tidegate is", path.display())]
    TooLarge { path: PathBuf },
    #[error("{} is not a {expected} file", path.display())]
    Syntax {
        path: PathBuf,
        expected: &'static str,
        /// Line, column and what is wrong there.
        source: serde_json::Error,
    },
    #[error("{} holds {found}, not a {expected}: pass the right file", path.display())]
    OtherFormat { path: PathBuf, found: String, expected: &'static str },
    #[error(
        "{} is a {format} of version {found}; this tidegate reads versions up to {newest}: \
         update tidegate",
        path.display()
    )]
    Newer { path: PathBuf, format: &'static str, found: u32, newest: u32 },
    #[error("{} is a {format} that contradicts itself", path.display())]
    Invalid { path: PathBuf, format: &'static str, source: Malformed },
}

/// Why a document is not well formed, with the place as in its text: `ops[3].reads names ...`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// A document is not well formed: `what` names the place and what is wrong with it.
pub(crate) fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}
