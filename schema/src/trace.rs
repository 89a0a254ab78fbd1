//! One iteration of one network on one device.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::malformed;
use crate::{
    Bytes, Digest, Document, Malformed, Nanos, OpId, Recipe, TensorId, Texture, trace_check,
    untimed,
};

/// One training iteration (or inference step) of one network on one device: which ops ran in
/// which order, how long each took, and which tensors it read and wrote.
///
/// Every tensor has at most one op that writes it; an in-place write is a new tensor that takes
/// over its input's memory ([`Op::in_place`]). A tensor without a writer exists before the
/// iteration: a parameter, an input, optimizer state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The network's name, such as `resnet50`.
    pub network: String,
    /// Samples per iteration, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Where the figures come from.
    pub provenance: Provenance,
    /// The storages that the ops read and write. Views of one storage are one tensor.
    pub tensors: Vec<Tensor>,
    /// The ops in execution order.
    pub ops: Vec<Op>,
}

/// Where a trace's figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// How the figures were obtained.
    pub origin: Origin,
    /// The device on which the times were measured, or for which they are modelled.
    pub device: String,
    /// The framework that ran or would run the ops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The file, command or publication that the figures come from.
    pub source: String,
    /// The day of the measurement, as `YYYY-MM-DD`, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// What the importer or profiler had to decide, in sentences for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What older versions wrote in place of [`Provenance::recipe`]: `network`, its name or file,
    /// and `options`, as JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// How to build the network again. Absent in recordings of others. It says nothing of the
    /// iteration that the trace does not say, and does not enter the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Recipe>,
    /// A digest of the graph that the caller has, whose names are the keys of ops and tensors. Like
    /// keys, it does not enter the trace's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
}

impl Provenance {
    /// Figures of a device from a file, a command or a publication, about which nothing else is
    /// known.
    pub fn new(origin: Origin, device: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            origin,
            device: device.into(),
            framework: None,
            source: source.into(),
            date: None,
            notes: Vec::new(),
            settings: BTreeMap::new(),
            recipe: None,
            graph: None,
        }
    }
}

/// How a trace's figures were obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// By tidegate's own profiler, on the device that is named.
    Measured,
    /// From a recording of another tool.
    Imported,
    /// From a model of the device; nothing was run.
    Modelled,
    /// From a model that scales another trace's times to another device.
    Scaled,
}

/// A storage: the memory that one value of the iteration occupies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// A name for people; it need not be unique.
    pub name: String,
    /// Size of the storage.
    pub bytes: Bytes,
    /// What the tensor is to the training algorithm.
    pub role: Role,
    /// Element type, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// Where the tensor lives when no plan says otherwise.
    #[serde(default, skip_serializing_if = "Home::is_device")]
    pub home: Home,
    /// For a tensor without a writer: the op before which it comes into being. Absent: it is
    /// there from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appears_before: Option<OpId>,
    /// Share of elements that are zero, from 0 to 1, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparsity: Option<f64>,
    /// How its values lie, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texture: Option<Texture>,
    /// Whether the caller holds it: from when it is there, or is made, until it is used for the last
    /// time, or to the end of the iteration if it outlives that, it stays on the device as itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Its name in the caller's graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Tensor {
    /// A tensor on the device of which nothing else is known.
    pub fn new(name: impl Into<String>, bytes: Bytes, role: Role) -> Self {
        Self {
            name: name.into(),
            bytes,
            role,
            dtype: None,
            home: Home::Device,
            appears_before: None,
            sparsity: None,
            texture: None,
            held: false,
            key: None,
        }
    }
}

/// What a tensor is to the training algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An intermediate result of the forward phase.
    Activation,
    /// A weight, or anything else that exists before the iteration and is not known better.
    Parameter,
    /// A gradient, of an activation or of a parameter.
    Gradient,
    /// Optimizer state, such as a momentum.
    OptimizerState,
    /// A sample, a label, a mask that the iteration is given.
    Input,
    /// Memory that ops use and that carries no value of the network.
    Workspace,
}

/// Where a tensor lives when no plan says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// In device memory.
    #[default]
    Device,
    /// In host memory: offloaded weights, KV and embedding tables.
    Host,
}

impl Home {
    fn is_device(&self) -> bool {
        *self == Self::Device
    }
}

/// Element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// 16-bit brain float.
    Bf16,
    /// 64-bit float.
    F64,
    /// 64-bit integer.
    I64,
    /// 32-bit integer.
    I32,
    /// Byte.
    U8,
    /// Truth value, in a byte.
    Bool,
    /// 16-bit integer.
    I16,
    /// 8-bit integer.
    I8,
    /// 8-bit float with 4 bits of exponent.
    #[strum(serialize = "f8_e4m3")]
    F8E4m3,
    /// 8-bit float with 5 bits of exponent.
    #[strum(serialize = "f8_e5m2")]
    F8E5m2,
    /// Complex number of two 32-bit floats.
    Complex64,
}

impl Dtype {
    /// The element type of a network's values, as tidegate and frameworks write it.
    pub fn float_from_name(name: &str) -> Option<Self> {
        match name {
            "f32" | "fp32" | "float32" | "float" => Some(Self::F32),
            "f16" | "fp16" | "float16" | "half" => Some(Self::F16),
            "bf16" | "bfloat16" => Some(Self::Bf16),
            _ => None,
        }
    }

    /// The name in documents.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F64 | Self::I64 | Self::Complex64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::U8 | Self::Bool | Self::I8 | Self::F8E4m3 | Self::F8E5m2 => 1,
        }
    }
}

/// One op of the iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Op {
    /// The name that the source gives it.
    pub name: String,
    /// What it computes, as far as methods tell ops apart.
    pub kind: OpKind,
    /// Which phase of the iteration it belongs to.
    pub phase: Phase,
    /// What runs it; absent: the device. An op on the net runs there, beside those of the device, and
    /// uses tensors on the device. A plan may have the host run an update ([`Op::may_run_on`]).
    #[serde(default, skip_serializing_if = "Processor::is_device")]
    pub on: Processor,
    /// How long it takes; absent: to be modelled for a machine ([`crate::Untimed`]).
    #[serde(
        rename = "duration_ns",
        default = "untimed::no_time",
        skip_serializing_if = "untimed::has_no_time"
    )]
    pub duration: Nanos,
    /// How long it takes when it is run a second time; absent: as long as the first. (Batch norm
    /// need not update its statistics again.)
    #[serde(default, rename = "recompute_ns", skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Nanos>,
    /// The tensors that it reads, each once.
    pub reads: Vec<TensorId>,
    /// The tensors that it writes, each once.
    pub writes: Vec<TensorId>,
    /// Outputs that may be laid over an input, because the op does not need both: each a pair of
    /// a tensor that is read here for the last time and one that is written here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_place: Vec<InPlace>,
    /// Memory that the op needs while it runs and that carries no value afterwards.
    #[serde(default, rename = "workspace_bytes", skip_serializing_if = "is_zero")]
    pub workspace: Bytes,
    /// The tensors whose memory the framework gave back after this op. A tensor that no op lists
    /// outlives the iteration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frees: Vec<TensorId>,
    /// Whether running it again gives the same result: it is deterministic, or its random state is
    /// saved, and it has no lasting effect. An op that cannot run again may *change*, in place,
    /// every tensor that it reads and that no op writes: an update its parameter, say. So each run
    /// of it gives such a tensor its next version, and whatever reads the tensor, first run or
    /// rerun, needs the version that the op's place in the trace gives it: as many as there are ops
    /// before it that change the tensor. At the end of the iteration the last version is what
    /// stays.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub rerunnable: bool,
    /// What its first run changes in place: tensors that it reads and no op writes. Absent: as
    /// `rerunnable` says. One that may run again has a [`Rerun`] that does not read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutates: Option<Vec<TensorId>>,
    /// What a rerun reads and writes, where that is less than the first run does: batch norm without
    /// its running statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Rerun>,
    /// State that it draws random numbers from and that a rerun draws from once more. Whoever runs a
    /// plan keeps the states of all ops beside the plan's arena: a budget is less by them.
    #[serde(default, rename = "random_bytes", skip_serializing_if = "is_zero")]
    pub random: Bytes,
    /// Floating-point operations, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops: Option<u64>,
    /// Bytes that it moves to and from device memory, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_moved: Option<Bytes>,
    /// Its name in the caller's graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Op {
    /// An op that takes this long, uses nothing, and of which nothing else is known.
    pub fn new(name: impl Into<String>, (kind, phase): (OpKind, Phase), duration: Nanos) -> Self {
        Self {
            name: name.into(),
            kind,
            phase,
            on: Processor::Device,
            duration,
            recompute: None,
            reads: Vec::new(),
            writes: Vec::new(),
            in_place: Vec::new(),
            workspace: Bytes::ZERO,
            frees: Vec::new(),
            rerunnable: true,
            mutates: None,
            rerun: None,
            random: Bytes::ZERO,
            flops: None,
            bytes_moved: None,
            key: None,
        }
    }

    /// Whether a plan may have it run on a processor: on its own, or, of an optimizer's update that makes
    /// nothing and changes what it reads in place, on the host's.
    pub fn may_run_on(&self, processor: Processor) -> bool {
        let is_update = self.phase == Phase::Update && self.writes.is_empty() && !self.rerunnable;
        self.on == processor
            || processor == Processor::Host && self.on == Processor::Device && is_update
    }

    /// How long it takes of the device's own time: what is on the net goes on beside that.
    pub fn device_time(&self) -> Nanos {
        if self.on == Processor::Net { Nanos::ZERO } else { self.duration }
    }

    /// The same of a rerun.
    pub fn device_time_again(&self) -> Nanos {
        let again = self.recompute.unwrap_or(self.duration);
        if self.on == Processor::Net { Nanos::ZERO } else { again }
    }

    /// What a rerun reads.
    pub fn reads_again(&self) -> &[TensorId] {
        self.rerun.as_ref().map_or(&self.reads, |rerun| &rerun.reads)
    }

    /// What a rerun writes.
    pub fn writes_again(&self) -> &[TensorId] {
        self.rerun.as_ref().map_or(&self.writes, |rerun| &rerun.writes)
    }

    /// Whether its first run may change, in place, a tensor that it reads and no op writes.
    pub fn may_change(&self, tensor: TensorId) -> bool {
        self.mutates.as_ref().map_or(!self.rerunnable, |mutates| mutates.contains(&tensor))
    }
}

/// What runs an op.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Processor {
    /// The device.
    #[default]
    Device,
    /// The host's processor.
    Host,
    /// The network to other devices.
    Net,
}

impl Processor {
    pub(crate) fn is_device(&self) -> bool {
        *self == Self::Device
    }
}

/// What of an op's operands a rerun has to do with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rerun {
    /// Those that it reads, each once.
    pub reads: Vec<TensorId>,
    /// Those that it writes, each once.
    pub writes: Vec<TensorId>,
}

fn is_zero(bytes: &Bytes) -> bool {
    *bytes == Bytes::ZERO
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

/// An output that may take over the memory of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InPlace {
    /// The tensor that is read for the last time.
    pub input: TensorId,
    /// The tensor that is written over it. Where the sizes differ, both begin at one address.
    pub output: TensorId,
}

/// Which phase of the iteration an op belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// From the input to the loss.
    Forward,
    /// Gradients.
    Backward,
    /// The optimizer's step.
    Update,
}

/// What an op computes, as far as methods tell ops apart. A backward op has the kind of the
/// forward op that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// Convolution of any dimension, transposed ones too.
    Convolution,
    /// Matrix products: linear layers, attention scores.
    MatrixProduct,
    /// Batch, layer, group and RMS normalisation.
    Normalisation,
    /// ReLU, GELU, sigmoid and the like.
    Activation,
    /// Maximum and average pooling.
    Pooling,
    /// Dropout.
    Dropout,
    /// Softmax and log-softmax.
    Softmax,
    /// Fused attention.
    Attention,
    /// Table look-up.
    Embedding,
    /// Other arithmetic, element by element.
    Elementwise,
    /// Concatenation, padding, copies: data movement only.
    Movement,
    /// A new view of the same storage; no data moves.
    View,
    /// The loss.
    Loss,
    /// The optimizer's step.
    Optimizer,
    /// Every rank gets what each has its share of.
    AllGather,
    /// Every rank gets its share of the sum over all.
    ReduceScatter,
    /// Every rank gets the sum over all.
    AllReduce,
    /// Anything else.
    Other,
}

impl OpKind {
    /// Whether ranks do it together, over the network.
    pub fn is_collective(self) -> bool {
        matches!(self, Self::AllGather | Self::ReduceScatter | Self::AllReduce)
    }
}

impl Trace {
    /// Time of all ops, one after another: the iteration without a memory limit.
    pub fn total_time(&self) -> Nanos {
        self.ops.iter().map(|op| op.duration).sum()
    }

    /// Time of all ops of the device, one after another: no plan is faster.
    pub fn device_time(&self) -> Nanos {
        self.ops.iter().map(Op::device_time).sum()
    }

    /// Time of all ops on the net, one after another: no plan is faster.
    pub fn net_time(&self) -> Nanos {
        self.ops.iter().map(|op| op.duration.saturating_sub(op.device_time())).sum()
    }

    /// Bytes of the tensors that exist without an op having made them: parameters and inputs.
    pub fn constant_bytes(&self) -> Bytes {
        let mut written = vec![false; self.tensors.len()];
        for op in &self.ops {
            for t in &op.writes {
                written[t.index()] = true;
            }
        }
        let constants = self.tensors.iter().zip(&written).filter(|(_, written)| !**written);
        constants.map(|(tensor, _)| tensor.bytes).sum()
    }

    /// Bytes of the states of ops that draw random numbers and may run again.
    pub fn random_bytes(&self) -> Bytes {
        self.ops.iter().filter(|op| op.rerunnable).map(|op| op.random).sum()
    }

    /// A name for people: the network and, where known, the batch.
    pub fn title(&self) -> String {
        match self.batch {
            Some(batch) => format!("{} (batch {batch})", self.network),
            None => self.network.clone(),
        }
    }
}

impl Document for Trace {
    const FORMAT: &'static str = "tidegate/trace";
    const VERSION: u32 = 1;

    /// That of all but the recipe, the caller's graph and the keys to it.
    fn digest(&self) -> Digest {
        let mut trace = Cow::Borrowed(self);
        let Provenance { recipe, graph, .. } = &self.provenance;
        if recipe.is_some() || graph.is_some() {
            let provenance = &mut trace.to_mut().provenance;
            (provenance.recipe, provenance.graph) = (None, None);
        }
        if self.ops.iter().any(|op| op.key.is_some())
            || self.tensors.iter().any(|tensor| tensor.key.is_some())
        {
            let trace = trace.to_mut();
            trace.ops.iter_mut().for_each(|op| op.key = None);
            trace.tensors.iter_mut().for_each(|tensor| tensor.key = None);
        }
        let json = serde_json::to_vec(&trace).expect("documents are plain data");
        Digest::of_bytes(&json)
    }

    fn check(&self) -> Result<(), Malformed> {
        if let Some(op) = self.ops.iter().position(|op| untimed::has_no_time(&op.duration)) {
            return malformed(format!(
                "ops[{op}] has no duration_ns, and nothing says what machine to model it for"
            ));
        }
        trace_check::check(self)
    }
}
