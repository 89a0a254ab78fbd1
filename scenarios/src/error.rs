//! Why a scenario could not be given, and what to do about it.

use std::path::PathBuf;

use networks::suggest::{closest, remedy};
use schema::{FileError, Malformed};

/// Why a machine or a trace could not be given.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ScenarioError {
    #[error("there is no {kind} `{name}`: {}", remedy(closest, known))]
    Unknown { kind: &'static str, name: String, closest: Vec<String>, known: Vec<String> },
    #[error("`{name}` is a link: name a machine with it, such as `titan-v+{name}`")]
    LinkAlone { name: String },
    #[error("{} has `inherits = \"{name}\"`, which cannot be had", file.display())]
    Inherits { file: PathBuf, name: String, source: Box<ScenarioError> },
    #[error("{} inherit one another: let one of them state its figures itself", chain.join(" -> "))]
    Circle { chain: Vec<String> },
    /// The text is not TOML, has a field that no machine has, or a value that is no amount of
    /// its unit. The cause names line, column and remedy.
    #[error("{} is not a machine file", file.display())]
    Syntax { file: PathBuf, source: Box<toml::de::Error> },
    #[error("{}: [sources] names `{field}`, which is no figure: {}", file.display(), remedy(closest, known))]
    UnknownFigure { file: PathBuf, field: String, closest: Vec<String>, known: Vec<String> },
    #[error("{}: [sources] {field} is no text: write where the figure comes from, in quotes", file.display())]
    SourceNotText { file: PathBuf, field: String },
    #[error(
        "{}: [sources] names `{field}`, which this file does not state: state it, or delete its \
         source (a figure that is inherited keeps its own)",
        file.display()
    )]
    SourceAlone { file: PathBuf, field: &'static str },
    #[error(
        "{}: nothing states {table}.{field}: add `{field} = {example}` under [{table}], or \
         inherit a machine that has it",
        file.display()
    )]
    Missing { file: PathBuf, table: &'static str, field: &'static str, example: &'static str },
    #[error("{} describes a machine that cannot be", file.display())]
    Invalid { file: PathBuf, source: Malformed },
    #[error("the bundled document `{name}` cannot be read")]
    Document { name: String, source: Box<FileError> },
}

impl ScenarioError {
    pub(crate) fn unknown<'a>(
        kind: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<String> = known.map(str::to_string).collect();
        Self::Unknown { kind, name: name.to_string(), closest: closest(name, &known), known }
    }
}
