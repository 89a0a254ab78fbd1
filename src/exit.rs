//! Exit codes.

use std::process::ExitCode;

use runtime::memory::NoRoom;
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
    /// The exit code.
    pub exit: Exit,
    /// What went wrong.
    pub error: anyhow::Error,
}

/// What every subcommand returns.
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

/// A file that cannot be read or is not what it should be is wrong input; one that cannot be
/// written is a failure.
impl From<FileError> for WithExit {
    fn from(error: FileError) -> Self {
        let exit = match error {
            FileError::Io { verb: "write", .. } => Exit::Failed,
            _ => Exit::Usage,
        };
        Self { exit, error: error.into() }
    }
}

/// The machine cannot do it; another may.
impl From<NoRoom> for WithExit {
    fn from(error: NoRoom) -> Self {
        Self { exit: Exit::Failed, error: error.into() }
    }
}

/// Wrong usage or input, in a sentence.
pub fn usage(message: impl std::fmt::Display) -> WithExit {
    WithExit { exit: Exit::Usage, error: anyhow::anyhow!("{message}") }
}
