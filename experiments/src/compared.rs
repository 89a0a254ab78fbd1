//! What was measured beside what was predicted.

use profiler::device::InCoreTimes;
use profiler::runs::Execution;
use reports::{Difference, columns};
use schema::{Bytes, Fidelity, Nanos, Plan, Timeline};
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

    /// In text, with what differs most from the predicted timeline.
    pub fn text(
        &self,
        plan: &Plan,
        predicted: &Timeline,
        execution: &Execution,
        graph: bool,
    ) -> String {
        let mut text = format!(
            "{} on {}, method {}, the median of {} iterations\n",
            plan.trace.name,
            plan.machine.name,
            plan.method,
            execution.timelines.len()
        );
        text += &columns(&self.rows());
        let [first, last] = [execution.timelines.first(), execution.timelines.last()]
            .map(|timeline| timeline.map_or(Nanos::ZERO, |timeline| timeline.iteration));
        let launched = if graph { ", each launched as one graph" } else { "" };
        text += &format!("iterations took {first} to {last}{launched}\n");
        if let Some(whose) = &self.computed_by {
            text += &format!("computed by {whose}\n");
        }
        if let Some(same) = self.same_bits {
            let bits = if same { "those" } else { "OTHERS than those" };
            text +=
                &format!("bits of all that outlives the iterations: {bits} of the runs in core\n");
        }
        if let Some(loss) = execution.loss {
            text += &format!("loss after the last: {loss:.6}\n");
        }
        text + &differing(predicted, execution.middle())
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
        let row = |cells: [&str; 4]| cells.map(String::from).to_vec();
        let bytes = |name: &str, Pair { measured, predicted }: Pair<Bytes>| {
            let error = match measured == predicted {
                true => "equal".into(),
                false => percent(predicted.0 as f64 / measured.0.max(1) as f64 - 1.0),
            };
            row([name, &measured.to_string(), &predicted.to_string(), &error])
        };
        let Pair { measured, predicted } = self.iteration_ns;
        let error = percent(self.error());
        let mut rows = vec![
            row(["", "measured", "predicted", "error"]),
            row(["iteration", &measured.to_string(), &predicted.to_string(), &error]),
        ];
        rows.extend(self.slowdown.map(|Pair { measured, predicted }| {
            let factor = |factor: f64| format!("{factor:.3}x");
            let error = percent(predicted / measured - 1.0);
            row(["over in-core", &factor(measured), &factor(predicted), &error])
        }));
        rows.push(bytes("memory", self.arena_bytes));
        rows.push(bytes("peak", self.peak_bytes));
        rows.push(bytes("host memory", self.host_arena_bytes));
        if self.outside_bytes > Bytes::ZERO {
            rows.push(row(["outside of them", &self.outside_bytes.to_string(), "-", "-"]));
        }
        rows
    }
}

/// The actions that differ most from their prediction.
fn differing(predicted: &Timeline, measured: &Timeline) -> String {
    let differences = reports::differences(predicted, measured);
    if differences.is_empty() {
        return String::new();
    }
    let head = ["", "action", "measured", "predicted", "likely cause"].map(String::from).to_vec();
    let row = |difference: &Difference| {
        vec![
            difference.label.clone(),
            reports::task_name(difference.task).into(),
            difference.measured.to_string(),
            difference.predicted.to_string(),
            difference.cause.name().into(),
        ]
    };
    let rows: Vec<_> = [head].into_iter().chain(differences.iter().take(SHOWN).map(row)).collect();
    format!("\nwhat differs most from the prediction:\n{}", columns(&rows))
}

/// So many actions are shown with how they differ from their prediction.
const SHOWN: usize = 5;

/// See [`Compared::same_bits`].
fn same_bits(plan: &Plan, execution: &Execution, in_core: Option<&InCoreTimes>) -> Option<bool> {
    let is_exact = plan.codecs.iter().all(|codec| codec.fidelity == Fidelity::Lossless);
    let both = execution.fingerprint.zip(in_core.and_then(|in_core| in_core.fingerprint));
    both.filter(|_| is_exact).map(|(under_plan, in_core)| under_plan == in_core)
}
