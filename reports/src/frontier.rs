//! What `tidegate frontier` found: time against memory, method by method.

use schema::{Bytes, InCore, Nanos, Provenance, Reference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MethodResult;

/// Methods side by side on one trace and machine, under several budgets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frontier {
    /// The trace that was planned.
    pub trace: Reference,
    /// Where the trace's op times come from.
    pub provenance: Provenance,
    /// The machine that it was planned for.
    pub machine: Reference,
    /// The iteration without a memory limit.
    pub in_core: InCore,
    /// The methods that were asked for, in that order.
    pub methods: Vec<String>,
    /// One per budget, from the largest to the smallest.
    pub points: Vec<FrontierPoint>,
    /// The slowdown that `smallest` is about: 0.05 is 5 % over the in-core time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// The smallest budgets for that slowdown; empty unless they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smallest: Vec<Smallest>,
}

impl Frontier {
    /// Whether any method has a plan.
    pub fn has_plan(&self) -> bool {
        let mut plans = self.points.iter().flat_map(|point| &point.methods);
        self.smallest.iter().any(|found| found.budget.is_some())
            || plans.any(|method| method.iteration.is_some())
    }
}

/// All methods under one budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrontierPoint {
    /// The memory that each method had.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
    /// A time that no plan under this budget can beat. Absent where none fits at all, or where
    /// the search was interrupted before.
    #[serde(default, rename = "bound_ns", skip_serializing_if = "Option::is_none")]
    pub bound: Option<Nanos>,
    /// One entry per method, in the order in which they were asked for; methods that an interrupted
    /// search did not come to are left out.
    pub methods: Vec<MethodResult>,
}

/// The least memory with which a method is not slower than asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Smallest {
    /// The method; none for what the bound says of all methods: with less, no plan is that fast.
    pub method: Option<String>,
    /// The budget; none where no budget up to a little over the in-core peak will do.
    #[serde(rename = "budget_bytes")]
    pub budget: Option<Bytes>,
    /// Time of the iteration with it, or the bound on it.
    #[serde(rename = "iteration_ns")]
    pub iteration: Option<Nanos>,
}
