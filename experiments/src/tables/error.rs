//! Why a table could not be read or written.

use std::path::PathBuf;

use parquet::errors::ParquetError;
use schema::FileError;

/// Why a table could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// Bytes that are no Parquet file, or one that was cut short.
    #[error("{} is no table that can be read ({why}): delete it and run what wrote it again", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A table without a column that every row needs.
    #[error("{} has no column `{column}`: it is another table than what is asked for", file.display())]
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// A cell that is empty, or holds what its column cannot.
    #[error("{}: row {row}: `{column}` is empty or holds no such value: delete the file and run what wrote it again", file.display())]
    BadCell {
        /// The file.
        file: PathBuf,
        /// The row, from 1.
        row: usize,
        /// The column.
        column: &'static str,
    },
    /// A table that could not be turned into bytes.
    #[error("cannot lay out the table for {}", file.display())]
    Layout {
        /// The file that it was for.
        file: PathBuf,
        /// Why.
        source: ParquetError,
    },
}
