//! Exit codes.

use std::process::ExitCode;

use experiments::Error;
use planner::PlanError;
use profiler::MeasureError;
use runtime::cuda::{CodecRunError, OpenError};
use runtime::device::DeviceError;
use runtime::memory::NoRoom;
use schema::FileError;
use simulator::ContractError;

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

impl From<Error> for WithExit {
    fn from(error: Error) -> Self {
        match error {
            Error::File(error) => error.into(),
            error => Self { exit: exit_of(&error), error: error.into() },
        }
    }
}

impl From<MeasureError> for WithExit {
    fn from(error: MeasureError) -> Self {
        Error::from(error).into()
    }
}

/// What is wrong decides. Most of it is wrong input; a machine that cannot do it is none, as another may.
fn exit_of(error: &Error) -> Exit {
    match error {
        error if error.is_interruption() => Exit::Interrupted,
        Error::Plan(error) => exit_of_planning(error),
        Error::At(_, error) => exit_of(error),
        Error::NotRun(errors) => {
            errors.iter().map(exit_of).max_by_key(|exit| *exit as u8).unwrap_or(Exit::Failed)
        }
        Error::Measure(error) => exit_of_measuring(error),
        Error::Open(error) => exit_of_opening(error),
        Error::Kernels(error) => exit_of_kernels(error),
        Error::UnsafePlan(..) | Error::OtherBits(_) | Error::OtherLayers(..) => Exit::NotProven,
        Error::Contract(ContractError::OtherTrace { .. }) => Exit::Usage,
        Error::Contract(_) => Exit::NotProven,
        Error::Table(_)
        | Error::Folder(..)
        | Error::Png(_)
        | Error::NoRoom(_)
        | Error::Threads(_)
        | Error::Training(_)
        | Error::Op(_)
        | Error::NothingTrained
        | Error::Lost(_)
        | Error::Cuda(_)
        | Error::NoDevice => Exit::Failed,
        _ => Exit::Usage,
    }
}

/// A plan that cannot be proven is our error, never a result.
fn exit_of_planning(error: &PlanError) -> Exit {
    match error {
        PlanError::Unproven { .. } => Exit::NotProven,
        _ => Exit::Infeasible,
    }
}

fn exit_of_measuring(error: &MeasureError) -> Exit {
    match error {
        MeasureError::Plan(error) => exit_of_planning(error),
        MeasureError::Device(error) => exit_of_refusal(error),
        MeasureError::Open(error) => exit_of_opening(error),
        MeasureError::Kernels(error) => exit_of_kernels(error),
        MeasureError::Run(_)
        | MeasureError::InCore(_)
        | MeasureError::Access(_)
        | MeasureError::NoRoom(_)
        | MeasureError::Cuda(_)
        | MeasureError::Threads(_) => Exit::Failed,
        _ => Exit::Usage,
    }
}

/// Why there is no CUDA device for a plan.
fn exit_of_opening(error: &OpenError) -> Exit {
    match error {
        OpenError::Plan(error) => exit_of_refusal(error),
        OpenError::Commands(_) => Exit::Usage,
        OpenError::Cuda(_) => Exit::Failed,
    }
}

/// A plan that a device does not take: what was not proven has its own exit code.
fn exit_of_refusal(error: &DeviceError) -> Exit {
    match error {
        DeviceError::Unsafe(_) | DeviceError::Contract(_) => Exit::NotProven,
        DeviceError::NoRoom(_) | DeviceError::NoThread { .. } => Exit::Failed,
        _ => Exit::Usage,
    }
}

/// Kernels that make other bytes than the codec have failed a check.
fn exit_of_kernels(error: &CodecRunError) -> Exit {
    match error {
        CodecRunError::Cuda(_) => Exit::Failed,
        CodecRunError::Codec(_) => Exit::Usage,
        CodecRunError::OtherBytes { .. } | CodecRunError::Refused { .. } => Exit::NotProven,
    }
}

/// The machine cannot do it; another may.
impl From<NoRoom> for WithExit {
    fn from(error: NoRoom) -> Self {
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
    ended(
        Exit::Interrupted,
        "interrupted: shown is what there was by then, the last plan as good as its search had come",
    )
}
