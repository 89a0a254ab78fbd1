//! Exit codes.

use std::process::ExitCode;

use experiments::{Error, Kind};
use profiler::MeasureError;
use schema::FileError;

/// Something that ends the command, with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The work could not be done: a file could not be written, say.
    Failed = 1,
    /// Wrong usage or input.
    Usage = 2,
    /// No feasible plan.
    Infeasible = 3,
    /// A proof or check did not hold.
    NotProven = 4,
    /// Interrupted from the keyboard. By another signal it is 128 and that signal's number.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that says which exit code it wants.
#[derive(Debug)]
pub struct WithExit {
    pub exit: Exit,
    pub error: anyhow::Error,
}

pub type Result<T = ()> = std::result::Result<T, WithExit>;

/// Gives errors their exit codes.
pub trait OrExit<T> {
    /// Ends with `exit` on an error.
    fn or_exit(self, exit: Exit) -> Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for std::result::Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T> {
        self.map_err(|error| WithExit { exit, error: error.into() })
    }
}

impl From<FileError> for WithExit {
    fn from(error: FileError) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for WithExit {
    fn from(error: Error) -> Self {
        let exit = match error.kind() {
            Kind::Input => Exit::Usage,
            Kind::Infeasible => Exit::Infeasible,
            Kind::NotProven => Exit::NotProven,
            Kind::Interrupted => Exit::Interrupted,
            Kind::Failed => Exit::Failed,
        };
        Self { exit, error: error.into() }
    }
}

impl From<MeasureError> for WithExit {
    fn from(error: MeasureError) -> Self {
        Error::from(error).into()
    }
}

/// An end with an exit code, in a sentence.
pub fn ended(exit: Exit, message: impl std::fmt::Display) -> WithExit {
    WithExit { exit, error: anyhow::anyhow!("{message}") }
}

/// Wrong usage or input, in a sentence.
pub fn usage(message: impl std::fmt::Display) -> WithExit {
    ended(Exit::Usage, message)
}

/// The end of a command that was interrupted and has shown what there was by then.
pub fn end_of_interrupted() -> WithExit {
    let shown = "shown is what there was by then, the last plan as good as its search had come";
    ended(Exit::Interrupted, format!("interrupted: {shown}"))
}

/// An end that is none unless the command was interrupted.
pub fn unless(interrupted: bool, said: &str) -> Result {
    if interrupted { Err(ended(Exit::Interrupted, said)) } else { Ok(()) }
}
