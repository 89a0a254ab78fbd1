//! Tables as files.

use std::io::Cursor;
use std::path::Path;

use polars::prelude::{
    CsvWriter, DataFrame, ParallelStrategy, ParquetCompression, ParquetReader, ParquetWriter,
    PolarsError, PolarsResult, SerReader, SerWriter,
};
use schema::PendingFile;
use schema::file::read_bytes;

use crate::ResultsError;
use crate::cell::{Column, Table};
use crate::pages;
use crate::quietly::quietly;

/// Writes a table as Parquet.
pub fn write_parquet<T: Table>(rows: &[T], file: PendingFile) -> Result<(), ResultsError> {
    write(rows, file, |frame, bytes| {
        // The reader of a part often opens hundreds: small files without a codec are quicker.
        let writer = ParquetWriter::new(bytes).with_compression(ParquetCompression::Uncompressed);
        writer.set_parallel(false).finish(frame).map(|_| ())
    })
}

/// Writes a table as CSV, under a header.
pub fn write_csv<T: Table>(rows: &[T], file: PendingFile) -> Result<(), ResultsError> {
    write(rows, file, |frame, bytes| CsvWriter::new(bytes).n_threads(1).finish(frame))
}

fn write<T: Table>(
    rows: &[T],
    file: PendingFile,
    layout: impl FnOnce(&mut DataFrame, &mut Vec<u8>) -> PolarsResult<()>,
) -> Result<(), ResultsError> {
    let columns = T::to_columns(rows).into_iter().map(|(name, c)| c.into_polars(name)).collect();
    let mut bytes = Vec::new();
    let laid_out = || {
        let mut frame = DataFrame::new(rows.len(), columns)?;
        layout(&mut frame, &mut bytes)
    };
    // Threads that it does not get are a panic of its own.
    let failed = || Err(PolarsError::ComputeError("no threads, or no memory".into()));
    quietly(laid_out).unwrap_or_else(failed).map_err(|error| ResultsError::Layout {
        file: file.path().into(),
        source: Box::new(error),
    })?;
    Ok(file.finish(&bytes)?)
}

/// Reads a table that [`write_parquet`] wrote. Columns that it does not know are left aside.
pub fn read_parquet<T: Table>(file: &Path) -> Result<Vec<T>, ResultsError> {
    let bytes = read_bytes(file)?;
    // The reader trusts what a file says of itself, and panics where that is not so.
    quietly(|| read(bytes, file)).unwrap_or_else(|| {
        let why = "it contradicts itself".into();
        Err(ResultsError::Unreadable { file: file.to_path_buf(), why })
    })
}

fn read<T: Table>(bytes: Vec<u8>, file: &Path) -> Result<Vec<T>, ResultsError> {
    let unreadable = |why: String| ResultsError::Unreadable { file: file.to_path_buf(), why };
    pages::check(&bytes).map_err(unreadable)?;
    // On this thread, the one that is quiet.
    let reader = ParquetReader::new(Cursor::new(bytes)).read_parallel(ParallelStrategy::None);
    let frame = reader.finish().map_err(|error| unreadable(error.to_string()))?;
    T::from_columns(
        frame.height(),
        |name, like| {
            Column::from_polars(&frame, name, &like).map_err(|error| unreadable(error.to_string()))
        },
        |column, row| match row {
            None => ResultsError::MissingColumn { file: file.to_path_buf(), column },
            Some(row) => ResultsError::BadCell { file: file.to_path_buf(), row: row + 1, column },
        },
    )
}
