//! Files beside their targets, which go however the process ends, but for `kill -9`.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, remove_file};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{Builder, NamedTempFile};

/// Those that are there now.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Whoever holds this keeps a signal from ending the process.
pub(crate) fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of all files that are about to be written. The process is to end
/// with this: whoever creates or finishes a file from here on waits for ever.
pub fn remove_temporary_files() {
    let live = live();
    for path in live.iter() {
        // Where that fails there is nobody left to be told.
        let _ = remove_file(path);
    }
    std::mem::forget(live);
}

/// Whether a file of this name is one that a killed process left.
pub fn is_temporary(name: &str) -> bool {
    let drawn = name.rsplit_once(MARK).map(|(_, drawn)| drawn.as_bytes());
    name.starts_with('.')
        && drawn
            .is_some_and(|drawn| drawn.len() == 6 && drawn.iter().all(u8::is_ascii_alphanumeric))
}

/// What stands between the target's name and what was drawn.
const MARK: &str = ".tmp";

/// A file in the folder of its target.
#[derive(Debug)]
pub(crate) struct Temporary {
    /// None once it has its target's name.
    file: Option<NamedTempFile>,
    target: PathBuf,
}

impl Temporary {
    /// A new file, with mode and owner of the one whose place it will take.
    pub fn beside(target: PathBuf, like: Option<&Metadata>) -> io::Result<Self> {
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = target.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy();
        // Names have an end: some 255 bytes.
        let prefix = format!(".{}{MARK}", name.chars().take(50).collect::<String>());
        let mut live = live();
        // The kind alone: the temporary file's name is nothing to a person.
        let file = ordinary(Builder::new().prefix(&prefix))
            .tempfile_in(folder)
            .map_err(|error| error.kind())?;
        live.insert(file.path().to_path_buf());
        drop(live);
        let temporary = Self { file: Some(file), target };
        if let Some(like) = like {
            be_like(temporary.file(), like)?;
        }
        Ok(temporary)
    }

    pub fn file(&self) -> &File {
        self.file.as_ref().expect("it has not taken its target's place").as_file()
    }

    /// Takes the target's place.
    pub fn persist(mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut live = live();
        live.remove(file.path());
        file.persist(&self.target).map(drop).map_err(|error| error.error)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            let mut live = live();
            live.remove(file.path());
            drop(file);
        }
    }
}

/// Temporary files are for their owner alone; what is written here is an ordinary file.
#[cfg(unix)]
fn ordinary<'a, 'b, 'c>(builder: &'c mut Builder<'a, 'b>) -> &'c Builder<'a, 'b> {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666))
}

#[cfg(unix)]
fn be_like(file: &File, like: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        fchown(file, Some(like.uid()), Some(like.gid()))?;
    }
    // Last: changing the owner takes bits away.
    file.set_permissions(like.permissions())
}

#[cfg(not(unix))]
fn ordinary<'a, 'b, 'c>(builder: &'c mut Builder<'a, 'b>) -> &'c Builder<'a, 'b> {
    builder
}

#[cfg(not(unix))]
fn be_like(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_told_from_others_by_name() {
        for name in [".tmpAb12Cd", ".plan.json.tmpAb12Cd", "..tmp.tmpAb12Cd"] {
            assert!(is_temporary(name), "{name}");
        }
        for name in ["plan.tmpAb12Cd", ".plan.tmp", ".plan.tmpAb12C", ".plan.tmpAb12.d", ".tmp"] {
            assert!(!is_temporary(name), "{name}");
        }
    }
}
