//! Why a study could not be given, and what to do about it.

use std::path::PathBuf;

use super::points::Place;
use crate::ScenarioError;
use networks::NetworkError;
use networks::suggest::remedy;

/// Why a study could not be given.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// No study of this name comes with tidegate.
    #[error(transparent)]
    Unknown(#[from] ScenarioError),
    /// The text is not TOML, or has a field that no study has. The cause names line and column.
    #[error("{} is not a study file", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Line, column and what is wrong there.
        source: Box<toml::de::Error>,
    },
    /// Something in the file that is wrong where it stands.
    #[error("{place}: {problem}")]
    At {
        /// Where.
        place: Place,
        /// What is wrong and what to write instead.
        problem: Box<StudyProblem>,
    },
}

/// What is wrong at a place of a study file.
#[derive(Debug, thiserror::Error)]
pub enum StudyProblem {
    /// A study without points.
    #[error("a study needs at least one [[group]] of networks, machines and methods")]
    NoGroups,
    /// Two groups that results could not tell apart.
    #[error("a group called `{0}` stands before: give each [[group]] a `name` of its own")]
    SameName(String),
    /// A list that must be there.
    #[error("the group has no `{field}`: add {example}")]
    Missing {
        /// The list.
        field: &'static str,
        /// What it looks like.
        example: &'static str,
    },
    /// A list without an entry.
    #[error("`{field}` is empty, so that the group has no point: name at least one, or delete it")]
    Empty {
        /// The list.
        field: &'static str,
    },
    /// The same entry twice.
    #[error("`{field}` names {value} twice: each point is planned once")]
    Twice {
        /// The list.
        field: &'static str,
        /// What it names twice.
        value: String,
    },
    /// A list that has no meaning beside something else.
    #[error("`{field}` has no meaning here: {why}")]
    Beside {
        /// The list.
        field: &'static str,
        /// Why not, and the remedy.
        why: &'static str,
    },
    /// A value that its field cannot take.
    #[error("`{field}`: `{value}` cannot be: {why}")]
    Value {
        /// The field.
        field: &'static str,
        /// The value as it is written.
        value: String,
        /// What to write.
        why: String,
    },
    /// A name that is none.
    #[error("`{field}`: there is no `{name}`: {}", remedy(closest, known))]
    NoSuch {
        /// The field.
        field: &'static str,
        /// The name.
        name: String,
        /// Names that resemble it, the closest first.
        closest: Vec<String>,
        /// All names.
        known: Vec<String>,
    },
    /// A network, or an option that it does not have.
    #[error("`networks`: {0}")]
    Network(NetworkError),
    /// A machine, link or trace that does not come with tidegate.
    #[error("`{field}`: {source}")]
    Scenario {
        /// The field.
        field: &'static str,
        /// Why not.
        source: ScenarioError,
    },
    /// More points than anybody would wait for.
    #[error("the group has {points} points, of at most {most}: shorten its lists")]
    TooMany {
        /// Its points.
        points: u64,
        /// The most that a group may have.
        most: u64,
    },
    /// A paper whose figures do not come with tidegate.
    #[error("`paper`: {0}")]
    Paper(String),
}
