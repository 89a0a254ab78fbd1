//! What happened on each lane, or what is predicted to happen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::{Malformed, malformed};
use crate::{ActionId, Bytes, Document, Lane, Nanos, Reference, Task};

/// Intervals per lane and the memory curve of one iteration. Predicted and measured timelines are
/// values of this one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// What the times rest on.
    pub basis: Basis,
    /// The method of the plan.
    pub method: String,
    /// The trace of the plan.
    pub trace: Reference,
    /// The machine of the plan.
    pub machine: Reference,
    /// The budget of the plan.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
    /// Time of the iteration, all lanes drained.
    #[serde(rename = "iteration_ns")]
    pub iteration: Nanos,
    /// Largest sum of live buffers.
    #[serde(rename = "peak_bytes")]
    pub peak: Bytes,
    /// The actions as they ran, in the plan's order.
    pub intervals: Vec<Interval>,
    /// Live bytes, at every moment at which they change.
    pub memory: Vec<MemoryPoint>,
}

/// What a timeline's times rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The simulator.
    Predicted,
    /// Clocks on a device.
    Measured,
}

/// One action as it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The action of the plan.
    pub action: ActionId,
    /// Its lane.
    pub lane: Lane,
    /// What it did.
    pub task: Task,
    /// A name for people: of the op, or of the tensor that is copied or made smaller.
    pub label: String,
    /// Bytes that a copy moves; those of the raw tensor for codecs; zero for ops.
    #[serde(default, skip_serializing_if = "bytes_is_zero")]
    pub bytes: Bytes,
    /// When it started.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// When it ended.
    #[serde(rename = "end_ns")]
    pub end: Nanos,
    /// Why its lane stood idle before it, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// For a copy in, the copy out that brought the tensor to the host; for an op, the copies in
    /// whose tensors it is the first to read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<ActionId>,
}

fn bytes_is_zero(bytes: &Bytes) -> bool {
    *bytes == Bytes::ZERO
}

/// Time for which a lane stood idle before an action, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// How long the lane stood idle.
    #[serde(rename = "idle_ns")]
    pub idle: Nanos,
    /// The action for whose end it waited longest.
    pub on: ActionId,
    /// What that action's end gave it.
    pub cause: StallCause,
}

/// What a stalled action waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// The content of a buffer.
    Data,
    /// Memory that another buffer still occupied.
    Memory,
    /// Its turn: the method wants it not to start earlier.
    Turn,
}

/// Memory at one moment and until the next point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryPoint {
    /// The moment.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// Sum of live buffers.
    #[serde(rename = "resident_bytes")]
    pub resident: Bytes,
    /// The part of it that is being copied, out or in.
    #[serde(rename = "in_flight_bytes")]
    pub in_flight: Bytes,
}

impl Interval {
    /// How long it took.
    pub fn duration(&self) -> Nanos {
        self.end.saturating_sub(self.start)
    }
}

impl Timeline {
    /// Its method, trace and machine, in words.
    pub fn title(&self) -> String {
        format!("{}: {} on {}", self.method, self.trace.name, self.machine.name)
    }

    /// What ran on a lane.
    pub fn on(&self, lane: Lane) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().filter(move |interval| interval.lane == lane)
    }

    /// How long all intervals of a kind took.
    pub fn time_of(&self, is_of_kind: impl Fn(&Interval) -> bool) -> Nanos {
        let of_kind = self.intervals.iter().filter(|interval| is_of_kind(interval));
        of_kind.map(Interval::duration).sum()
    }

    /// How long compute stood idle before actions, for a cause.
    pub fn compute_waits(&self, cause: StallCause) -> Nanos {
        let stalls = self.on(Lane::Compute).filter_map(|interval| interval.stall);
        stalls.filter(|stall| stall.cause == cause).map(|stall| stall.idle).sum()
    }

    /// The lanes that it has: those of compute and copies, and others only where something ran on
    /// them.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> {
        let always = [Lane::Compute, Lane::D2h, Lane::H2d];
        let runs = |lane: Lane| self.intervals.iter().any(|interval| interval.lane == lane);
        Lane::ALL.into_iter().filter(move |lane| always.contains(lane) || runs(*lane))
    }

    /// Total time for which the compute lane stood idle between its first start and the
    /// iteration's end.
    pub fn compute_idle(&self) -> Nanos {
        self.iteration.saturating_sub(self.time_of(|interval| interval.lane == Lane::Compute))
    }
}

/// The iteration without a memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InCore {
    /// Time of all ops, one after another.
    #[serde(rename = "iteration_ns")]
    pub iteration: Nanos,
    /// Largest sum of live tensors.
    #[serde(rename = "peak_bytes")]
    pub peak: Bytes,
    /// The part that no op makes, which is there before the iteration and after it.
    #[serde(rename = "fixed_bytes")]
    pub fixed: Bytes,
}

impl Document for Timeline {
    const FORMAT: &'static str = "tidegate/timeline";
    const VERSION: u32 = 1;

    fn check(&self) -> Result<(), Malformed> {
        const LARGEST: u128 = 1 << 60;
        let bytes: u128 = self.intervals.iter().map(|i| u128::from(i.bytes.0)).sum();
        let memory = self.memory.iter().map(|m| m.resident.max(m.in_flight)).max();
        let memory = memory.unwrap_or_default().max(self.budget).max(self.peak);
        if bytes > LARGEST || u128::from(memory.0) > LARGEST {
            return malformed("memory exceeds 2^60: no real iteration does");
        }
        let idle = |i: &Interval| i.stall.map_or(0, |stall| u128::from(stall.idle.0));
        let time: u128 = self.intervals.iter().map(|i| idle(i) + u128::from(i.duration().0)).sum();
        if time > LARGEST || u128::from(self.iteration.0) > LARGEST {
            return malformed("time exceeds 2^60: no real iteration does");
        }
        for (index, interval) in self.intervals.iter().enumerate() {
            let (start, end, iteration) = (interval.start, interval.end, self.iteration);
            if start > end || end > iteration {
                return malformed(format!(
                    "intervals[{index}] runs from {start} to {end}, in an iteration of {iteration}"
                ));
            }
        }
        let unordered = self.memory.windows(2).position(|pair| pair[0].at > pair[1].at);
        unordered.map_or(Ok(()), |index| {
            let place = format!("memory[{}]", index + 1);
            malformed(format!("{place} is earlier than the one before it: order them by time"))
        })
    }
}
