//! Why a table could not be read or written.

use std::path::PathBuf;

use parquet::errors::ParquetError;
use schema::FileError;

/// Why a table could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum TableError {
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// Bytes that are no Parquet file, or one that was cut short.
    #[error("{} is no table that can be read ({why}): delete it and run what wrote it again", file.display())]
    Unreadable { file: PathBuf, why: String },
    /// A table without a column that every row needs.
    #[error("{} has no column `{column}`: it is another table than what is asked for", file.display())]
    MissingColumn { file: PathBuf, column: &'static str },
    /// A cell that is empty, or holds what its column cannot.
    #[error("{}: row {row}: `{column}` is empty or holds no such value: delete the file and run what wrote it again", file.display())]
    BadCell {
        file: PathBuf,
        /// From 1.
        row: usize,
        column: &'static str,
    },
    /// A table that could not be turned into bytes.
    #[error("cannot lay out the table for {}", file.display())]
    Layout { file: PathBuf, source: ParquetError },
}
