//! The lines of a log.

use serde::Deserialize;
use serde_json::Value;

use crate::import::error::{DtrProblem, quoted, quoted_value};

#[derive(Debug, Deserialize)]
#[serde(tag = "INSTRUCTION", rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Instruction {
    /// A tensor that no op of the log makes. Its MEMORY line follows.
    #[serde(rename_all = "UPPERCASE")]
    Constant { name: String },
    /// Size of the tensor that the line before defines.
    #[serde(rename_all = "UPPERCASE")]
    Memory { name: String, memory: Number },
    /// Whose storage a result shares: an argument's, by index, or none (-1).
    #[serde(rename_all = "UPPERCASE")]
    Alias { name: String, alias: Number },
    /// An op. A MEMORY and an ALIAS line follow for each result.
    #[serde(rename_all = "UPPERCASE")]
    Call { name: String, args: Vec<String>, result: Vec<String>, time: Number },
    /// An op that writes the arguments with these indices in place.
    #[serde(rename_all = "UPPERCASE")]
    Mutate { name: String, args: Vec<String>, mutate: Vec<u64>, time: Number },
    /// A new name for a tensor.
    #[serde(rename_all = "UPPERCASE")]
    Copy { dst: String, src: String },
    /// A name goes over to another tensor.
    #[serde(rename_all = "UPPERCASE")]
    CopyFrom { dst: String, src: String },
    #[serde(rename_all = "UPPERCASE")]
    Release { name: String },
    /// START or BACKWARD.
    #[serde(rename_all = "UPPERCASE")]
    Annotate { annotation: String },
}

impl Instruction {
    fn describe(&self) -> String {
        let (instruction, name) = match self {
            Self::Constant { name } => ("CONSTANT", name),
            Self::Memory { name, .. } => ("MEMORY", name),
            Self::Alias { name, .. } => ("ALIAS", name),
            Self::Call { name, .. } => ("CALL", name),
            Self::Mutate { name, .. } => ("MUTATE", name),
            Self::Copy { dst, .. } => ("COPY", dst),
            Self::CopyFrom { dst, .. } => ("COPY_FROM", dst),
            Self::Release { name } => ("RELEASE", name),
            Self::Annotate { annotation } => ("ANNOTATE", annotation),
        };
        format!("there is {instruction} of `{}`", quoted(name))
    }
}

/// A number, which the logs write as a string.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Number(Value);

/// No single figure of a real iteration exceeds it, and sums of two fit a `u64`.
const LARGEST: u64 = 1 << 60;

impl Number {
    /// The number, which must be whole and not negative.
    pub fn whole(&self, field: &'static str) -> Result<u64, DtrProblem> {
        let value = match &self.0 {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        };
        value.filter(|value| *value <= LARGEST).ok_or_else(|| DtrProblem::Number {
            field,
            found: quoted_value(&self.0),
            range: "from 0 to 2^60",
        })
    }

    /// The number as the index of an argument: `None` for -1.
    fn index(&self, field: &'static str) -> Result<Option<u64>, DtrProblem> {
        let value: Option<i64> = match &self.0 {
            Value::String(text) => text.parse().ok(),
            value => value.as_i64(),
        };
        match value {
            Some(-1) => Ok(None),
            Some(index) if index >= 0 => Ok(Some(index.unsigned_abs())),
            _ => {
                Err(DtrProblem::Number { field, found: quoted_value(&self.0), range: "from -1 on" })
            }
        }
    }
}

/// The instructions of one iteration, one after another, with their line numbers.
pub(super) struct Lines<'a> {
    rest: std::str::Lines<'a>,
    number: usize,
}

impl<'a> Lines<'a> {
    /// Everything after the first `ANNOTATE START`, or the whole text where there is none. What
    /// comes before belongs to no iteration and may be anything.
    pub fn from_start_of_iteration(text: &'a str) -> Self {
        let mut lines = Self { rest: text.lines(), number: 0 };
        while let Some(line) = lines.rest.next() {
            lines.number += 1;
            // Parsing is for the few lines that may be it.
            if line.contains("ANNOTATE")
                && let Ok(Instruction::Annotate { annotation }) = parse(line)
                && annotation == "START"
            {
                return lines;
            }
        }
        Self { rest: text.lines(), number: 0 }
    }

    /// The number of the line that was read last, counted from 1.
    pub fn number(&self) -> usize {
        self.number.max(1)
    }

    /// Makes [`Lines::number`] that of an earlier line, which turned out to be the one at fault.
    pub fn blame(&mut self, number: usize) {
        self.number = number;
    }

    /// The next instruction; empty lines are passed over.
    pub fn next(&mut self) -> Result<Option<Instruction>, DtrProblem> {
        for line in self.rest.by_ref() {
            self.number += 1;
            if !line.trim().is_empty() {
                return parse(line).map(Some);
            }
        }
        Ok(None)
    }

    /// The size in the MEMORY line of `expected`, which must come next.
    pub fn memory_of(&mut self, expected: &str) -> Result<u64, DtrProblem> {
        self.memory_line_of(expected)?.whole("MEMORY")
    }

    /// The MEMORY line of `expected`, which must come next; its number is not looked at.
    pub fn memory_line_of(&mut self, expected: &str) -> Result<Number, DtrProblem> {
        match self.next()? {
            Some(Instruction::Memory { name, memory }) if name == expected => Ok(memory),
            other => Err(not_expected(expected, "MEMORY", other)),
        }
    }

    /// The argument index in the ALIAS line of `expected`, which must come next: `None` for a new
    /// storage.
    pub fn alias_of(&mut self, expected: &str) -> Result<Option<u64>, DtrProblem> {
        match self.next()? {
            Some(Instruction::Alias { name, alias }) if name == expected => alias.index("ALIAS"),
            other => Err(not_expected(expected, "ALIAS", other)),
        }
    }
}

fn parse(line: &str) -> Result<Instruction, DtrProblem> {
    serde_json::from_str(line).map_err(|error| {
        // The parser sees one line only; which one it is stands at the front of the message.
        let why = error.to_string().replace(" at line 1 column ", " at column ");
        DtrProblem::Syntax { why: quoted(&why) }
    })
}

fn not_expected(name: &str, expected: &'static str, found: Option<Instruction>) -> DtrProblem {
    let found = found.map_or_else(|| "the log ends".into(), |found| found.describe());
    DtrProblem::Expected { name: quoted(name), expected, found }
}
