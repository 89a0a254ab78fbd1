//! Rows of a table's file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use codecs::ibp::{Rows, sample_of};
use runtime::memory::room_for;
use schema::Bytes;

use crate::{Error, Result};

/// Two samples of the rows: what fits the first need not fit the second as well.
pub struct Sample {
    /// Rows of the file.
    pub rows_of_file: u64,
    row_bytes: usize,
    learned_from: Vec<u8>,
    measured_on: Vec<u8>,
}

impl Sample {
    /// Rows of the table, of which the file has some or all.
    ///
    /// # Errors
    /// If it is to have less than the file.
    pub fn rows_of_table(&self, stated: Option<u64>, file: &Path) -> Result<u64> {
        match stated {
            Some(rows) if rows < self.rows_of_file => {
                Err(Error::FewRows(rows, self.rows_of_file, file.into()))
            }
            stated => Ok(stated.unwrap_or(self.rows_of_file)),
        }
    }

    /// Reads `count` rows twice, or all rows where there are no more.
    pub fn read(path: &Path, row_bytes: Bytes, count: u64) -> Result<Self> {
        let unread = |error| Error::TableFile(path.into(), error);
        let no_rows = |why: String| Error::NoRows(path.into(), why);
        let mut file = File::open(path).map_err(unread)?;
        let metadata = file.metadata().map_err(unread)?;
        if !metadata.is_file() {
            return Err(no_rows(" is no file".into()));
        }
        let bytes = metadata.len();
        let row = row_bytes.0;
        if row == 0 || count == 0 {
            return Err(Error::RowsOfNothing);
        }
        if bytes == 0 {
            return Err(no_rows(" is empty: there is no row".into()));
        }
        if !bytes.is_multiple_of(row) {
            return Err(no_rows(format!(
                " has {bytes} bytes: {} rows of {row} bytes and {} bytes left over; check \
                 --row-bytes",
                bytes / row,
                bytes % row
            )));
        }
        // Both samples, the rows once more by cluster, and centres of clusters, which are rows as well;
        // for each bit of a row how often it is set, for the whole and for parts of a sample.
        let rows = count.min(bytes / row);
        let needed =
            rows.saturating_mul(row).saturating_mul(4).saturating_add(row.saturating_mul(80));
        let what = format!("a sample of {rows} rows of {row_bytes}");
        room_for(what, needed, "choose a smaller --sample, or check --row-bytes")?;
        let mut read = |seed| -> std::io::Result<Vec<u8>> {
            let mut sample = Vec::new();
            for drawn in sample_of(bytes / row, count, seed) {
                file.seek(SeekFrom::Start(drawn * row))?;
                let begin = sample.len();
                sample.resize(begin + row as usize, 0);
                file.read_exact(&mut sample[begin..])?;
            }
            Ok(sample)
        };
        Ok(Self {
            rows_of_file: bytes / row,
            row_bytes: row as usize,
            learned_from: read(1).map_err(unread)?,
            measured_on: read(2).map_err(unread)?,
        })
    }

    /// The rows to learn from.
    pub fn learned_from(&self) -> Result<Rows<'_>> {
        Ok(Rows::new(&self.learned_from, self.row_bytes)?)
    }

    /// The rows to measure on.
    pub fn measured_on(&self) -> Result<Rows<'_>> {
        Ok(Rows::new(&self.measured_on, self.row_bytes)?)
    }

    /// How many rows each of both has.
    pub fn rows(&self) -> u64 {
        (self.learned_from.len() / self.row_bytes) as u64
    }
}
