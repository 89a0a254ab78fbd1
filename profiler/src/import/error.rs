//! Why a recording cannot be imported: every message names the file, the place and a remedy.

use std::fmt;
use std::path::{Path, PathBuf};

use schema::Malformed;

use super::format::Format;

/// Why a recording cannot be imported. Nothing is left behind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what is wrong")]
pub enum ImportError {
    #[error("{}: no recording that is known here: pass a profile, execution trace or memory snapshot of PyTorch, a DTR log or an opgraph; or state its kind with --from to learn what is wrong with it", .0.display())]
    UnknownFormat(PathBuf),
    #[error("{}: a network is no recording and needs no import: plan, compare and explain take its file as it is, with --batch and --machine", .0.display())]
    Network(PathBuf),
    /// A line, counted from 1, of a DTR log is damaged.
    #[error("{}:{}: {}", .0.display(), .1, .2)]
    Dtr(PathBuf, usize, String),
    #[error("{}: not JSON: {}: copy or record the file again", .0.display(), .1)]
    Json(PathBuf, String),
    #[error("{}: {}{}", .0.display(), .1, .2)]
    Opgraph(PathBuf, String, String),
    #[error("{}: {}", .0.display(), .1)]
    Packed(PathBuf, String),
    #[error("{}: {}", .0.display(), .1)]
    Table(PathBuf, String),
    #[error("{}: cannot be imported as {}: {}", .0.display(), .1, .2)]
    Content(PathBuf, Format, String),
    #[error("{}: {} does not apply to a recording of kind {}: leave it out", .0.display(), .1, .2)]
    Option(PathBuf, &'static str, Format),
    #[error(
        "{}: a memory snapshot has no ops, so that nothing can be planned for it: record the same run \
         with torch.profiler (record_shapes=True, profile_memory=True), or an execution trace",
        .0.display()
    )]
    NoOps(PathBuf),
    #[error("{}: the recording makes no trace: {}: record it again", .0.display(), .1)]
    Invalid(PathBuf, Malformed),
}

impl ImportError {
    /// What JSON's reader says of a file.
    pub(super) fn json(file: &Path) -> impl Fn(serde_json::Error) -> Self {
        move |why| Self::Json(file.into(), quoted(&why.to_string()))
    }

    /// What is wrong with a file that is taken as a recording of a kind, and a remedy.
    pub(super) fn content(file: &Path, format: Format) -> impl Fn(String) -> Self + Copy {
        move |problem| Self::Content(file.into(), format, problem)
    }
}

/// What is wrong in a line of a DTR log.
#[derive(Debug, thiserror::Error)]
pub(super) enum DtrProblem {
    #[error("not an instruction of a DTR log: {why}: copy or record the log again")]
    Syntax { why: String },
    #[error("{field} is {found}, not a whole number {range}: copy or record the log again")]
    Number { field: &'static str, found: String, range: &'static str },
    #[error("`{name}` needs its {expected} line here, but {found}: copy or record the log again")]
    Expected { name: String, expected: &'static str, found: String },
    #[error(
        "{instruction} uses `{name}`, which is not defined here: record the log from the start \
         of the iteration"
    )]
    Undefined { instruction: &'static str, name: String },
    #[error(
        "{instruction} defines `{name}`, which is still defined: the log lacks its RELEASE, \
         record it again"
    )]
    Redefined { instruction: &'static str, name: String },
    #[error(
        "{field} names argument {index}, but the op has {args}, counted from 0: copy or record the \
         log again"
    )]
    Argument { field: &'static str, index: u64, args: usize },
    #[error("MUTATE names argument {index} twice: name it once")]
    MutatedTwice { index: u64 },
    #[error("with this line the {what} exceeds 2^60: no real iteration does, record the log again")]
    TooLarge { what: &'static str },
    #[error("the log ends without an op (CALL or MUTATE) of the iteration: record a whole one")]
    NoOps,
}

/// Where in an opgraph something is wrong.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Graph,
    Position(usize),
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

#[derive(Debug, thiserror::Error)]
pub(super) enum OpgraphProblem {
    #[error("`{field}` is {found}, not {expected}: correct it, or make the profile again")]
    Field { field: &'static str, found: String, expected: &'static str },
    #[error("`id` is that of ops[{first}], too: give each op an id of its own")]
    DuplicateId { first: usize },
    #[error("`{field}` names op {id}, which the graph does not have: add it, or correct the id")]
    UnknownOp { field: &'static str, id: u64 },
    #[error("`{field}` names op {id}, which has not run by then: list the ops in execution order")]
    NotYetRun { field: &'static str, id: u64 },
    #[error(
        "with `{field}` the {what} of the ops so far exceeds 2^60: no real iteration does, correct it"
    )]
    TooLarge { field: &'static str, what: &'static str },
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
