//! What a plan is asked for.

use schema::{Bytes, Choice, Machine, Trace};
use simulator::{Evaluator, GapId, Model, Policy, Treatment};

use crate::feature_maps::feature_maps;

/// A trace, a machine and a budget, and what a method may do.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    /// The iteration.
    pub trace: &'a Trace,
    /// What it runs on.
    pub machine: &'a Machine,
    /// Device memory that the plan may use, parameters included.
    pub budget: Bytes,
    /// Pinned host memory that the plan may use.
    pub host_budget: Bytes,
    /// What a method may decide.
    pub allowed: Allowed,
    /// How far a method may search.
    pub limits: Limits,
    /// The trace in flat arrays.
    pub model: Model,
    /// The gaps that published methods decide about.
    pub feature_maps: Vec<GapId>,
}

/// What a method may decide for a tensor besides keeping it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// Copies to the host.
    pub swap: bool,
    /// Running an op again.
    pub recompute: bool,
}

/// How far a method may search. Counts, not times, so that a result does not depend on the
/// machine that plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Evaluations of one search at most; on long traces fewer ([`Problem::evaluations`]).
    pub evaluations: u64,
}

/// Ops that the evaluations of one search go through at most.
const EVALUATED_OPS: u64 = 30_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self { evaluations: 20_000 }
    }
}

impl<'a> Problem<'a> {
    /// A problem with all decisions allowed, the machine's host memory, and default limits.
    pub fn new(trace: &'a Trace, machine: &'a Machine, budget: Bytes) -> Self {
        let model = Model::of(trace);
        let feature_maps = feature_maps(trace, &model);
        Self {
            trace,
            machine,
            budget,
            host_budget: machine.host.memory,
            allowed: Allowed { swap: true, recompute: true },
            limits: Limits::default(),
            model,
            feature_maps,
        }
    }

    /// An evaluator for this problem under a policy, with `target` bytes of device memory.
    pub fn evaluator(&self, policy: Policy, target: Bytes) -> Evaluator<'_> {
        Evaluator::new(&self.model, &self.machine.link, policy, target, self.host_budget)
    }

    /// Everything kept.
    pub fn keep_all(&self) -> Vec<Treatment> {
        vec![Treatment::Keep; self.model.gaps().len()]
    }

    /// Evaluations that one search may make: what the limits say, or as many as go through thirty
    /// million ops, so that planning time does not grow with the square of a trace's length.
    pub fn evaluations(&self) -> u64 {
        self.limits.evaluations.min(EVALUATED_OPS / self.trace.ops.len().max(1) as u64).max(1)
    }

    /// Whether a method may recompute a gap's tensor.
    pub fn may_recompute(&self, gap: GapId) -> bool {
        self.allowed.recompute && self.model.allows(gap, Choice::Recompute)
    }
}
