//! Why a study could not be given, and what to do about it.

use std::path::PathBuf;

use super::points::Place;
use crate::ScenarioError;
use networks::NetworkError;
use networks::suggest::remedy;

/// Why a study could not be given.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum StudyError {
    #[error(transparent)]
    Unknown(#[from] ScenarioError),
    /// The text is not TOML, or has a field that no study has. The cause names line and column.
    #[error("{} is not a study file", file.display())]
    Syntax { file: PathBuf, source: Box<toml::de::Error> },
    #[error("{place}: {problem}")]
    At { place: Place, problem: Box<StudyProblem> },
}

/// What is wrong at a place of a study file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum StudyProblem {
    #[error("a study needs at least one [[group]] of networks, machines and methods")]
    NoGroups,
    #[error("{0}")]
    Lookups(String),
    #[error("a group called `{0}` stands before: give each [[group]] a `name` of its own")]
    SameName(String),
    #[error("the group has no `{field}`: add {example}")]
    Missing { field: &'static str, example: &'static str },
    #[error("`{field}` is empty, so that the group has no point: name at least one, or delete it")]
    Empty { field: &'static str },
    #[error("`{field}` names {value} twice: each point is planned once")]
    Twice { field: &'static str, value: String },
    #[error("`{field}` has no meaning here: {why}")]
    Beside { field: &'static str, why: &'static str },
    #[error("`{field}`: `{value}` cannot be: {why}")]
    Value { field: &'static str, value: String, why: String },
    #[error("`{field}`: there is no `{name}`: {}", remedy(closest, known))]
    NoSuch { field: &'static str, name: String, closest: Vec<String>, known: Vec<String> },
    #[error("`networks`: {0}")]
    Network(NetworkError),
    #[error("`{field}`: {source}")]
    Scenario { field: &'static str, source: ScenarioError },
    #[error("the group has {points} points, of at most {most}: shorten its lists")]
    TooMany { points: u64, most: u64 },
    #[error("`paper`: {0}")]
    Paper(String),
}
