//! Tables as files.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use polars::prelude::{
    CsvWriter, DataFrame, ParquetCompression, ParquetReader, ParquetWriter, PolarsResult,
    SerReader, SerWriter,
};
use schema::PendingFile;
use schema::file::read_bytes;

use crate::ResultsError;
use crate::cell::{Column, Table};
use crate::pages;

/// Writes a table as Parquet. The file is there whole or not at all, whatever ends the process.
pub fn write_parquet<T: Table>(rows: &[T], file: &Path) -> Result<(), ResultsError> {
    write(rows, file, |frame, bytes| {
        // The reader of a part often opens hundreds: small files without a codec are quicker.
        let writer = ParquetWriter::new(bytes).with_compression(ParquetCompression::Uncompressed);
        writer.set_parallel(false).finish(frame).map(|_| ())
    })
}

/// Writes a table as CSV, under a header. The file is there whole or not at all.
pub fn write_csv<T: Table>(rows: &[T], file: &Path) -> Result<(), ResultsError> {
    write(rows, file, |frame, bytes| CsvWriter::new(bytes).n_threads(1).finish(frame))
}

fn write<T: Table>(
    rows: &[T],
    file: &Path,
    layout: impl FnOnce(&mut DataFrame, &mut Vec<u8>) -> PolarsResult<()>,
) -> Result<(), ResultsError> {
    let pending = PendingFile::create(file)?;
    let columns = T::to_columns(rows).into_iter().map(|(name, c)| c.into_polars(name)).collect();
    let mut bytes = Vec::new();
    DataFrame::new(rows.len(), columns)
        .and_then(|mut frame| layout(&mut frame, &mut bytes))
        .map_err(|error| ResultsError::Layout { file: file.into(), source: Box::new(error) })?;
    Ok(pending.finish(&bytes)?)
}

/// Reads a table that [`write_parquet`] wrote. Columns that it does not know are left aside.
pub fn read_parquet<T: Table>(file: &Path) -> Result<Vec<T>, ResultsError> {
    let bytes = read_bytes(file)?;
    let unreadable = |why: String| ResultsError::Unreadable { file: file.to_path_buf(), why };
    // The reader trusts what a file says of itself, and panics where that is not so.
    let read = catch_unwind(AssertUnwindSafe(|| {
        pages::check(&bytes)?;
        ParquetReader::new(Cursor::new(bytes)).finish().map_err(|error| error.to_string())
    }));
    let frame =
        read.map_err(|_| unreadable("it contradicts itself".into()))?.map_err(unreadable)?;
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
