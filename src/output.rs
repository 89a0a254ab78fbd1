//! Printing.

use std::fmt::Display;
use std::io::Write;

use anyhow::Context;
use schema::{Document, PendingFile, printable};

use crate::exit::{Exit, OrExit, Result};

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs; `tidegate schema` describes it.
    Json,
}

/// Prints to the standard output. Control characters, which names may hold, are written out.
pub fn print(text: impl Display) -> Result {
    let text = text.to_string();
    let mut stdout = std::io::stdout().lock();
    let printed = stdout.write_all(printable(&text).as_bytes()).and_then(|()| stdout.flush());
    printed.or_else(unprinted)
}

/// What it means that the standard output could not be written.
pub fn unprinted(error: std::io::Error) -> Result {
    match error.kind() {
        // Whoever read the output has read enough; the work goes on to its end.
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error).context("cannot write to the standard output").or_exit(Exit::Failed),
    }
}

/// Tells whoever looks on: prints to the standard error. Where nobody can, the exit code says it all.
pub fn tell(text: impl Display) {
    let text = text.to_string();
    let _ = std::io::stderr().lock().write_all(printable(&text).as_bytes());
}

impl Format {
    /// Prints a value so: as JSON, or as its text.
    pub fn show(self, value: &impl serde::Serialize, text: impl FnOnce() -> String) -> Result {
        match self {
            Self::Text => print(text()),
            Self::Json => print_json(value),
        }
    }
}

/// Writes a document where that is wanted, and shows what came of it unless the document has the standard
/// output to itself.
pub fn write_or_show(
    output: Option<PendingFile>,
    document: &impl Document,
    show: impl FnOnce() -> Result,
) -> Result {
    let to_stdout = output.as_ref().is_some_and(PendingFile::is_stdout);
    if let Some(output) = output {
        output.finish(document.to_json().as_bytes())?;
    }
    if to_stdout { Ok(()) } else { show() }
}

pub fn print_json(value: &impl serde::Serialize) -> Result {
    let text = serde_json::to_string_pretty(value).or_exit(Exit::Failed)?;
    print(format!("{text}\n"))
}
