//! Tables as Parquet and CSV: the results of studies, one [`Row`] for each planned point, and
//! samples of codecs, one [`CodecSample`] for each tensor; shares of zeros, one [`TensorZeros`] for
//! each tensor and epoch.
//!
//! Invariants: this is the only crate that knows Parquet. Files are written whole or not at all. A
//! table is what its rows are, in their order: the same rows give the same bytes. A file of an older
//! tidegate is read as long as every column that it lacks may be empty.

mod cell;
mod error;
mod file;
mod quietly;
mod row;
mod sample;
mod zeros;

pub use cell::{Kind, Table};
pub use error::ResultsError;
pub use file::{read_parquet, write_csv, write_parquet};
pub use row::{Row, Status};
pub use sample::CodecSample;
pub use zeros::TensorZeros;
