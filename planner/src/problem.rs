//! What a plan is asked for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use schema::{
    Bytes, Choice, CodecCost, CodecModels, Digest, Direction, Document, Machine, Nanos, OpId,
    Processor, Reference, TensorId, Trace,
};
use simulator::{CodecLane, Evaluator, GapId, Model, Policy, Treatment};

use crate::bound::{Bound, resident};
use crate::codecs::{CodecOptions, CodecTable, is_transient};
use crate::cut::{Cuts, Several, cuts, more_places};
use crate::feature_maps::feature_maps;

/// A trace, a machine and a budget, and what a method may do.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    /// The iteration.
    pub trace: &'a Trace,
    /// What it runs on.
    pub machine: &'a Machine,
    /// Device memory that the plan may use, parameters included, and random states left out.
    pub budget: Bytes,
    /// Pinned host memory that the plan may use.
    pub host_budget: Bytes,
    /// What a method may decide.
    pub allowed: Allowed,
    /// How far a method may search.
    pub limits: Limits,
    /// A plan of it is to tell it from others: what takes long beside the search is left out.
    pub(crate) is_rough: bool,
    /// An iteration that takes longer is of no use: a method may give up that comes to that.
    pub(crate) slowest: Nanos,
    /// A method that weighs tensors against each other may give up that has looked at so many.
    pub(crate) most_weighed: u64,
    /// What codecs make of tensors; none by default.
    pub codecs: CodecTable,
    /// What plans state of it among their settings; nothing by default.
    pub settings: BTreeMap<String, String>,
    /// The trace in flat arrays.
    pub model: Model,
    /// The gaps that published methods decide about.
    pub feature_maps: Vec<GapId>,
    trace_digest: Arc<OnceLock<Digest>>,
    found: Found,
    evaluations_made: Arc<AtomicU64>,
}

/// What was found for a problem, when first asked for.
#[derive(Debug, Clone, Default)]
struct Found {
    cuts: Once<(Cuts, usize)>,
    resident: Once<Bound>,
    more_places: Once<Several>,
    tightened: Once<u64>,
}

/// What a problem was when something was found for it: its memory, its ways, and its limits where these count.
type Then = (Bytes, Allowed, Option<Limits>);

/// What was found for a problem as it was then.
#[derive(Debug, Clone)]
struct Once<T>(OnceLock<(Then, T)>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: Clone> Once<T> {
    fn get(&self, now: Then, find: impl Fn() -> T) -> Cow<'_, T> {
        let (then, found) = self.0.get_or_init(|| (now, find()));
        if now == *then { Cow::Borrowed(found) } else { Cow::Owned(find()) }
    }
}

/// What a method may decide for a tensor besides keeping it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// Copies to the host.
    pub swap: bool,
    /// Running an op again.
    pub recompute: bool,
    /// Making tensors smaller, on the device and, with `swap`, for the way to the host.
    pub compress: bool,
}

impl Allowed {
    /// All there is.
    pub const ALL: Self = Self { swap: true, recompute: true, compress: true };
    /// Nothing but copies.
    pub const COPIES: Self = Self { swap: true, recompute: false, compress: false };
    /// Nothing but reruns.
    pub const RERUNS: Self = Self { swap: false, recompute: true, compress: false };
    /// All but codecs.
    pub const WITHOUT_CODECS: Self = Self { compress: false, ..Self::ALL };

    /// What this and another allow.
    pub fn and(self, other: Self) -> Self {
        Self {
            swap: self.swap && other.swap,
            recompute: self.recompute && other.recompute,
            compress: self.compress && other.compress,
        }
    }
}

/// How far a method may search. Counts, not times, so that a result does not depend on the
/// machine that plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Evaluations of one search at most; on long traces fewer ([`Problem::evaluations`]).
    pub evaluations: u64,
}

/// Ops that the evaluations of one search go through at most.
const EVALUATED_OPS: u64 = 27_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self { evaluations: 100_000 }
    }
}

fn codec_lane(machine: &Machine) -> Option<CodecLane> {
    let compute = &machine.device.compute;
    let beside_codec_permille = (compute.beside_codec * 1000.0).round().clamp(100.0, 1000.0) as u16;
    compute.codec_lane.then_some(CodecLane { beside_codec_permille })
}

impl<'a> Problem<'a> {
    /// A problem without codecs, in which all else is allowed, with the machine's host memory and
    /// default limits. What of the budget ops keep random states in ([`schema::Op::random`]) is no
    /// plan's to use.
    pub fn new(trace: &'a Trace, machine: &'a Machine, budget: Bytes) -> Self {
        let model = Model::of(trace);
        let feature_maps = feature_maps(trace, &model);
        Self {
            trace,
            machine,
            budget: budget.saturating_sub(trace.random_bytes()),
            host_budget: machine.host.memory,
            allowed: Allowed { swap: true, recompute: true, compress: false },
            limits: Limits::default(),
            is_rough: false,
            slowest: Nanos(u64::MAX),
            most_weighed: u64::MAX,
            codecs: CodecTable::default(),
            settings: BTreeMap::new(),
            model,
            feature_maps,
            trace_digest: Arc::default(),
            found: Found::default(),
            evaluations_made: Arc::default(),
        }
    }

    /// The problem in which these tensors, which no op makes and the caller does not hold, begin and end
    /// the iteration on the host.
    pub fn with_homes(mut self, homes: &[TensorId]) -> Self {
        self.model = Model::with_homes(self.trace, homes);
        self.feature_maps = feature_maps(self.trace, &self.model);
        self.forgetting()
    }

    /// The problem in which the host's processor runs these updates, where it runs any. What they change
    /// has its home on the host.
    pub fn with_updates_there(mut self, updates: &[OpId]) -> Self {
        let timed = updates.iter().filter_map(|op| Some((*op, self.update_time_there(*op)?)));
        let timed: Vec<_> = timed.collect();
        self.model = self.model.with_updates_there(&timed);
        self.forgetting()
    }

    /// The problem without what was found for another model.
    fn forgetting(self) -> Self {
        Self { found: Found::default(), ..self }
    }

    /// How long the host's processor takes for an op, if it may run that and runs any.
    pub fn update_time_there(&self, op: OpId) -> Option<Nanos> {
        let of = &self.trace.ops[op.index()];
        let bytes = |id: &TensorId| self.trace.tensors[id.index()].bytes;
        let read: Bytes = of.reads.iter().map(bytes).sum();
        let changed = of.reads.iter().filter(|id| self.model.changes(op, **id)).map(bytes);
        let time = || self.machine.host.update_time(read + changed.sum::<Bytes>());
        of.may_run_on(Processor::Host).then(time).flatten()
    }

    /// The problem with as much pinned host memory.
    pub fn with_host_budget(self, host_budget: Bytes) -> Self {
        Self { host_budget, ..self }
    }

    /// The problem in which a method may decide this. Codecs that are added later may be used.
    pub fn with_allowed(self, allowed: Allowed) -> Self {
        Self { allowed, ..self }
    }

    /// The problem in which one search makes so many evaluations at most.
    pub fn with_evaluations(self, evaluations: u64) -> Self {
        Self { limits: Limits { evaluations }, ..self }
    }

    /// The problem with more that its plans state among their settings.
    pub fn with_settings(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.settings.extend(settings);
        self
    }

    /// The problem with codecs, whose use it then allows.
    pub fn with_codecs(mut self, models: &CodecModels, options: CodecOptions) -> Self {
        self.codecs = CodecTable::new(self.trace, models, options);
        self.codecs.costs = self.codecs.costs.with_lane(codec_lane(self.machine));
        self.allowed.compress = true;
        self
    }

    /// The problem with codecs that the host's processor runs, too: the same ones, with its times.
    pub fn with_host_codecs(mut self, models: &CodecModels, options: CodecOptions) -> Self {
        self.codecs = self.codecs.with_host(self.trace, models, options);
        self
    }

    /// The problem whose plans name this as the document that its codecs' models come from.
    pub fn with_codec_source(mut self, source: Reference) -> Self {
        self.codecs.source = Some(source);
        self
    }

    /// The problem of a method that may do less.
    pub fn restricted_to(&self, allowed: Allowed) -> Self {
        Self { allowed, ..self.clone() }
    }

    /// An evaluator for this problem under a policy, with `target` bytes of device memory.
    pub fn evaluator(&self, policy: Policy, target: Bytes) -> Evaluator<'_> {
        Evaluator::new(&self.model, &self.machine.link, policy, target, self.host_budget)
            .with_codecs(&self.codecs.costs)
            .counted(&self.evaluations_made)
    }

    /// How many evaluations its evaluators, and those of its clones, have made so far.
    pub fn evaluations_made(&self) -> u64 {
        self.evaluations_made.load(Ordering::Relaxed)
    }

    /// Digest of the trace, worked out when it is first asked for: of a long trace that takes as
    /// long as writing it.
    pub fn trace_digest(&self) -> &Digest {
        self.trace_digest.get_or_init(|| self.trace.digest())
    }

    /// What cuts say of the problem, and the op at which they say most, found when first asked for.
    pub(crate) fn cuts(&self) -> (Cuts, usize) {
        *self.found.cuts.get((self.budget, self.allowed, None), || cuts(self))
    }

    /// What no plan can beat in which what outlives the iteration stays, found when first asked for.
    pub(crate) fn resident(&self) -> Bound {
        *self.found.resident.get((self.budget, self.allowed, None), || resident(self))
    }

    /// What several places of the iteration say of the problem, found when first asked for.
    pub(crate) fn more_places(&self, proceed: &dyn Fn(u64, u64) -> bool) -> Cow<'_, Several> {
        let now = (self.budget, self.allowed, Some(self.limits));
        self.found.more_places.get(now, || more_places(self, proceed))
    }

    /// The same with more time: in nanoseconds beyond the time of the ops, what no plan can beat.
    pub(crate) fn tightened(&self, proceed: &dyn Fn(u64, u64) -> bool) -> u64 {
        let find = || self.more_places(proceed).tightened(self, proceed);
        *self.found.tightened.get((self.budget, self.allowed, Some(self.limits)), find)
    }

    /// How long it takes to run each op, and run it again, and to copy for each gap, out and in:
    /// all one after another, in nanoseconds.
    pub(crate) fn once(&self) -> u128 {
        let link = &self.machine.link;
        let copies = |bytes| [Direction::D2h, Direction::H2d].map(|way| link.copy_time(way, bytes));
        let copied = self.model.gaps().iter().flat_map(|gap| copies(gap.bytes));
        let ran =
            self.trace.ops.iter().flat_map(|op| [op.duration, op.recompute.unwrap_or(op.duration)]);
        ran.chain(copied).map(|time| u128::from(time.0)).sum()
    }

    /// Everything kept.
    pub fn keep_all(&self) -> Vec<Treatment> {
        vec![Treatment::Keep; self.model.gaps().len()]
    }

    /// Evaluations that one search may make: what the limits say, or as many as go through
    /// twenty-seven million ops, so that planning time does not grow with the square of a trace's
    /// length.
    pub fn evaluations(&self) -> u64 {
        self.limits.evaluations.min(EVALUATED_OPS / self.trace.ops.len().max(1) as u64).max(1)
    }

    /// What a method may make of a gap's tensor with each codec: the codec's number and the cost.
    pub fn may_compress(&self, gap: GapId) -> impl Iterator<Item = (u8, CodecCost)> + '_ {
        let tensor = self.model.gaps()[gap].tensor;
        let codecs = if self.allowed.compress { self.codecs.costs.len() as u8 } else { 0 };
        let cost = move |codec| Some((codec, *self.codecs.costs.cost(codec, tensor)?));
        (0..codecs).filter_map(cost)
    }

    /// What the host's processor may make of a gap's tensor, as [`Problem::may_compress`].
    pub fn may_pack_there(&self, gap: GapId) -> impl Iterator<Item = (u8, CodecCost)> + '_ {
        let tensor = self.model.gaps()[gap].tensor;
        let cost = move |codec| Some((codec, *self.codecs.costs.host_cost(codec, tensor)?));
        self.may_compress(gap).filter_map(move |(codec, _)| cost(codec))
    }

    /// Share of zeros in a tensor, from 0 to 1, as the trace or the codecs' options state it.
    pub fn sparsity(&self, tensor: TensorId) -> Option<f64> {
        let tensor = &self.trace.tensors[tensor.index()];
        tensor.sparsity.or(self.codecs.sparsity.filter(|_| is_transient(tensor)))
    }

    /// Whether a plan may run an op again. What it reads may be held beyond its last use, so that
    /// this takes less than [`Problem::may_recompute`].
    pub(crate) fn may_run_again(&self, op: OpId) -> bool {
        self.allowed.recompute && self.trace.ops[op.index()].rerunnable
    }

    /// Whether a method may recompute a gap's tensor.
    pub fn may_recompute(&self, gap: GapId) -> bool {
        self.allowed.recompute && self.model.allows(gap, Choice::Recompute)
    }
}
