//! Files that are about to be written.

use std::fs::{File, OpenOptions, read_link};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::file_error::FileError;
use crate::printable;
use crate::temporary::{Temporary, live};

/// A file that is about to be written. It is opened before the work whose result it will hold, so
/// that a bad path fails at once.
///
/// What is written goes to a temporary file in the same folder which then takes the place of the
/// file that the path names, links followed, with its mode and owner: it is there whole or not at
/// all, however the process ends. Only where that would destroy something the path is opened and
/// written itself, as any program would: what is no regular file (a device, a pipe), what has more
/// than one name (a hard link), what is open already (`/dev/fd/3`), and what must not be replaced
/// (in a folder that is not ours to write, by an owner whom we cannot be, a mount).
#[derive(Debug)]
pub struct PendingFile {
    /// As it was named, for errors.
    path: PathBuf,
    /// What is there; none for the standard output, or where there is nothing.
    there: Option<Opened>,
    /// What takes the path's place.
    whole: Option<Temporary>,
}

/// Something that is written itself, where nothing takes its place.
#[derive(Debug)]
struct Opened {
    file: File,
    /// A file that ends where what is written ends.
    is_regular: bool,
}

impl PendingFile {
    /// Prepares to write to `path`; `-` is the standard output.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        let path = path.to_path_buf();
        if is_stdout(&path) {
            return Ok(Self { path, there: None, whole: None });
        }
        match open(&path) {
            Ok((there, whole)) => Ok(Self { path, there, whole }),
            Err(source) => Err(FileError::Io { verb: "write", path, source }),
        }
    }

    /// Whether this is the standard output.
    pub fn is_stdout(&self) -> bool {
        is_stdout(&self.path)
    }

    /// The path, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the content and gives the file its name.
    pub fn finish(self, bytes: &[u8]) -> Result<(), FileError> {
        let Self { path, there, whole } = self;
        match write(there, whole, bytes) {
            // Whoever read at the other end has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(source) => Err(FileError::Io { verb: "write", path, source }),
            Ok(()) => Ok(()),
        }
    }
}

fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

fn open(path: &Path) -> io::Result<(Option<Opened>, Option<Temporary>)> {
    let target = followed(path)?;
    // What is open already may have been written to, and is to go on where that ended.
    let file = match OpenOptions::new().write(true).append(target.is_none()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let target = target.ok_or(error)?;
            return Ok((None, Some(Temporary::beside(target, None)?)));
        }
        file => file?,
    };
    let about = file.metadata()?;
    let whole = match target.filter(|_| about.is_file() && has_one_name(&about)) {
        None => None,
        Some(target) => match Temporary::beside(target, Some(&about)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            whole => Some(whole?),
        },
    };
    let is_regular = about.is_file();
    Ok((Some(Opened { file, is_regular }), whole))
}

/// Where a path leads: the path itself where it is no link. None: to what a process has open.
fn followed(path: &Path) -> io::Result<Option<PathBuf>> {
    // As many as Linux follows.
    const MOST_LINKS: usize = 40;
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        if path.starts_with("/proc") || path.starts_with("/dev/fd") {
            return Ok(None);
        }
        match read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            // No link, or nothing that is there.
            Err(_) => return Ok(Some(path)),
        }
    }
    // Opening it says so, too.
    Ok(None)
}

fn write(there: Option<Opened>, whole: Option<Temporary>, bytes: &[u8]) -> io::Result<()> {
    if let Some(whole) = whole {
        let mut file = whole.file();
        file.write_all(bytes)?;
        match (whole.persist(), &there) {
            // What cannot be replaced can be written: a mount, a file of others in a folder for
            // all.
            (Err(_), Some(_)) => {}
            (done, _) => return done,
        }
    }
    match there {
        None => write_to_stdout(bytes),
        Some(Opened { mut file, is_regular: false }) => file.write_all(bytes),
        Some(Opened { mut file, is_regular: true }) => {
            // A signal does not end the process halfway.
            let _held = live();
            file.write_all(bytes)?;
            let end = io::Seek::stream_position(&mut file)?;
            file.set_len(end)
        }
    }
}

fn write_to_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match std::str::from_utf8(bytes) {
        Ok(text) if stdout.is_terminal() => stdout.write_all(printable(text).as_bytes())?,
        _ => stdout.write_all(bytes)?,
    }
    stdout.flush()
}

#[cfg(unix)]
fn has_one_name(about: &std::fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(about) == 1
}

#[cfg(not(unix))]
fn has_one_name(_: &std::fs::Metadata) -> bool {
    true
}
