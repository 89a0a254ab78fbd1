//! Methods side by side in one setting, whatever file they come from.

use schema::{Bytes, BytesPerSec, Nanos};

use crate::text::{op_times, percent};
use crate::{Comparison, MethodResult, Status};

/// What a set of methods was asked, and how each did: a comparison, or one point of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The network, with what distinguishes it from others of its name.
    pub network: String,
    /// Samples per iteration, where known.
    pub batch: Option<u32>,
    /// The machine, without what follows `+`.
    pub machine: String,
    /// The link where it is not the machine's own; empty where it is.
    pub link: String,
    /// Bandwidth of the link for large copies, where known.
    pub bandwidth: Option<BytesPerSec>,
    /// The memory that each method had.
    pub budget: Bytes,
    /// The host memory that each method had, where the inputs vary it.
    pub host_memory: Option<Bytes>,
    /// The iteration without a memory limit.
    pub in_core: Nanos,
    /// Its peak.
    pub in_core_peak: Bytes,
    /// A time that no plan under this budget can beat, where one was computed.
    pub bound: Option<Nanos>,
    /// What the op times rest on, in words that follow "predicted from".
    pub op_times: String,
    /// One entry per method.
    pub methods: Vec<MethodResult>,
}

impl Setting {
    /// The setting of a comparison. `bandwidth` is that of its machine's link, where known.
    pub fn of(comparison: &Comparison, bandwidth: Option<BytesPerSec>) -> Self {
        let (network, batch) = network_and_batch(&comparison.trace.name);
        let name = comparison.machine.name.as_str();
        let (machine, link) = name.split_once('+').unwrap_or((name, ""));
        Self {
            network: network.into(),
            batch,
            machine: machine.into(),
            link: link.into(),
            bandwidth,
            budget: comparison.budget,
            host_memory: None,
            in_core: comparison.in_core.iteration,
            in_core_peak: comparison.in_core.peak,
            bound: comparison.bound,
            op_times: op_times(comparison.provenance.as_ref()),
            methods: comparison.methods.clone(),
        }
    }

    /// What it is, in a few words.
    pub(super) fn title(&self) -> String {
        let batch = self.batch.map_or_else(String::new, |batch| format!(" (batch {batch})"));
        format!("{}{batch} on {}, {}", self.network, self.machine_and_link(), self.budget_text())
    }

    pub(super) fn all_op_times<'a>(settings: impl IntoIterator<Item = &'a Self>) -> String {
        let mut all: Vec<_> = settings.into_iter().map(|s| s.op_times.as_str()).collect();
        all.dedup();
        all.join("; ")
    }

    /// The link; where it is the machine's own, that machine's.
    pub(super) fn link_name(&self) -> String {
        match self.link.as_str() {
            "" => format!("{}'s own", self.machine),
            link => link.into(),
        }
    }

    pub(super) fn machine_and_link(&self) -> String {
        let Self { machine, link, .. } = self;
        let machine = if link.is_empty() { machine.clone() } else { format!("{machine}+{link}") };
        match self.host_memory {
            Some(host_memory) => format!("{machine} (host {host_memory})"),
            None => machine,
        }
    }

    pub(super) fn budget_text(&self) -> String {
        format!("{} ({} of the in-core peak)", self.budget, percent(self.budget_share()))
    }

    /// The budget over what the iteration takes without one.
    pub(super) fn budget_share(&self) -> f64 {
        self.budget.0 as f64 / self.in_core_peak.0.max(1) as f64
    }

    /// Methods with a plan and what each costs over the in-core time, from the fastest on.
    pub(super) fn plans(&self) -> Vec<(&MethodResult, f64)> {
        let plans = self.methods.iter().filter(|method| method.status == Status::Ok);
        let mut plans: Vec<_> =
            plans.filter_map(|m| Some((m, self.overhead(m.iteration?)))).collect();
        plans.sort_by_key(|(method, _)| method.iteration);
        plans
    }

    /// A time over the in-core time, less one.
    pub(super) fn overhead(&self, time: Nanos) -> f64 {
        time.ratio(self.in_core) - 1.0
    }
}

/// `resnet50 (batch 64)`, as [`schema::Trace::title`] writes it.
pub(super) fn network_and_batch(title: &str) -> (&str, Option<u32>) {
    let parts = title.strip_suffix(')').and_then(|title| title.rsplit_once(" (batch "));
    match parts.map(|(network, batch)| (network, batch.parse())) {
        Some((network, Ok(batch))) => (network, Some(batch)),
        _ => (title, None),
    }
}
