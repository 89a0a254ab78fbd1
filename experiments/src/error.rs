//! Why a question has no answer.

use std::path::PathBuf;

use codecs::claims::ClaimError;
use networks::NetworkError;
use planner::inference::InferenceError;
use planner::{PlanError, SpreadError};
use profiler::import::ImportError;
use profiler::{MeasureError, of_kernels, of_opening, of_planning};
use regression::FitError;
use reports::PngError;
use runtime::cuda::{CodecRunError, CudaError, OpenError};
use runtime::device::RunFailure;
use runtime::layers::ShapeError;
use runtime::memory::NoRoom;
use runtime::network::{NotTrainable, RunError};
use runtime::training::TrainingError;
use scenarios::{CarryOverError, Place, ScenarioError, StudyError};
use schema::{Bytes, FileError};
use simulator::{ContractError, Unproven};

/// Why a question has no answer. Each names its place and its remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what is wrong")]
pub enum Error {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("{0}")]
    Interrupted(&'static str),
    #[error("interrupted: {0}")]
    SearchInterrupted(String),
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(
        "{0} has no tensors, so that nothing can be said of its memory: record it with record_shapes=True and \
         profile_memory=True"
    )]
    NoTensors(String),
    #[error("cannot make the folder {}", .0.display())]
    Folder(PathBuf, #[source] std::io::Error),
    #[error("{0} does not print the page: {1}")]
    Browser(&'static str, String),
    #[error(
        "--pdf needs Chromium, and none is installed as {0}: print index.html from any browser"
    )]
    NoBrowser(String),
    #[error(transparent)]
    Png(#[from] PngError),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Family(#[from] planner::families::FamilyError),
    #[error("--machine")]
    Machine(#[source] ScenarioError),
    #[error(
        "{}: name a machine like yours, such as `--like rtx-3090` (see `list machines`)",
        .0.as_ref().map_or_else(|| "no CUDA device is here".into(), |name| format!("no bundled machine has a {name}"))
    )]
    NoMachineLike(Option<String>),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    NotTrainable(#[from] NotTrainable),
    #[error("{0} is another file than the network was made of: put that one there, or plan again")]
    OtherFile(String),
    #[error("{}", .0.display())]
    Efficiencies(PathBuf, #[source] Box<NetworkError>),
    #[error(transparent)]
    Study(#[from] StudyError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error("{} {}", .0.display(), .1)]
    Forecast(PathBuf, String),
    #[error("{} is no list of recordings", .0.display())]
    NoList(PathBuf, #[source] toml::de::Error),
    #[error(transparent)]
    CarryOver(#[from] CarryOverError),
    #[error("--ranks is for networks by PyTorch's ops, not for {0}: leave it away")]
    RanksOf(String),
    #[error("{0}")]
    At(Place, #[source] Box<Self>),
    #[error("nobody recorded {0}, whose times are modelled: leave --recorded-on away")]
    NotRecorded(String),
    #[error("no network, no bundled trace and no file is called `{0}`: {1}")]
    NoTrace(String, String),
    #[error("`{0}` is no network (see `list networks`) and no file of one: {1}")]
    NoNetwork(String, String),
    #[error("there is no method `{0}`: {1}")]
    NoMethod(String, String),
    #[error("the policy names no {0} of the trace: there is no {0} `{1}`: {2}")]
    NotInTrace(&'static str, String, String),
    #[error(
        "several ops are called `{0}`, which a plan treats differently: give each op of the trace a `key` \
         of its own, or export --to modules"
    )]
    SameKey(String),
    #[error("{0} names `{1}` twice")]
    Twice(&'static str, String),
    #[error("--codecs, which may be none or all, too: there is no model of `{0}`: {1}")]
    NoModel(String, String),
    #[error("--codecs: {0} changes values: allow that with --lossy")]
    Lossy(String),
    #[error(
        "--codecs: name at most one codec of fixed rate, whose rate slides over the epochs, and no more \
         than 127 others"
    )]
    SeveralRates,
    #[error("--step {0}%: a range has at most {1} budgets")]
    ManyBudgets(f64, f64),
    #[error(
        "--point: none of HQ_ENTRY, HQ_TASK_ID and SLURM_ARRAY_TASK_ID is set: write the point's number, \
         such as `--point 0`"
    )]
    NoTask,
    #[error("--point: {0} is `{1}`, which is no number of a point, such as 0")]
    NoTaskNumber(&'static str, String),
    #[error("--point {0}: {1} has {2} points, numbered from 0: see `study {1} --list`")]
    NoPoint(usize, String, usize),
    #[error("there are no results of a study in {}: name the folder that one was written to", .0.display())]
    NoResults(PathBuf),
    #[error(
        "{} is not the result of the point that its name stands for: delete it, and the point is \
         planned again",
        .0.display()
    )]
    OtherPoint(PathBuf),
    #[error(
        "{0}: a machine of a file has its own link or a bandwidth: write `inherits = \"{1}\"` into a \
         file of its own, or name a bundled machine"
    )]
    LinkOfFile(Place, String),
    /// A share of zeros that is none, in a row from 1.
    #[error("{}: row {}: {} is no share of zeros", .0.display(), .1, .2)]
    NoShare(PathBuf, usize, f64),
    #[error("{}: nothing was counted: `profile --epochs` counts", .0.display())]
    NothingCounted(PathBuf),
    #[error(
        "{}: the trace has no tensor {tensor} called {name} of {bytes}: name the file that `profile` \
         wrote beside the trace",
        file.display()
    )]
    OtherTensors { file: PathBuf, tensor: u32, name: String, bytes: Bytes },
    #[error("{}: {}", .0.display(), .1)]
    Samples(PathBuf, SamplesProblem),
    #[error(transparent)]
    Codec(#[from] codecs::Error),
    #[error(transparent)]
    Packing(#[from] codecs::ibp::IbpError),
    #[error("--chunks")]
    Chunks(#[source] codecs::ibp::IbpError),
    /// A line, from 1, that is no count of lookups.
    #[error("{}, line {}: `{}` is no count; write a whole number", .0.display(), .1, .2)]
    NoCount(PathBuf, usize, String),
    #[error(transparent)]
    Lookups(#[from] InferenceError),
    #[error("cannot read {}", .0.display())]
    TableFile(PathBuf, #[source] std::io::Error),
    #[error("{}{}", .0.display(), .1)]
    NoRows(PathBuf, String),
    #[error("--rows {} is less than the {} rows of {}", .0, .1, .2.display())]
    FewRows(u64, u64, PathBuf),
    #[error("--row-bytes and --sample must be at least 1")]
    RowsOfNothing,
    #[error("{0}: {1}")]
    Spread(&'static str, SpreadError),
    #[error("cannot start threads: see `ulimit -u`")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("the device was lost before: {0}")]
    Lost(String),
    #[error("{} of the plans or networks could not be run: see above", .0.len())]
    NotRun(Vec<Self>),
    #[error("{0} plans have other bits than in core")]
    OtherBits(usize),
    #[error("{0} ops are not as on the host; the first: {1}")]
    OtherLayers(usize, String),
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Kernels(#[from] CodecRunError),
    #[error(transparent)]
    Training(#[from] TrainingError),
    #[error(transparent)]
    Op(#[from] RunError),
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error("a lossless codec changed what was learnt")]
    LearntOtherwise,
    #[error("a way has no plan: {0}")]
    WayWithoutPlan(PlanError),
    #[error("nothing was trained: ask for more iterations")]
    NothingTrained,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{}", .0.display())]
    UnsafePlan(PathBuf, #[source] Box<simulator::Unsafe>),
    #[error(transparent)]
    Unproven(#[from] Unproven),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("{} is not JSON that a report can be made from", .0.display())]
    NotJson(PathBuf, #[source] serde_json::Error),
    #[error("{} {}", .0.display(), .1)]
    NoReport(PathBuf, String),
    #[error("{} is not a comparison", .0.display())]
    NoComparison(PathBuf, #[source] serde_json::Error),
    #[error("{} is not what `explain --format json` printed", .0.display())]
    NoExplanation(PathBuf, #[source] serde_json::Error),
    #[error("{}: its trace is not bundled: name it with --trace", .0.display())]
    NoTraceOfPlan(PathBuf),
    #[error(transparent)]
    StudyTable(TableError),
    #[error("the plan's settings name what its times were carried over with")]
    Settings(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the plan was made with the zeros of {0}: put them there")]
    ZerosOfPlan(String, #[source] Box<Self>),
    #[error("the plan's settings do not say at which epoch of how many")]
    NoMoment,
    #[error("the plan is not for a modelled network: name its trace with --trace")]
    NotModelled,
    #[error("{0} is modelled otherwise by this version than the plan has it: plan again")]
    ModelledOtherwise(String),
    #[error("the plan was made for machine {0}, not for {1}: plan again for that one")]
    OtherMachine(String, String),
    #[error("the trace's options of {0}")]
    TraceOptions(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(
        "the trace of {0} does not say which network it was measured on: make one with `tidegate \
         profile`"
    )]
    NoRecipe(String),
    #[error(
        "the plan runs PyTorch's ops of {0}, which is not what runs here: plan again with \
         `--conventions tidegate`"
    )]
    NotRunHere(String),
    #[error("there is no step `{0}`: name one of {1}")]
    NoStep(String, String),
    #[error("{} of {} steps failed: see {}", .0, .1, .2.display())]
    StepsFailed(usize, usize, PathBuf),
    #[error("the NVIDIA driver sees no device")]
    NoDevice,
    #[error("interrupted: {} has what was done", .0.display())]
    Acceptance(PathBuf),
    #[error("{}: what `tidegate acceptance` writes", .0.display())]
    NoAcceptance(PathBuf, #[source] serde_json::Error),
}

/// What is wrong with samples of codecs.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what is wrong")]
pub enum SamplesProblem {
    #[error("there are no samples in it")]
    Empty,
    #[error("samples of {0} and of {1}, for which no one model holds: keep one of them")]
    Several(String, String),
    #[error("`{0}` is no fidelity of a codec")]
    NoFidelity(String),
    #[error("{0}: {1}")]
    NoFit(String, FitError),
    #[error("{0}")]
    NoModels(String),
}

use crate::tables::TableError;

pub use profiler::Kind;

impl From<ContractError> for Error {
    fn from(error: ContractError) -> Self {
        Unproven::from(error).into()
    }
}

/// What answers are.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What came of it. Most of what is wrong is wrong input; a machine that cannot do it is none.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Interrupted(_)
            | Self::SearchInterrupted(_)
            | Self::Acceptance(_)
            | Self::Training(TrainingError::Run(RunFailure::Stopped)) => Kind::Interrupted,
            Self::Plan(error) | Self::WayWithoutPlan(error) => of_planning(error),
            Self::At(_, error) => error.kind(),
            Self::NotRun(errors) => errors.iter().map(Self::kind).max().unwrap_or(Kind::Failed),
            Self::Measure(error) => error.kind(),
            Self::Open(error) => of_opening(error),
            Self::Kernels(error) => of_kernels(error),
            Self::Unproven(Unproven::Contract(ContractError::OtherTrace { .. })) => Kind::Input,
            Self::Unproven(_)
            | Self::Claim(_)
            | Self::UnsafePlan(..)
            | Self::OtherBits(_)
            | Self::LearntOtherwise
            | Self::OtherLayers(..) => Kind::NotProven,
            Self::File(FileError::Io { verb: "write", .. })
            | Self::Table(_)
            | Self::Folder(..)
            | Self::Browser(..)
            | Self::NoBrowser(_)
            | Self::Png(_)
            | Self::NoRoom(_)
            | Self::Threads(_)
            | Self::Training(_)
            | Self::Op(_)
            | Self::Shape(_)
            | Self::NothingTrained
            | Self::Lost(_)
            | Self::Cuda(_)
            | Self::StepsFailed(..)
            | Self::NoDevice => Kind::Failed,
            _ => Kind::Input,
        }
    }

    /// Whether whoever waited wanted no more.
    pub fn is_interruption(&self) -> bool {
        self.kind() == Kind::Interrupted
    }

    /// With everything that caused it, in a line.
    pub fn in_words(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}
