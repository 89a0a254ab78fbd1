//! Why a table could not be read or written.

use std::path::PathBuf;

use parquet::errors::ParquetError;
use schema::FileError;

/// Why a table could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum TableError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is no table that can be read ({why}): delete it and run what wrote it again", file.display())]
    Unreadable { file: PathBuf, why: String },
    #[error("{} has no column `{column}`: it is another table than what is asked for", file.display())]
    MissingColumn { file: PathBuf, column: &'static str },
    #[error("{}: row {row}: `{column}` is empty or holds no such value: delete the file and run what wrote it again", file.display())]
    BadCell {
        file: PathBuf,
        /// From 1.
        row: usize,
        column: &'static str,
    },
    #[error("cannot lay out the table for {}", file.display())]
    Layout { file: PathBuf, source: ParquetError },
}
