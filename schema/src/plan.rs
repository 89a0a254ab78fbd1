//! What moves when, and to which address.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::{Malformed, malformed};
use crate::{
    ActionId, BufferId, Bytes, CodecId, CodecRef, Digest, Document, HostBufferId, Nanos, OpId,
    Processor, Recipe, TensorId,
};

/// A plan for one trace on one machine under one budget: which actions run on which lane, what
/// each must come after, and where every buffer lies.
///
/// A buffer lives from the start of the one action that writes it until the last action has ended
/// that reads, writes or holds it. Nothing else frees memory, and nothing is decided while the
/// plan runs.
///
/// What outlives the iteration and no op makes (a parameter, the optimizer's state) begins and ends it
/// on the device, or at one place of the host arena: a host buffer has it at the start, and that buffer,
/// or another at the same address that was filled after the tensor changed for the last time, has it at
/// the end.
///
/// Lanes and `after` alone decide what a plan computes. An op that changes a tensor in place
/// ([`crate::Op::rerunnable`]) changes the one buffer that it reads; buffers, host buffers and
/// compressed forms that were made before keep the version that they were made from, and copies and
/// codecs carry it on. What no op makes is what the next iteration begins with, so no codec that
/// changes values may have it. Whatever else uses the buffer must have ended before such an op
/// starts, or start after it has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The method that made it.
    pub method: String,
    /// The method's settings, as on the command line.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// How to build the trace's network again, where the trace says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Recipe>,
    /// The trace that it was made for.
    pub trace: Reference,
    /// The machine that it was made for.
    pub machine: Reference,
    /// The codec models that its times rest on; absent: it compresses nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec_models: Option<Reference>,
    /// The codecs that decisions and buffers name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codecs: Vec<CodecRef>,
    /// Size of the arena that holds all buffers.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
    /// Size of the pinned host arena that holds all host buffers.
    #[serde(rename = "host_budget_bytes")]
    pub host_budget: Bytes,
    /// Speed of each copy direction while both are busy, in thousandths of its speed alone.
    pub both_directions_permille: u16,
    /// Codecs run on the codec lane, beside compute; absent: on the compute lane.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub codec_lane: bool,
    /// Speed of compute while a codec runs beside it, in thousandths of its speed alone; absent:
    /// 1000, so that codecs do not slow it.
    #[serde(default = "full_speed", skip_serializing_if = "is_full_speed")]
    pub beside_codec_permille: u16,
    /// Speed of compute while a copy runs beside it, in thousandths of its speed alone; absent:
    /// 1000, so that copies do not slow it.
    #[serde(default = "full_speed", skip_serializing_if = "is_full_speed")]
    pub beside_copy_permille: u16,
    /// What was decided for each tensor that the method considered; all others are kept.
    pub decisions: Vec<Decision>,
    /// Device memory.
    pub buffers: Vec<Buffer>,
    /// Host memory.
    pub host_buffers: Vec<HostBuffer>,
    /// The actions, in an order that agrees with lanes and `after`.
    pub actions: Vec<Action>,
    /// What the simulator says of it.
    pub predicted: Predicted,
}

fn full_speed() -> u16 {
    1000
}

fn is_full_speed(permille: &u16) -> bool {
    *permille == full_speed()
}

/// Which document a plan or timeline belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Its name, for people.
    pub name: String,
    /// Its content.
    pub digest: Digest,
}

/// What happens to one tensor between two of its uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The tensor.
    pub tensor: TensorId,
    /// The op that uses it before it leaves.
    pub after: OpId,
    /// The op that uses it next; absent where it must only be there when the iteration ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<OpId>,
    /// What happens in between.
    pub choice: Choice,
    /// The codec that makes the tensor smaller: for `compress`, and for `swap` where the copy is
    /// compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<CodecId>,
}

/// How a tensor spends the time between two of its uses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// On the device.
    Keep,
    /// In host memory.
    Swap,
    /// Nowhere: its op is run again.
    Recompute,
    /// On the device, made smaller by a codec.
    Compress,
}

/// The queues of a device. Each runs its actions in order, one at a time.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Ops; and codecs, where a plan does not have them on a lane of their own.
    Compute,
    /// Copies from device to host.
    D2h,
    /// Copies from host to device.
    H2d,
    /// Codecs, where they run beside compute.
    Codec,
    /// Ops on the host's processor.
    Host,
    /// Ops over a network to other devices.
    Net,
}

impl Lane {
    /// How many lanes there are.
    pub const COUNT: usize = 6;
    /// All lanes, by index.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Compute, Self::D2h, Self::H2d, Self::Codec, Self::Host, Self::Net];

    /// Position in [`Lane::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in documents.
    pub fn name(self) -> &'static str {
        ["compute", "d2h", "h2d", "codec", "host", "net"][self.index()]
    }
}

/// A range of the device arena during a part of the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// The tensor that it holds; absent: workspace of an op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor: Option<TensorId>,
    /// Where it begins in the arena.
    pub address: u64,
    /// Its size; for a compressed form, what is reserved for it.
    pub bytes: Bytes,
    /// It holds the tensor's compressed form, made by this codec. Absent: the tensor itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressed: Option<CodecId>,
    /// It is filled before the iteration begins; no action writes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_start: bool,
    /// It must still be there when the iteration ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_end: bool,
}

impl Buffer {
    /// A buffer for a tensor, or for workspace, that is there for a part of the iteration.
    pub fn new(tensor: Option<TensorId>, address: u64, bytes: Bytes) -> Self {
        Self { tensor, address, bytes, compressed: None, at_start: false, at_end: false }
    }
}

/// A range of the pinned host arena during a part of the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostBuffer {
    /// The tensor that it holds.
    pub tensor: TensorId,
    /// Where it begins in the host arena.
    pub address: u64,
    /// Its size.
    pub bytes: Bytes,
    /// It holds the tensor's compressed form, made by this codec; or, where a codec whose output's
    /// size varies does worse than was reserved for, the tensor itself, for which it has room then.
    ///
    /// Where the tensor itself is copied to and from it, the host's processor makes the compressed
    /// form and the tensor from it, which is part of the copies' durations; what then does not
    /// shrink to this size is kept in memory of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressed: Option<CodecId>,
    /// The tensor is there before the iteration begins; no action fills the buffer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_start: bool,
    /// The tensor must be there when the iteration ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_end: bool,
}

impl HostBuffer {
    /// A buffer for a tensor that is there for a part of the iteration.
    pub fn new(tensor: TensorId, address: u64, bytes: Bytes) -> Self {
        Self { tensor, address, bytes, compressed: None, at_start: false, at_end: false }
    }
}

/// One action on one lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// What it does. This and `on` say its lane, by [`Plan::lane`].
    pub task: Task,
    /// What an op runs on; absent: the device.
    #[serde(default, skip_serializing_if = "Processor::is_device")]
    pub on: Processor,
    /// How long it is predicted to take, alone on the machine.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// Actions of other lanes that must have ended before it starts. The safety proof rests on
    /// these and on the order within each lane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<ActionId>,
    /// Actions of other lanes before whose end this one is not to start, because the method wants
    /// it so. Pacing alone: without them the plan is as safe and computes the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_before: Vec<ActionId>,
    /// Device buffers whose content it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<BufferId>,
    /// Device buffers that come to be when it starts and that it fills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<BufferId>,
    /// Device buffers that it keeps from being given back, though it does not touch them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<BufferId>,
    /// Outputs that lie over an input: both belong to this action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_place: Vec<InPlaceBuffers>,
    /// The host buffer that a copy fills or reads. For a codec whose output's size varies: where
    /// compression puts the tensor itself when the data does worse than was reserved for, and
    /// where decompression then finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostBufferId>,
    /// The host buffers that an op on the host's processor reads, of each tensor one, in place of
    /// `reads`. What it changes in place it changes there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub there: Vec<HostBufferId>,
}

impl Action {
    /// An action on the device that waits for nothing and touches no memory.
    pub fn new(task: Task, duration: Nanos) -> Self {
        Self {
            task,
            on: Processor::Device,
            duration,
            after: Vec::new(),
            not_before: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            holds: Vec::new(),
            in_place: Vec::new(),
            host: None,
            there: Vec::new(),
        }
    }
}

/// An output buffer that lies over an input buffer of the same action: both begin at one address,
/// unless one of them is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InPlaceBuffers {
    /// The buffer that is read for the last time.
    pub input: BufferId,
    /// The buffer that is written over it.
    pub output: BufferId,
}

/// What an action does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Run an op of the trace.
    Run(OpId),
    /// Run an op once more, for outputs that were given up.
    Recompute(OpId),
    /// Copy a tensor to the host.
    #[serde(alias = "copy_out")]
    D2h(TensorId),
    /// Copy a tensor back.
    #[serde(alias = "copy_in")]
    H2d(TensorId),
    /// Make a tensor's compressed form.
    Compress(TensorId),
    /// Make the tensor from its compressed form.
    Decompress(TensorId),
}

impl Task {
    /// The lane of the device that runs it, where codecs have a lane of their own or have not.
    pub fn lane(self, codec_lane: bool) -> Lane {
        match self {
            Self::Run(_) | Self::Recompute(_) => Lane::Compute,
            Self::Compress(_) | Self::Decompress(_) if codec_lane => Lane::Codec,
            Self::Compress(_) | Self::Decompress(_) => Lane::Compute,
            Self::D2h(_) => Lane::D2h,
            Self::H2d(_) => Lane::H2d,
        }
    }
}

/// What the simulator says of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// Time of one iteration, all lanes drained.
    #[serde(rename = "iteration_ns")]
    pub iteration: Nanos,
    /// Largest sum of live buffers at any moment.
    #[serde(rename = "peak_bytes")]
    pub peak: Bytes,
    /// End of the highest buffer in the arena.
    #[serde(rename = "arena_bytes")]
    pub arena: Bytes,
    /// End of the highest host buffer.
    #[serde(rename = "host_arena_bytes")]
    pub host_arena: Bytes,
    /// A time that no plan can beat, where one was computed.
    #[serde(default, rename = "bound_ns", skip_serializing_if = "Option::is_none")]
    pub bound: Option<Nanos>,
}

impl Document for Plan {
    const FORMAT: &'static str = "tidegate/plan";
    const VERSION: u32 = 1;

    fn check(&self) -> Result<(), Malformed> {
        for (field, permille) in [
            ("both_directions_permille", self.both_directions_permille),
            ("beside_codec_permille", self.beside_codec_permille),
            ("beside_copy_permille", self.beside_copy_permille),
        ] {
            if !(100..=1000).contains(&permille) {
                return malformed(format!("{field} must lie between 100 and 1000"));
            }
        }
        self.check_sizes()?;
        self.check_codecs()?;
        for (index, action) in self.actions.iter().enumerate() {
            self.check_action(ActionId::from_index(index), action)?;
        }
        Ok(())
    }
}

impl Plan {
    /// The lane of an action. Where codecs run is the plan's to say, for all of them.
    pub fn lane(&self, action: &Action) -> Lane {
        match action.on {
            Processor::Device => action.task.lane(self.codec_lane),
            Processor::Host => Lane::Host,
            Processor::Net => Lane::Net,
        }
    }

    /// Bytes that an action moves or works on: of a copy, what goes over the link; of a codec, the
    /// raw tensor; of an op, none.
    pub fn moved_bytes(&self, action: &Action) -> Bytes {
        let buffer = match action.task {
            Task::Run(_) | Task::Recompute(_) => None,
            Task::D2h(_) | Task::Compress(_) => action.reads.first(),
            Task::H2d(_) | Task::Decompress(_) => action.writes.first(),
        };
        buffer.map_or(Bytes::ZERO, |buffer| self.buffers[buffer.index()].bytes)
    }

    /// The codec by which the host's processor keeps what a copy moves, where it does: the tensor
    /// itself goes over the link, and the host buffer has room for its compressed form alone.
    pub fn packed_by_host(&self, action: &Action) -> Option<CodecId> {
        let moved = match action.task {
            Task::D2h(_) => action.reads.first(),
            Task::H2d(_) => action.writes.first(),
            _ => None,
        };
        let is_raw = moved.is_some_and(|id| self.buffers[id.index()].compressed.is_none());
        let host = action.host.map(|host| &self.host_buffers[host.index()]);
        host.filter(|_| is_raw).and_then(|host| host.compressed)
    }

    fn check_sizes(&self) -> Result<(), Malformed> {
        const LARGEST: u128 = 1 << 60;
        let too_large =
            |what: &str| malformed(format!("{what} reaches past 2^60: no memory is that large"));
        let device = self.buffers.iter().map(|b| (b.address, b.bytes)).enumerate();
        let host = self.host_buffers.iter().map(|b| (b.address, b.bytes)).enumerate();
        let named = device.map(|b| ("buffers", b)).chain(host.map(|b| ("host_buffers", b)));
        for (list, (i, (address, bytes))) in named {
            if u128::from(address) + u128::from(bytes.0) > LARGEST {
                return too_large(&format!("{list}[{i}]"));
            }
        }
        let bytes: u128 = self.buffers.iter().map(|b| u128::from(b.bytes.0)).sum();
        let time: u128 = self.actions.iter().map(|a| u128::from(a.duration.0)).sum();
        if bytes > LARGEST || u128::from(self.budget.0) > LARGEST {
            return too_large("the plan's sum of bytes");
        }
        match time > u128::from(Nanos::MOST.0) {
            true => {
                malformed("the actions take more than 2^50 ns together: no real iteration does")
            }
            false => Ok(()),
        }
    }

    fn check_codecs(&self) -> Result<(), Malformed> {
        for (index, decision) in self.decisions.iter().enumerate() {
            let problem = match (decision.choice, decision.codec) {
                (Choice::Compress, None) => "compress, and names no codec",
                (Choice::Keep | Choice::Recompute, Some(_)) => {
                    "keep or recompute, and names a codec"
                }
                _ => continue,
            };
            return malformed(format!("decisions[{index}] is to {problem}"));
        }
        let decisions = self.decisions.iter().map(|d| d.codec).enumerate();
        let buffers = self.buffers.iter().map(|b| b.compressed).enumerate();
        let host_buffers = self.host_buffers.iter().map(|b| b.compressed).enumerate();
        let named = (decisions.map(|named| ("decisions", named)))
            .chain(buffers.map(|named| ("buffers", named)))
            .chain(host_buffers.map(|named| ("host_buffers", named)));
        for (list, (index, codec)) in named {
            if let Some(codec) = codec.filter(|codec| codec.index() >= self.codecs.len()) {
                let place = format!("{list}[{index}]");
                return malformed(format!("{place} names {codec}, which the plan does not list"));
            }
        }
        Ok(())
    }

    fn check_action(&self, id: ActionId, action: &Action) -> Result<(), Malformed> {
        let after = action.after.iter().map(|on| ("after", *on));
        for (field, on) in after.chain(action.not_before.iter().map(|on| ("not_before", *on))) {
            if on >= id {
                return malformed(format!(
                    "actions[{}].{field} names {on}, which does not come before it",
                    id.0
                ));
            }
        }
        let unknown = |field: &str, what: String| {
            let place = format!("actions[{}].{field}", id.0);
            malformed(format!("{place} names {what}, which the plan does not list"))
        };
        let pairs = |pair: &InPlaceBuffers| [pair.input, pair.output];
        let named = (action.reads.iter().map(|b| ("reads", *b)))
            .chain(action.writes.iter().map(|b| ("writes", *b)))
            .chain(action.holds.iter().map(|b| ("holds", *b)))
            .chain(action.in_place.iter().flat_map(pairs).map(|b| ("in_place", b)));
        for (field, buffer) in named {
            if buffer.index() >= self.buffers.len() {
                return unknown(field, buffer.to_string());
            }
        }
        let hosts = action.there.iter().map(|b| ("there", *b));
        for (field, host) in hosts.chain(action.host.map(|b| ("host", b))) {
            if host.index() >= self.host_buffers.len() {
                return unknown(field, host.to_string());
            }
        }
        let is_op = matches!(action.task, Task::Run(_) | Task::Recompute(_));
        if action.on != Processor::Device && !is_op {
            return malformed(format!(
                "actions[{}].on is for ops: copies and codecs are the device's",
                id.0
            ));
        }
        if action.on != Processor::Host && !action.there.is_empty() {
            return malformed(format!(
                "actions[{}].there is for ops on the host's processor",
                id.0
            ));
        }
        Ok(())
    }
}
