//! What a recording says of itself, beside the trace that it makes.

use serde::Serialize;

/// Figures of a recording; what it does not know is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Allocations of the whole recording.
    pub allocations: u64,
    /// Frees of the whole recording.
    pub frees: u64,
    /// Frees without an allocation, and allocations where something was.
    pub unmatched: u64,
    /// Events after which the sum of allocations and frees is not what the recording states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals_off: Option<u64>,
    /// The most that was allocated at once, in the chosen step or, without steps, ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_peak_bytes: Option<u64>,
    /// The most that the allocator had reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_peak_bytes: Option<u64>,
    /// The most that the model of the allocator reserves ([`simulator::CachingAllocator`]), beginning with
    /// what was reserved when the recording began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_reserved_bytes: Option<u64>,
    /// The same in a process that begins with what was allocated then, and nothing else reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_from_empty_bytes: Option<u64>,
    /// Allocations that the model places where they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placed_alike: Option<u64>,
    /// Kernels of the whole recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<u64>,
    /// Those whose op was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlinked_kernels: Option<u64>,
    /// The step that became the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// All steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Ops of an execution trace, and those of them whose time a profile has under the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed_ops: Option<TimedOps>,
    /// What held most at the peak, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_peak: Vec<Holder>,
    /// What had to be decided where there is no trace to say so.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// One iteration of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its number: the profiler's, or counted from 1.
    pub step: u64,
    /// What its ops take.
    pub time_ns: u64,
    /// The most that was allocated in it.
    pub allocated_peak_bytes: Option<u64>,
}

/// How well an execution trace and a profile agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TimedOps {
    /// Ops of the trace.
    pub ops: u64,
    /// Those that the profile has, too.
    pub agree: u64,
}

impl TimedOps {
    /// Whether the profile has so few of the ops that it must be of another run.
    pub fn of_another_run(self) -> bool {
        self.agree * 2 < self.ops
    }
}

/// Allocations of one place in the program that were live at the peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The place, innermost frame first.
    pub place: String,
    /// How many allocations.
    pub allocations: u64,
    /// Their bytes together.
    pub bytes: u64,
}
