//! The folder of a study's results: one small Parquet file for each point, under the digest of
//! what was asked.
//!
//! A part is written to a temporary file that then takes its name, so a process may end at any
//! moment, and what has a name is whole. Any number of processes, on any machines that see the folder,
//! may work in it at a time: nothing is locked, as not all shared file systems can, and two that plan
//! the same point come to the same.

use std::path::{Path, PathBuf};

use schema::{Digest, FileError, PendingFile, is_temporary};

use crate::tables::{Row, read_parquet, write_csv, write_parquet};
use crate::{Error, Result};

/// A folder to write to, and others that are read.
pub struct Store {
    folder: PathBuf,
    also: Vec<PathBuf>,
}

impl Store {
    /// Opens the folder, which is made where it is not there. `also` are folders with parts of
    /// other partitions.
    pub fn open(folder: &Path, also: &[PathBuf]) -> Result<Self> {
        let parts = parts(folder);
        let write = |source| FileError::Io { verb: "write", path: parts.clone(), source };
        std::fs::create_dir_all(&parts).map_err(write)?;
        // What cannot be written fails before the work.
        drop(PendingFile::create(&parts.join("any"))?);
        Self::look(folder, also)
    }

    /// The folder as it is, to be read alone.
    pub fn look(folder: &Path, also: &[PathBuf]) -> Result<Self> {
        match std::iter::once(folder)
            .chain(also.iter().map(PathBuf::as_path))
            .find(|folder| !parts(folder).is_dir())
        {
            Some(folder) => Err(Error::NoResults(folder.into())),
            None => Ok(Self { folder: folder.into(), also: also.to_vec() }),
        }
    }

    /// The row of a point, where some folder has it, and what the row must be the answer to.
    pub fn row(&self, digest: &Digest, asked: &Row) -> Result<Option<Row>> {
        let folders = std::iter::once(&self.folder).chain(&self.also);
        let mut files = folders.map(|folder| part(folder, digest));
        let Some(file) = files.find(|file| file.exists()) else { return Ok(None) };
        let mut rows: Vec<Row> = read_parquet(&file)?;
        match (rows.pop(), rows.is_empty()) {
            (Some(row), true) if row.question() == asked.question() => Ok(Some(row)),
            _ => Err(Error::OtherPoint(file)),
        }
    }

    pub fn keep(&self, digest: &Digest, row: Row) -> Result<()> {
        let part = part(&self.folder, digest);
        let kept = match part.exists() {
            true => return Ok(()),
            false => PendingFile::create(&part).map_err(Error::from),
        };
        match kept.and_then(|file| Ok(write_parquet(&[row], file)?)) {
            // Another process has kept the same meanwhile, and may have tidied up, too.
            Err(_) if part.exists() => Ok(()),
            kept => kept,
        }
    }

    /// Writes the whole table, as Parquet and as CSV. What planning took is no result: it differs from run
    /// to run, and stays in the parts.
    pub fn finish(&self, rows: &[Row]) -> Result<()> {
        let mut rows = rows.to_vec();
        rows.iter_mut().for_each(|row| row.answer.plan_seconds = None);
        let file = |name: &str| PendingFile::create(&self.folder.join(name));
        write_parquet(&rows, file("results.parquet")?)?;
        write_csv(&rows, file("results.csv")?)?;
        remove_leftovers(&parts(&self.folder));
        Ok(())
    }
}

fn parts(folder: &Path) -> PathBuf {
    folder.join("parts")
}

fn part(folder: &Path, digest: &Digest) -> PathBuf {
    let digest = digest.to_string();
    let hex = digest.rsplit(':').next().unwrap_or(&digest);
    parts(folder).join(format!("{}.parquet", hex.get(..32).unwrap_or(hex)))
}

/// Removes temporary files of processes that were killed. Every point has its result, so that whoever
/// writes one still need not; what cannot be removed is in nobody's way.
fn remove_leftovers(parts: &Path) {
    for entry in std::fs::read_dir(parts).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_temporary) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
