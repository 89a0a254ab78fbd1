//! What was measured beside what was predicted.

use profiler::device::InCoreTimes;
use profiler::runs::Execution;
use schema::{Bytes, Fidelity, Nanos, Plan};
use serde::{Deserialize, Serialize};

/// A plan's figures, measured and predicted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Time of one iteration.
    pub iteration_ns: Pair<Nanos>,
    /// The same over the iteration without a memory limit, where that was measured, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Pair<f64>>,
    /// End of the highest address in use.
    pub arena_bytes: Pair<Bytes>,
    /// Largest sum of live buffers, which depends on when copies end.
    pub peak_bytes: Pair<Bytes>,
    /// End of the highest address of the host arena in use.
    pub host_arena_bytes: Pair<Bytes>,
    /// Whether all that outlives the iterations has the bits that it has in core; absent where that did not
    /// run, or a codec of the plan changes values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_bits: Option<bool>,
    /// How often data did worse than was reserved for its compressed form.
    pub fallbacks: u64,
    /// Memory outside of both arenas, which codecs and libraries worked in.
    pub outside_bytes: Bytes,
    /// Whose libraries computed, where that may be one or another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed_by: Option<String>,
}

/// A figure, measured and predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair<T> {
    /// What was measured.
    pub measured: T,
    /// What was predicted.
    pub predicted: T,
}

/// A line of a table.
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// Measured.
    pub measured: String,
    /// Predicted.
    pub predicted: String,
    /// How far the prediction is off.
    pub error: String,
}

impl Compared {
    /// The figures of a plan that ran, and of the iteration without a memory limit that ran on the
    /// same device.
    pub fn of(plan: &Plan, execution: &Execution, in_core: Option<&InCoreTimes>) -> Self {
        let iteration =
            Pair { measured: execution.middle().iteration, predicted: plan.predicted.iteration };
        Self {
            iteration_ns: iteration,
            slowdown: in_core.map(|in_core| Pair {
                measured: iteration.measured.ratio(in_core.measured),
                predicted: iteration.predicted.ratio(in_core.predicted),
            }),
            arena_bytes: Pair { measured: execution.memory.arena, predicted: plan.predicted.arena },
            peak_bytes: Pair { measured: execution.memory.live, predicted: plan.predicted.peak },
            host_arena_bytes: Pair {
                measured: execution.memory.host_arena,
                predicted: plan.predicted.host_arena,
            },
            same_bits: same_bits(plan, execution, in_core),
            fallbacks: execution.memory.fallbacks,
            outside_bytes: execution.memory.outside,
            computed_by: execution.computed_by.clone(),
        }
    }

    /// How far the predicted iteration time is off, as a share of the measured one.
    pub fn error(&self) -> f64 {
        let Pair { measured, predicted } = self.iteration_ns;
        (predicted.0 as f64 - measured.0 as f64) / measured.0.max(1) as f64
    }

    /// The lines of a table.
    pub fn rows(&self) -> Vec<Row> {
        let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
        let bytes = |name, pair: Pair<Bytes>| Row {
            name,
            measured: pair.measured.to_string(),
            predicted: pair.predicted.to_string(),
            error: match pair.measured == pair.predicted {
                true => "equal".into(),
                false => percent(pair.predicted.0 as f64 / pair.measured.0.max(1) as f64 - 1.0),
            },
        };
        let mut rows = vec![Row {
            name: "iteration",
            measured: self.iteration_ns.measured.to_string(),
            predicted: self.iteration_ns.predicted.to_string(),
            error: percent(self.error()),
        }];
        rows.extend(self.slowdown.map(|pair| Row {
            name: "over in-core",
            measured: format!("{:.3}x", pair.measured),
            predicted: format!("{:.3}x", pair.predicted),
            error: percent(pair.predicted / pair.measured - 1.0),
        }));
        rows.push(bytes("arena", self.arena_bytes));
        rows.push(bytes("peak", self.peak_bytes));
        rows.push(bytes("host arena", self.host_arena_bytes));
        if self.outside_bytes > Bytes::ZERO {
            rows.push(Row {
                name: "outside of them",
                measured: self.outside_bytes.to_string(),
                predicted: "-".into(),
                error: "-".into(),
            });
        }
        rows
    }
}

/// See [`Compared::same_bits`].
fn same_bits(plan: &Plan, execution: &Execution, in_core: Option<&InCoreTimes>) -> Option<bool> {
    let is_exact = plan.codecs.iter().all(|codec| codec.fidelity == Fidelity::Lossless);
    let both = execution.fingerprint.zip(in_core.and_then(|in_core| in_core.fingerprint));
    both.filter(|_| is_exact).map(|(under_plan, in_core)| under_plan == in_core)
}
