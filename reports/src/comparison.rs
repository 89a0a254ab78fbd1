//! What `tidegate compare` found: one value, of which the JSON output is the serialisation and
//! the text output a [table](crate::table).

use schema::{Bytes, InCore, Nanos, Provenance, Reference};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

/// Methods side by side on one trace, machine and budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The trace that was planned.
    pub trace: Reference,
    /// Where the trace's op times come from. Absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The machine that it was planned for.
    pub machine: Reference,
    /// The memory that each method had.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
    /// The iteration without a memory limit.
    pub in_core: InCore,
    /// A time that no plan under this budget can beat. Absent where none was computed.
    #[serde(default, rename = "bound_ns", skip_serializing_if = "Option::is_none")]
    pub bound: Option<Nanos>,
    /// What is on the device at once at some moment, whatever the plan: no budget below it can do.
    /// Absent where it was not computed.
    #[serde(default, rename = "least_budget_bytes", skip_serializing_if = "Option::is_none")]
    pub least_budget: Option<Bytes>,
    /// A budget that would do. Absent where there is a plan, and where none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sufficient: Option<Sufficient>,
    /// One entry per method, in the order in which they were asked for.
    pub methods: Vec<MethodResult>,
}

/// A budget with which a method has a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sufficient {
    /// The method.
    pub method: String,
    /// The budget.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
}

/// How one method did.
///
/// Figures of the plan are `null` unless there is a plan; `reason`, `gap`, `shortfall_bytes` and
/// `jitter` are absent where they do not apply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MethodResult {
    /// The method's name on the command line.
    pub method: String,
    /// Whether there is a plan.
    pub status: Status,
    /// Why there is no plan, in a sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// By how much the budget would have to grow for this method to find a plan, where known.
    #[serde(default, rename = "shortfall_bytes", skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Bytes>,
    /// Time of one iteration, all lanes drained.
    #[serde(rename = "iteration_ns")]
    pub iteration: Option<Nanos>,
    /// That time over the in-core time.
    pub slowdown: Option<f64>,
    /// Largest sum of live buffers.
    #[serde(rename = "peak_bytes")]
    pub peak: Option<Bytes>,
    /// End of the highest buffer in the arena.
    #[serde(rename = "arena_bytes")]
    pub arena: Option<Bytes>,
    /// Time over the bound, less one: 0.02 is 2 % over it. Absent where there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// How long the method took to decide, whether or not it found a plan.
    pub plan_seconds: Option<f64>,
    /// Of the tensors that the forward phase makes and the backward phase reads, those that stay on the
    /// device from the one to the other. Each of them is in one of these four counts, whatever the method.
    pub kept: Option<u64>,
    /// Those that wait in host memory as they are.
    pub swapped: Option<u64>,
    /// Those that are made again.
    pub recomputed: Option<u64>,
    /// Those that are compressed, on the device or on their way to the host.
    pub compressed: Option<u64>,
    /// What those that are kept take.
    #[serde(default)]
    pub kept_bytes: Option<Bytes>,
    /// What those that are swapped take.
    #[serde(default)]
    pub swapped_bytes: Option<Bytes>,
    /// What those that are recomputed take.
    #[serde(default)]
    pub recomputed_bytes: Option<Bytes>,
    /// What those that are compressed take uncompressed.
    #[serde(default)]
    pub compressed_bytes: Option<Bytes>,
    /// Bytes copied out per iteration.
    #[serde(rename = "d2h_bytes")]
    pub d2h: Option<Bytes>,
    /// Bytes copied in per iteration.
    #[serde(rename = "h2d_bytes")]
    pub h2d: Option<Bytes>,
    /// Time spent running ops again.
    #[serde(rename = "recompute_ns")]
    pub recompute: Option<Nanos>,
    /// Time spent compressing and decompressing.
    #[serde(rename = "codec_ns")]
    pub codec: Option<Nanos>,
    /// Time for which the compute lane stood idle.
    #[serde(rename = "stall_ns")]
    pub stall: Option<Nanos>,
    /// What goes over the link, by what it is to the training. Absent unless the plan has part of what
    /// outlives the iteration on the host between iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// What becomes of the iteration where times scatter. Absent unless it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
}

/// What a plan that moves state copies in each iteration, and what it keeps on the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// What forward ops make.
    pub activations: Copied,
    /// Weights.
    pub parameters: Copied,
    /// Gradients, of activations and of parameters.
    pub gradients: Copied,
    /// The optimizer's state, and 32-bit copies of weights of 16.
    pub state: Copied,
    /// End of the highest host buffer.
    #[serde(rename = "host_arena_bytes")]
    pub host: Bytes,
    /// Tensors that are on the host between iterations.
    #[serde(default)]
    pub tensors: u64,
    /// What they take.
    #[serde(default)]
    pub bytes: Bytes,
    /// Updates that the host's processor runs.
    #[serde(default, skip_serializing_if = "is_none")]
    pub updates: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Bytes that are copied in each iteration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Copied {
    /// To the host.
    #[serde(rename = "d2h_bytes")]
    pub d2h: Bytes,
    /// To the device.
    #[serde(rename = "h2d_bytes")]
    pub h2d: Bytes,
}

/// The time of the iteration over many replays with times that scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Half of the replays take no longer.
    #[serde(rename = "median_ns")]
    pub median: Nanos,
    /// Nine of ten take no longer.
    #[serde(rename = "p90_ns")]
    pub p90: Nanos,
    /// 99 of 100 take no longer.
    #[serde(rename = "p99_ns")]
    pub p99: Nanos,
    /// The longest.
    #[serde(rename = "worst_ns")]
    pub worst: Nanos,
}

/// Whether a method found a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did.
    #[default]
    Ok,
    /// None that fits the budget.
    Infeasible,
    /// None within its time limit.
    Timeout,
}

impl MethodResult {
    /// What becomes of the activations that the backward phase reads: each fate with the tensors that meet
    /// it and their bytes, where these are known.
    pub fn fates(&self) -> [(&'static str, Option<u64>, Option<Bytes>); 4] {
        [
            ("kept", self.kept, self.kept_bytes),
            ("swapped", self.swapped, self.swapped_bytes),
            ("recomputed", self.recomputed, self.recomputed_bytes),
            ("compressed", self.compressed, self.compressed_bytes),
        ]
    }

    /// A method that found no plan: every figure of a plan is unknown.
    pub fn without_plan(method: impl Into<String>, status: Status, reason: String) -> Self {
        Self { method: method.into(), status, reason: Some(reason), ..Self::default() }
    }
}

/// The JSON Schema (draft 2020-12) of a value as it is printed.
pub fn json_schema<T: JsonSchema>() -> serde_json::Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn json_has_the_documented_fields() {
        let mut comparison = examples::comparison();
        comparison.methods = vec![comparison.methods[0].clone(), examples::infeasible()];
        let json = serde_json::to_string_pretty(&comparison).expect("plain data");
        insta::assert_snapshot!("comparison_json", json);
        let back: Comparison = serde_json::from_str(&json).expect("what was just written");
        assert_eq!(back, comparison);
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let json = serde_json::to_string(&examples::comparison()).expect("plain data");
        let json = json.replacen("\"budget_bytes\"", "\"budget\"", 1);
        let error = serde_json::from_str::<Comparison>(&json).expect_err("budget is no field");
        assert!(error.to_string().contains("unknown field `budget`"), "{error}");
    }
}
