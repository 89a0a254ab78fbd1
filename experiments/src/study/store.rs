//! The folder of a study's results: one small Parquet file for each point, under the digest of
//! what was asked.
//!
//! A part is written to a temporary file that then takes its name, so a process may end at any
//! moment, and what has a name is whole. One process works in a folder at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use schema::{Digest, FileError, PendingFile, is_temporary};

use crate::tables::{Row, read_parquet, write_csv, write_parquet};
use crate::{Error, Result};

/// A folder that this process alone writes to, and others that it reads.
pub struct Store {
    folder: PathBuf,
    also: Vec<PathBuf>,
    /// Held until the process ends, however it ends.
    _lock: File,
}

impl Store {
    /// Opens the folder, which is made where it is not there. `also` are folders with parts of
    /// other partitions.
    pub fn open(folder: &Path, also: &[PathBuf]) -> Result<Self> {
        let parts = parts(folder);
        let write =
            |path: &Path, source| FileError::Io { verb: "write", path: path.into(), source };
        std::fs::create_dir_all(&parts).map_err(|error| write(&parts, error))?;
        let lock_file = folder.join("lock");
        let lock = OpenOptions::new().append(true).create(true).open(&lock_file);
        let lock = lock.map_err(|error| write(&lock_file, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::FolderInUse(folder.into()));
            }
            Err(TryLockError::Error(error)) => return Err(write(&lock_file, error).into()),
        }
        for folder in also {
            if !self::parts(folder).is_dir() {
                return Err(Error::NoResults(folder.clone()));
            }
        }
        remove_leftovers(&parts)?;
        remove_leftovers(folder)?;
        Ok(Self { folder: folder.into(), also: also.to_vec(), _lock: lock })
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

    /// Keeps the row of a point.
    pub fn keep(&self, digest: &Digest, row: Row) -> Result<()> {
        let file = PendingFile::create(&part(&self.folder, digest))?;
        Ok(write_parquet(&[row], file)?)
    }

    /// Writes the whole table, as Parquet and as CSV.
    pub fn finish(&self, rows: &[Row]) -> Result<()> {
        let file = |name: &str| PendingFile::create(&self.folder.join(name));
        write_parquet(rows, file("results.parquet")?)?;
        Ok(write_csv(rows, file("results.csv")?)?)
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

/// Temporary files of a process that was killed. No other writes here while the lock is held.
fn remove_leftovers(folder: &Path) -> Result<()> {
    let read = |source| FileError::Io { verb: "read", path: folder.to_path_buf(), source };
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if is_temporary(name) {
            let write = |source| FileError::Io { verb: "write", path: path.clone(), source };
            std::fs::remove_file(&path).map_err(write)?;
        }
    }
    Ok(())
}
