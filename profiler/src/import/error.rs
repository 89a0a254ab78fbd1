//! Why a recording cannot be imported: every message names the file, the place and a remedy.

use std::fmt;
use std::path::PathBuf;

use schema::Malformed;

/// Why a recording cannot be imported. Nothing is left behind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The text looks like no recording that is known here.
    #[error("{}: neither a DTR log nor an opgraph: pass a recording, or state its format (dtr or opgraph) to learn what is wrong with it", file.display())]
    UnknownFormat {
        /// The file.
        file: PathBuf,
    },
    /// A DTR log is damaged.
    #[error("{}:{line}: {problem}", file.display())]
    Dtr {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        problem: DtrProblem,
    },
    /// An opgraph is not JSON.
    #[error("{}: not JSON: {why}: copy or record the file again", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// What is wrong, with line and column.
        why: String,
    },
    /// An opgraph is incomplete or contradicts itself.
    #[error("{}: {place}{problem}", file.display())]
    Opgraph {
        /// The file.
        file: PathBuf,
        /// The op.
        place: Place,
        /// What is wrong there.
        problem: OpgraphProblem,
    },
    /// The recording is consistent line by line, but no trace.
    #[error("{}: the recording makes no trace: {why}: record it again", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What the trace's check says.
        why: Malformed,
    },
}

/// What is wrong in a line of a DTR log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DtrProblem {
    /// Not a JSON object, or not one of the log's instructions, or without one of its fields.
    #[error("not an instruction of a DTR log: {why}: copy or record the log again")]
    Syntax {
        /// What the JSON parser says.
        why: String,
    },
    /// A field that is no number, or one out of range.
    #[error("{field} is {found}, not a whole number {range}: copy or record the log again")]
    Number {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What may stand there.
        range: &'static str,
    },
    /// A line that is not the one that must follow the line before.
    #[error("`{name}` needs its {expected} line here, but {found}: copy or record the log again")]
    Expected {
        /// The name that is being defined.
        name: String,
        /// The instruction that should stand here.
        expected: &'static str,
        /// What stands here.
        found: String,
    },
    /// A name that nothing defines.
    #[error(
        "{instruction} uses `{name}`, which is not defined here: record the log from the start \
         of the iteration"
    )]
    Undefined {
        /// The instruction.
        instruction: &'static str,
        /// The name.
        name: String,
    },
    /// A name that is defined while it is still in use.
    #[error(
        "{instruction} defines `{name}`, which is still defined: the log lacks its RELEASE, \
         record it again"
    )]
    Redefined {
        /// The instruction.
        instruction: &'static str,
        /// The name.
        name: String,
    },
    /// An index beyond the arguments.
    #[error(
        "{field} names argument {index}, but the op has {args}, counted from 0: copy or record the \
         log again"
    )]
    Argument {
        /// The field.
        field: &'static str,
        /// The index, counted from 0.
        index: u64,
        /// How many arguments there are.
        args: usize,
    },
    /// An argument that one op changes twice.
    #[error("MUTATE names argument {index} twice: name it once")]
    MutatedTwice {
        /// The index, counted from 0.
        index: u64,
    },
    /// Sums that no real iteration reaches.
    #[error("with this line the {what} exceeds 2^60: no real iteration does, record the log again")]
    TooLarge {
        /// What was added up.
        what: &'static str,
    },
    /// Nothing to make a trace of.
    #[error("the log ends without an op (CALL or MUTATE) of the iteration: record a whole one")]
    NoOps,
}

/// Where in an opgraph something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a field of the graph itself.
    Graph,
    /// In the op at this position of `ops`, whose id is not known.
    Position(usize),
    /// In the op with this id.
    Op(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph => Ok(()),
            Self::Position(index) => write!(f, "ops[{index}]: "),
            Self::Op(id) => write!(f, "op {id}: "),
        }
    }
}

/// What is wrong in an opgraph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpgraphProblem {
    /// A field that is absent or not what it should be.
    #[error("`{field}` is {found}, not {expected}: correct it, or make the profile again")]
    Field {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// An id that two ops have.
    #[error("`id` is that of ops[{first}], too: give each op an id of its own")]
    DuplicateId {
        /// Position of the op that has it first.
        first: usize,
    },
    /// An id that no op has.
    #[error("`{field}` names op {id}, which the graph does not have: add it, or correct the id")]
    UnknownOp {
        /// The field.
        field: &'static str,
        /// The id.
        id: u64,
    },
    /// An op that runs only later.
    #[error("`{field}` names op {id}, which has not run by then: list the ops in execution order")]
    NotYetRun {
        /// The field.
        field: &'static str,
        /// The id.
        id: u64,
    },
    /// Sums that no real iteration reaches.
    #[error(
        "with `{field}` the {what} of the ops so far exceeds 2^60: no real iteration does, correct it"
    )]
    TooLarge {
        /// The field.
        field: &'static str,
        /// What was added up.
        what: &'static str,
    },
}

/// Text of a recording as errors quote it: without control characters, and cut where it is long.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 120;
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut quoted: String = text.chars().take(LONGEST).map(clean).collect();
    if text.chars().nth(LONGEST).is_some() {
        quoted.push_str("...");
    }
    quoted
}

/// A JSON value as errors quote it: numbers, texts and the like as they stand, lists and objects
/// by what they are.
pub(super) fn quoted_value(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(_) => "a list".into(),
        serde_json::Value::Object(_) => "an object".into(),
        serde_json::Value::String(text) => format!("`{}`", quoted(text)),
        other => other.to_string(),
    }
}
