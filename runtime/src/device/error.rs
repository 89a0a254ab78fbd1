//! What can go wrong before, between and in iterations.

use codecs::claims::ClaimError;
use schema::{
    ActionId, BufferId, Bytes, CodecRef, Lane, Malformed, OpId, Plan, Task, TensorId, Trace,
};
use simulator::{ContractError, Misstated, Unsafe};

use super::Fault;
use crate::memory::NoRoom;
use crate::network::RunError;

/// Why a device does not take a plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum DeviceError {
    #[error("the plan is not well formed")]
    Malformed(#[from] Malformed),
    #[error("the plan is not safe to run")]
    Unsafe(#[from] Unsafe),
    #[error("the plan misstates its figures")]
    Misstated(#[from] Misstated),
    #[error("the plan is not right about its codecs")]
    Claim(#[from] ClaimError),
    #[error("the plan does not compute the trace")]
    Contract(#[from] ContractError),
    #[error("the trace is not of network `{network}`: {why}; profile the network again")]
    OtherNetwork { network: String, why: String },
    #[error("{buffer} {why}")]
    Buffer { buffer: BufferId, why: &'static str },
    #[error("{tensor} is an operand of {op}, and the plan gives it no buffer there")]
    NoOperand { op: OpId, tensor: TensorId },
    #[error("{fault} cannot be made: {why}")]
    Fault { fault: Fault, why: String },
    #[error("the plan compresses with {codec}, which cannot be run")]
    Codec { codec: CodecRef, source: codecs::Error },
    #[error("the plan needs {needed} of host memory, and there are {limit}: plan with less")]
    HostMemory { needed: Bytes, limit: Bytes },
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("the system gives no thread for codecs: {why}")]
    NoThread { why: String },
}

/// Why a tensor was not read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum AccessError {
    #[error("{tensor} is not there {when}")]
    NotThere { tensor: TensorId, when: &'static str },
    #[error("{tensor} has {expected} cells, and {found} were given")]
    Length { tensor: TensorId, expected: usize, found: usize },
    #[error("an iteration did not end, so that tensors hold anything: make a new device")]
    Unusable,
}

/// Why an iteration did not end.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum RunFailure {
    #[error("stopped")]
    Stopped,
    #[error("{action} on lane {} (`{name}`) failed", lane.name())]
    Action { action: ActionId, lane: Lane, task: Task, name: String, source: ActionError },
    #[error("an iteration before did not end, so that tensors hold anything: make a new device")]
    Unusable,
    #[error("the system gives no thread for a lane: {why}")]
    NoThread { why: String },
}

/// Why an action failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ActionError {
    #[error("the op did not run")]
    Op(#[from] RunError),
    /// A buffer that would lie over one that is in use, which no proven plan has.
    #[error("{buffer} would overlap {live}, which is in use")]
    Overlap { buffer: BufferId, live: BufferId },
    /// A buffer beyond the arena, which no proven plan has.
    #[error("{what} ends at {end} B, beyond the {cap} that there are")]
    OverCap { what: String, end: u64, cap: Bytes },
    #[error("the link failed: the copy did not arrive")]
    Link,
    #[error("no host memory for {needed}: free some, or plan with less")]
    HostMemory { needed: Bytes },
    #[error("the codec failed")]
    Codec(#[from] codecs::Error),
    /// A device said so, which knows no more.
    #[error("{what}")]
    Device { what: String },
}

/// How an iteration did not come to its end.
pub(crate) enum Interruption {
    Stopped,
    NoThread(String),
    Failed(ActionId, ActionError),
}

impl Interruption {
    /// The same for whoever runs the plan of a trace.
    pub fn failure(self, plan: &Plan, trace: &Trace) -> RunFailure {
        let (action, source) = match self {
            Self::Stopped => return RunFailure::Stopped,
            Self::NoThread(why) => return RunFailure::NoThread { why },
            Self::Failed(action, source) => (action, source),
        };
        let Some(of) = plan.actions.get(action.index()) else { return RunFailure::Unusable };
        let task = of.task;
        let name = match task {
            Task::Run(op) | Task::Recompute(op) => &trace.ops[op.index()].name,
            Task::D2h(id) | Task::H2d(id) | Task::Compress(id) | Task::Decompress(id) => {
                &trace.tensors[id.index()].name
            }
        };
        RunFailure::Action { action, lane: plan.lane(of), task, name: name.clone(), source }
    }
}
