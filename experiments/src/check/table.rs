//! What a check found of each network, for people and programs.

use std::fmt;

use reports::columns;
use schema::{Bytes, Nanos, Plan};
use serde::{Deserialize, Serialize};

use super::agreement::Agreement;
use crate::compared::{Compared, Pair};
use crate::{Error, Result};

/// What was checked, as JSON has it.
#[derive(Serialize, Deserialize)]
pub struct CheckResult {
    /// The machine's description.
    pub device: String,
    /// Each network.
    pub networks: Vec<NetworkTable>,
    /// Networks that did not even run in core.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<NotRun>,
    /// How well its plans were predicted.
    pub agreement: Agreement,
}

/// A network that did not run.
#[derive(Serialize, Deserialize)]
pub struct NotRun {
    /// The network with its options.
    pub network: String,
    /// Why.
    pub reason: String,
}

/// A network and its plans.
#[derive(Serialize, Deserialize)]
pub struct NetworkTable {
    /// The network with its options.
    pub network: String,
    /// Its ops.
    pub ops: usize,
    /// The most memory that it needs with everything kept.
    pub peak_bytes: Bytes,
    /// The budget of the plan under which its ops were timed; none where everything was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_bytes: Option<Bytes>,
    /// The sum of its ops.
    #[serde(default)]
    pub ops_ns: Nanos,
    /// The iteration that keeps everything, where the device has room for it; predicted is the sum of
    /// its ops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_core_ns: Option<Pair<Nanos>>,
    /// Whose libraries computed, where that may be one or another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed_by: Option<String>,
    /// Its plans, by budget and method.
    pub plans: Vec<PlanRow>,
}

/// A plan.
#[derive(Default, Serialize, Deserialize)]
pub struct PlanRow {
    /// Its budget as a share of the in-core peak, in percent.
    pub budget_percent: f64,
    /// Its method.
    pub method: String,
    /// One iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration_ns: Option<Pair<Nanos>>,
    /// How far its prediction is off, as a share of what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The iteration over that which keeps everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Pair<f64>>,
    /// The highest address in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arena_bytes: Option<Pair<Bytes>>,
    /// Whether all that outlives the iterations has the bits that it has in core; absent where a codec of
    /// the plan changes values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_bits: Option<bool>,
    /// Why there is nothing measured, in a word or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// The same in a sentence, where a plan failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl PlanRow {
    /// Of which nothing is known yet.
    pub fn new(budget_percent: f64, method: &str) -> Self {
        Self { budget_percent, method: method.into(), ..Self::default() }
    }

    /// A plan that did not run.
    pub fn failed(&mut self, why: &str, reason: Option<String>) {
        (self.not_run, self.reason) = (Some(why.into()), reason);
    }

    /// A plan that did.
    pub fn executed(&mut self, compared: &Compared, plan: &Plan) {
        self.method.clone_from(&plan.method);
        self.iteration_ns = Some(compared.iteration_ns);
        self.error = Some(compared.error());
        self.slowdown = compared.slowdown;
        self.arena_bytes = Some(compared.arena_bytes);
        self.same_bits = compared.same_bits;
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![format!("{:.0} %", self.budget_percent), self.method.clone()];
        cells.extend(self.not_run.clone());
        let (Some(time), Some(arena)) = (self.iteration_ns, self.arena_bytes) else { return cells };
        let over = |of: fn(Pair<f64>) -> f64| {
            self.slowdown.map_or("-".into(), |slowdown| format!("{:.3}x", of(slowdown)))
        };
        cells.extend([
            time.measured.to_string(),
            time.predicted.to_string(),
            format!("{:+.1} %", 100.0 * self.error.unwrap_or(0.0)),
            over(|slowdown| slowdown.measured),
            over(|slowdown| slowdown.predicted),
            if arena.measured == arena.predicted { "as predicted" } else { "differs" }.into(),
            match self.same_bits {
                Some(true) => "same",
                Some(false) => "DIFFER",
                None => "-",
            }
            .into(),
        ]);
        cells
    }
}

const HEADER: &str = "budget|method|measured|predicted|error|over in-core|predicted|memory|bits";

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.networks.iter().try_for_each(|network| f.write_str(&network.text()))?;
        let not_run =
            |NotRun { network, reason }: &NotRun| format!("\n{network}: not run: {reason}\n");
        self.not_run.iter().try_for_each(|network| f.write_str(&not_run(network)))?;
        write!(f, "\n{}", self.agreement)
    }
}

impl NetworkTable {
    /// The table, with what it is of.
    pub fn text(&self) -> String {
        let Self { network, ops, peak_bytes, ops_ns, computed_by, plans, .. } = self;
        let mut text = format!("\n{network}: {ops} ops, peak {peak_bytes}, ");
        text += &match &self.in_core_ns {
            Some(in_core) => {
                format!(
                    "in core {} ({} by the sum of its ops)\n",
                    in_core.measured, in_core.predicted
                )
            }
            None => format!("for which there is no room; its ops take {ops_ns}\n"),
        };
        if let Some(within) = self.within_bytes {
            text += &format!(
                "ops were timed under plans within {within}, which is the budget of all\n"
            );
        }
        if let Some(whose) = computed_by {
            text.push_str(&format!("computed by {whose}\n"));
        }
        let header = HEADER.split('|').map(String::from).collect();
        let rows: Vec<_> = [header].into_iter().chain(plans.iter().map(PlanRow::cells)).collect();
        text.push_str(&columns(&rows));
        for PlanRow { budget_percent, method, reason, .. } in plans {
            if let Some(reason) = reason {
                text.push_str(&format!("{budget_percent:.0} %, {method}: {reason}\n"));
            }
        }
        text
    }
}

/// Whether all plans that ran left the bits that the iteration in core leaves.
///
/// # Errors
/// If not: worse than a plan that does not run.
pub(super) fn same_bits(networks: &[NetworkTable]) -> Result<()> {
    let plans = networks.iter().flat_map(|network| &network.plans);
    match plans.filter(|plan| plan.same_bits == Some(false)).count() {
        0 => Ok(()),
        others => Err(Error::OtherBits(others)),
    }
}
