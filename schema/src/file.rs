//! Reading and writing documents.
//!
//! A file is one JSON object: `format` names the document's type, `version` its format's version,
//! `content` is the document. A reader accepts its own version and older ones, refuses newer ones
//! by name, and never returns a document that is not well formed. A [`PendingFile`] is what writes.

use std::io::Read;
use std::path::Path;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::file_error::LARGEST_FILE;
use crate::{Digest, PendingFile};

pub(crate) use crate::file_error::malformed;
pub use crate::file_error::{FileError, Malformed};

/// A value that is kept in a file of its own.
pub trait Document: Serialize + DeserializeOwned {
    /// What `format` says in a file of this type.
    const FORMAT: &'static str;
    /// The version that is written; readers accept it and all before it.
    const VERSION: u32;
    /// Checks what the type alone does not guarantee.
    fn check(&self) -> Result<(), Malformed>;

    /// Digest of the content. Layout and white space of a file do not enter it.
    fn digest(&self) -> Digest {
        let json = serde_json::to_vec(self).expect("documents are plain data");
        Digest::of_bytes(&json)
    }

    /// The text of the file.
    fn to_json(&self) -> String {
        let envelope = EnvelopeRef { format: Self::FORMAT, version: Self::VERSION, content: self };
        let mut text = serde_json::to_string(&envelope).expect("documents are plain data");
        text.push('\n');
        text
    }

    /// Reads a document from the text of a file; `name` is what errors call it.
    fn from_json(text: &str, name: &Path) -> Result<Self, FileError> {
        parse(text, name)
    }

    /// Reads a document from a file, or from the standard input where `path` is `-`.
    fn read(path: &Path) -> Result<Self, FileError> {
        parse(&read_text(path)?, path)
    }

    /// Writes the document to a file, or to the standard output where `path` is `-`.
    fn write(&self, path: &Path) -> Result<(), FileError> {
        PendingFile::create(path)?.finish(self.to_json().as_bytes())
    }
}

#[derive(Serialize)]
struct EnvelopeRef<'a, D> {
    format: &'static str,
    version: u32,
    content: &'a D,
}

/// A document as it stands in its file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope<D> {
    #[allow(dead_code, reason = "was checked in the header")]
    format: String,
    #[allow(dead_code, reason = "was checked in the header")]
    version: u32,
    content: D,
}

/// What is read first, so that a document of another type or version is refused by name rather
/// than for the first field that differs.
#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u32>,
}

/// The whole text of a file, or of the standard input where `path` is `-`. Bytes that are not
/// UTF-8 are an error of their own place in the file.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let mut text = String::new();
    read(path, |file| file.read_to_string(&mut text))?;
    Ok(text)
}

/// The bytes of a file, or of the standard input where `path` is `-`.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    read(path, |file| file.read_to_end(&mut bytes))?;
    Ok(bytes)
}

/// Hands a file to `take`, which says how many bytes it took of it: no more than a file may have.
fn read(
    path: &Path,
    take: impl FnOnce(&mut dyn Read) -> std::io::Result<usize>,
) -> Result<(), FileError> {
    let length = if path == Path::new("-") {
        take(&mut std::io::stdin().lock().take(LARGEST_FILE + 1))
    } else {
        std::fs::File::open(path).and_then(|file| match file.metadata()?.len() {
            // Refused before it is read; what has no length, as a pipe, while it is.
            length if length > LARGEST_FILE => Ok(usize::MAX),
            _ => take(&mut file.take(LARGEST_FILE + 1)),
        })
    };
    match length {
        Ok(n) if n as u64 > LARGEST_FILE => Err(FileError::TooLarge { path: path.to_path_buf() }),
        Ok(_) => Ok(()),
        Err(source) => Err(FileError::Io { verb: "read", path: path.to_path_buf(), source }),
    }
}

fn parse<D: Document>(text: &str, path: &Path) -> Result<D, FileError> {
    let syntax =
        |source| FileError::Syntax { path: path.to_path_buf(), expected: D::FORMAT, source };
    let header: Header = serde_json::from_str(text).map_err(syntax)?;
    let found = header.format.unwrap_or_else(|| "something without a format".into());
    if found != D::FORMAT {
        return Err(FileError::OtherFormat {
            path: path.to_path_buf(),
            found,
            expected: D::FORMAT,
        });
    }
    if let Some(version) = header.version.filter(|v| *v > D::VERSION) {
        return Err(FileError::Newer {
            path: path.to_path_buf(),
            format: D::FORMAT,
            found: version,
            newest: D::VERSION,
        });
    }
    if header.version == Some(0) {
        return Err(FileError::OtherFormat {
            path: path.to_path_buf(),
            found: format!("{found} of version 0, which never was"),
            expected: D::FORMAT,
        });
    }
    let envelope: Envelope<D> = serde_json::from_str(text).map_err(syntax)?;
    envelope.content.check().map_err(|source| FileError::Invalid {
        path: path.to_path_buf(),
        format: D::FORMAT,
        source,
    })?;
    Ok(envelope.content)
}
