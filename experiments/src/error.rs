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
pub enum Error {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Whoever waited wants no more. What there is by then is said.
    #[error("{0}")]
    Interrupted(&'static str),
    /// Whoever waited for a search wants no more; what is known by then.
    #[error("interrupted: {0}")]
    SearchInterrupted(String),
    /// Something was not measured or run.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A table cannot be read or written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A trace of ops alone.
    #[error(
        "{0} has no tensors, so that nothing can be said of its memory: record it with record_shapes=True and \
         profile_memory=True"
    )]
    NoTensors(String),
    /// A folder cannot be made.
    #[error("cannot make the folder {}", .0.display())]
    Folder(PathBuf, #[source] std::io::Error),
    /// A browser that does not print a page.
    #[error("{0} does not print the page: {1}")]
    Browser(&'static str, String),
    /// No browser that prints a page.
    #[error(
        "--pdf needs Chromium, and none is installed as {0}: print index.html from any browser"
    )]
    NoBrowser(String),
    /// A picture cannot be painted.
    #[error(transparent)]
    Png(#[from] PngError),
    /// This machine has too little memory.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// Nothing is bundled under a name, or a file of a machine or network is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// There is no such family of made-up traces.
    #[error(transparent)]
    Family(#[from] planner::families::FamilyError),
    /// There is no such machine.
    #[error("--machine")]
    Machine(#[source] ScenarioError),
    /// No machine that comes with tidegate is like the one at hand, which has this device, or none.
    #[error(
        "{}: name a machine like yours, such as `--like rtx-3090` (see `list machines`)",
        .0.as_ref().map_or_else(|| "no CUDA device is here".into(), |name| format!("no bundled machine has a {name}"))
    )]
    NoMachineLike(Option<String>),
    /// A network is wrong.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A network cannot be trained here.
    #[error(transparent)]
    NotTrainable(#[from] NotTrainable),
    /// A file that describes a network has changed.
    #[error("{0} is another file than the network was made of: put that one there, or plan again")]
    OtherFile(String),
    /// Efficiencies are wrong.
    #[error("{}", .0.display())]
    Efficiencies(PathBuf, #[source] Box<NetworkError>),
    /// A study is wrong.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// A recording is wrong.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// It is not known what a recording is of, what it ran on, or how long it took.
    #[error("{} {}", .0.display(), .1)]
    Forecast(PathBuf, String),
    /// A file that is no list of recordings.
    #[error("{} is no list of recordings", .0.display())]
    NoList(PathBuf, #[source] toml::de::Error),
    /// Times cannot be carried over to a machine.
    #[error(transparent)]
    CarryOver(#[from] CarryOverError),
    /// Ranks of what is no network as PyTorch runs it.
    #[error("--ranks is for networks by PyTorch's ops, not for {0}: leave it away")]
    RanksOf(String),
    /// What something in a study leads to.
    #[error("{0}")]
    At(Place, #[source] Box<Self>),
    /// A machine that a trace was recorded on, which nobody recorded.
    #[error("nobody recorded {0}, whose times are modelled: leave --recorded-on away")]
    NotRecorded(String),
    /// There is no trace of a name; what to write instead.
    #[error("no network, no bundled trace and no file is called `{0}`: {1}")]
    NoTrace(String, String),
    /// There is no network of a name; what to write instead.
    #[error("`{0}` is no network (see `list networks`) and no file of one: {1}")]
    NoNetwork(String, String),
    /// There is no method of a name; what to write instead.
    #[error("there is no method `{0}`: {1}")]
    NoMethod(String, String),
    /// A policy names an op or module that the trace does not have; what to write instead.
    #[error("the policy names no {0} of the trace: there is no {0} `{1}`: {2}")]
    NotInTrace(&'static str, String, String),
    /// Two ops of a trace have one key, and a plan treats them differently.
    #[error(
        "several ops are called `{0}`, which a plan treats differently: give each op of the trace a `key` \
         of its own, or export --to modules"
    )]
    SameKey(String),
    /// An option names something twice.
    #[error("{0} names `{1}` twice")]
    Twice(&'static str, String),
    /// There is no model of a codec; what to write instead.
    #[error("--codecs, which may be none or all, too: there is no model of `{0}`: {1}")]
    NoModel(String, String),
    /// A codec changes values.
    #[error("--codecs: {0} changes values: allow that with --lossy")]
    Lossy(String),
    /// More than one codec whose rate would slide.
    #[error(
        "--codecs: name at most one codec of fixed rate, whose rate slides over the epochs, and no more \
         than 127 others"
    )]
    SeveralRates,
    /// A range of too many budgets.
    #[error("--step {0}%: a range has at most {1} budgets")]
    ManyBudgets(f64, f64),
    /// No engine runs this as one of its tasks.
    #[error(
        "--point: none of HQ_ENTRY, HQ_TASK_ID and SLURM_ARRAY_TASK_ID is set: write the point's number, \
         such as `--point 0`"
    )]
    NoTask,
    /// An engine's task has no number.
    #[error("--point: {0} is `{1}`, which is no number of a point, such as 0")]
    NoTaskNumber(&'static str, String),
    /// A study has fewer points.
    #[error("--point {0}: {1} has {2} points, numbered from 0: see `study {1} --list`")]
    NoPoint(usize, String, usize),
    /// A folder without results.
    #[error("there are no results of a study in {}: name the folder that one was written to", .0.display())]
    NoResults(PathBuf),
    /// A part of a study that is another point's.
    #[error(
        "{} is not the result of the point that its name stands for: delete it, and the point is \
         planned again",
        .0.display()
    )]
    OtherPoint(PathBuf),
    /// A machine's file together with another link.
    #[error(
        "{0}: a machine of a file has its own link or a bandwidth: write `inherits = \"{1}\"` into a \
         file of its own, or name a bundled machine"
    )]
    LinkOfFile(Place, String),
    /// A share of zeros that is none, in a row from 1.
    #[error("{}: row {}: {} is no share of zeros", .0.display(), .1, .2)]
    NoShare(PathBuf, usize, f64),
    /// A table of zeros without rows.
    #[error("{}: nothing was counted: `profile --epochs` counts", .0.display())]
    NothingCounted(PathBuf),
    /// Zeros of another trace.
    #[error(
        "{}: the trace has no tensor {tensor} called {name} of {bytes}: name the file that `profile` \
         wrote beside the trace",
        file.display()
    )]
    OtherTensors {
        /// The file with the zeros.
        file: PathBuf,
        /// The tensor's number.
        tensor: u32,
        /// Its name.
        name: String,
        /// Its size.
        bytes: Bytes,
    },
    /// Codecs' samples that no one model holds for, or that no model can be fitted to.
    #[error("{}: {}", .0.display(), .1)]
    Samples(PathBuf, SamplesProblem),
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] codecs::Error),
    /// Rows cannot be packed.
    #[error(transparent)]
    Packing(#[from] codecs::ibp::IbpError),
    /// A size of chunks that is none.
    #[error("--chunks")]
    Chunks(#[source] codecs::ibp::IbpError),
    /// A line, from 1, that is no count of lookups.
    #[error("{}, line {}: `{}` is no count; write a whole number", .0.display(), .1, .2)]
    NoCount(PathBuf, usize, String),
    /// Lookups that cannot be predicted.
    #[error(transparent)]
    Lookups(#[from] InferenceError),
    /// A table's file cannot be read.
    #[error("cannot read {}", .0.display())]
    TableFile(PathBuf, #[source] std::io::Error),
    /// A table's file without rows of the size.
    #[error("{}{}", .0.display(), .1)]
    NoRows(PathBuf, String),
    /// A table that is to have less rows than its file.
    #[error("--rows {} is less than the {} rows of {}", .0, .1, .2.display())]
    FewRows(u64, u64, PathBuf),
    /// Options that stand for no rows.
    #[error("--row-bytes and --sample must be at least 1")]
    RowsOfNothing,
    /// Times that scatter by too much.
    #[error("{0}: {1}")]
    Spread(&'static str, SpreadError),
    /// Threads that the operating system refused.
    #[error("cannot start threads: see `ulimit -u`")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// The device does not answer any more.
    #[error("the device was lost before: {0}")]
    Lost(String),
    /// Plans of a check that could not be run.
    #[error("{} of the plans or networks could not be run: see above", .0.len())]
    NotRun(Vec<Self>),
    /// Plans that leave other bits than the iteration in core.
    #[error("{0} plans have other bits than in core")]
    OtherBits(usize),
    /// Layers that compute something else than the host's.
    #[error("{0} ops are not as on the host; the first: {1}")]
    OtherLayers(usize, String),
    /// A CUDA device failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A codec's kernels failed.
    #[error(transparent)]
    Kernels(#[from] CodecRunError),
    /// A network was not trained to the end.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// An op failed.
    #[error(transparent)]
    Op(#[from] RunError),
    /// A network to train that cannot be built.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A codec that loses nothing led to other weights.
    #[error("a lossless codec changed what was learnt")]
    LearntOtherwise,
    /// A way to train without a plan.
    #[error("a way has no plan: {0}")]
    WayWithoutPlan(PlanError),
    /// Nothing was trained.
    #[error("nothing was trained: ask for more iterations")]
    NothingTrained,
    /// A CUDA device refuses a network.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A plan is not safe.
    #[error("{}", .0.display())]
    UnsafePlan(PathBuf, #[source] Box<simulator::Unsafe>),
    /// A plan is not safe, not as it says of itself, or does not compute its trace.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// Codecs do not do what a plan says of them.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A file that is no JSON.
    #[error("{} is not JSON that a report can be made from", .0.display())]
    NotJson(PathBuf, #[source] serde_json::Error),
    /// A file that no report can be made from.
    #[error("{} {}", .0.display(), .1)]
    NoReport(PathBuf, String),
    /// A file that is no comparison.
    #[error("{} is not a comparison", .0.display())]
    NoComparison(PathBuf, #[source] serde_json::Error),
    /// A file that is no explanation.
    #[error("{} is not what `explain --format json` printed", .0.display())]
    NoExplanation(PathBuf, #[source] serde_json::Error),
    /// A plan whose trace is nowhere to be found.
    #[error("{}: its trace is not bundled: name it with --trace", .0.display())]
    NoTraceOfPlan(PathBuf),
    /// A table of results or of zeros that cannot be read.
    #[error(transparent)]
    StudyTable(TableError),
    /// What a plan's settings name.
    #[error("the plan's settings name what its times were carried over with")]
    Settings(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Zeros that a plan was made with.
    #[error("the plan was made with the zeros of {0}: put them there")]
    ZerosOfPlan(String, #[source] Box<Self>),
    /// A plan of some epoch, which it does not state.
    #[error("the plan's settings do not say at which epoch of how many")]
    NoMoment,
    /// A plan of a recorded trace.
    #[error("the plan is not for a modelled network: name its trace with --trace")]
    NotModelled,
    /// A plan for a trace that this version makes otherwise.
    #[error("{0} is modelled otherwise by this version than the plan has it: plan again")]
    ModelledOtherwise(String),
    /// A plan for another machine.
    #[error("the plan was made for machine {0}, not for {1}: plan again for that one")]
    OtherMachine(String, String),
    /// Options of a network in a trace of an older version.
    #[error("the trace's options of {0}")]
    TraceOptions(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// A trace of an unknown network.
    #[error(
        "the trace of {0} does not say which network it was measured on: make one with `tidegate \
         profile`"
    )]
    NoRecipe(String),
    /// A network with another framework's ops.
    #[error(
        "the plan runs PyTorch's ops of {0}, which is not what runs here: plan again with \
         `--conventions tidegate`"
    )]
    NotRunHere(String),
    /// There is no step of a name.
    #[error("there is no step `{0}`: name one of {1}")]
    NoStep(String, String),
    /// Steps that failed.
    #[error("{} of {} steps failed: see {}", .0, .1, .2.display())]
    StepsFailed(usize, usize, PathBuf),
    /// There is a driver without a device.
    #[error("the NVIDIA driver sees no device")]
    NoDevice,
    /// Not all steps were taken.
    #[error("interrupted: {} has what was done", .0.display())]
    Acceptance(PathBuf),
    /// A document that is none of `acceptance`.
    #[error("{}: what `tidegate acceptance` writes", .0.display())]
    NoAcceptance(PathBuf, #[source] serde_json::Error),
}

/// What is wrong with samples of codecs.
#[derive(Debug, thiserror::Error)]
pub enum SamplesProblem {
    /// There are none.
    #[error("there are no samples in it")]
    Empty,
    /// Of two devices, element types or numbers of threads.
    #[error("samples of {0} and of {1}, for which no one model holds: keep one of them")]
    Several(String, String),
    /// A word that stands for no fidelity.
    #[error("`{0}` is no fidelity of a codec")]
    NoFidelity(String),
    /// A codec's samples that nothing can be fitted to.
    #[error("{0}: {1}")]
    NoFit(String, FitError),
    /// Models that are none.
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
