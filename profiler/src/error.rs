//! Why something was not measured or run.

use planner::PlanError;
use runtime::cuda::{CodecRunError, CudaError, OpenError};
use runtime::device::{AccessError, DeviceError, RunFailure};
use runtime::memory::NoRoom;
use runtime::profile::ZerosError;

/// Why something was not measured or run. Each error beneath names its place and its remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what is wrong")]
pub enum MeasureError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Run(#[from] RunFailure),
    #[error(transparent)]
    InCore(#[from] ZerosError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Kernels(#[from] CodecRunError),
    #[error(transparent)]
    Codec(#[from] codecs::Error),
    #[error("{0} compresses on the host alone: leave it away")]
    HostAlone(codecs::CodecId),
    #[error("--sizes: a tensor has 4096 bytes to 4 GiB")]
    Sizes,
    #[error("cannot start threads: see `ulimit -u`")]
    Threads(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("--graph is for `--device cuda`: the host device has no graphs")]
    NoGraphs,
    #[error("--graph needs --warmup 1 or more: the first iteration is no graph yet")]
    NoWarmup,
    #[error("--inject is for the host device: nothing goes wrong on CUDA on purpose")]
    NoFaults,
    #[error("interrupted: nothing was written")]
    Interrupted,
}

impl From<std::io::Error> for MeasureError {
    fn from(error: std::io::Error) -> Self {
        Self::Threads(error.into())
    }
}

/// What came of work that was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It could not be done; on another machine it might.
    Failed,
    /// Something that was named or written is wrong.
    Input,
    /// There is no feasible plan.
    Infeasible,
    /// A proof or check did not hold.
    NotProven,
    /// Whoever waited wanted no more.
    Interrupted,
}

impl MeasureError {
    /// What came of it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Plan(error) => of_planning(error),
            Self::Device(error) => of_device(error),
            Self::Open(error) => of_opening(error),
            Self::Kernels(error) => of_kernels(error),
            Self::Run(RunFailure::Stopped) | Self::Interrupted => Kind::Interrupted,
            Self::Run(_)
            | Self::InCore(_)
            | Self::Access(_)
            | Self::NoRoom(_)
            | Self::Cuda(_)
            | Self::Threads(_) => Kind::Failed,
            Self::Codec(_)
            | Self::HostAlone(_)
            | Self::Sizes
            | Self::NoGraphs
            | Self::NoWarmup
            | Self::NoFaults => Kind::Input,
        }
    }
}

/// What came of planning: a plan that cannot be proven is our error, never a result.
pub fn of_planning(error: &PlanError) -> Kind {
    match error {
        PlanError::Interrupted => Kind::Interrupted,
        PlanError::Unproven { .. } => Kind::NotProven,
        _ => Kind::Infeasible,
    }
}

/// What came of opening a CUDA device for a plan.
pub fn of_opening(error: &OpenError) -> Kind {
    match error {
        OpenError::Plan(error) => of_device(error),
        OpenError::Commands(_) => Kind::Input,
        OpenError::Cuda(_) => Kind::Failed,
    }
}

/// What came of a codec's kernels: those that make other bytes than the codec have failed a check.
pub fn of_kernels(error: &CodecRunError) -> Kind {
    match error {
        CodecRunError::Cuda(_) => Kind::Failed,
        CodecRunError::Codec(_) => Kind::Input,
        CodecRunError::OtherBytes { .. } | CodecRunError::Refused { .. } => Kind::NotProven,
    }
}

fn of_device(error: &DeviceError) -> Kind {
    match error {
        DeviceError::Unsafe(_) | DeviceError::Contract(_) => Kind::NotProven,
        DeviceError::NoRoom(_) | DeviceError::NoThread { .. } => Kind::Failed,
        _ => Kind::Input,
    }
}

pub type Result<T> = std::result::Result<T, MeasureError>;
