//! One row: a question and its answer.

use schema::{Bytes, BytesPerSec, Nanos};

use crate::cell::{Cell, Kind, Table, Value, columns};

/// Whether a method found a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Status {
    /// It did.
    #[default]
    Ok,
    /// None that fits the budget.
    Infeasible,
}

impl Status {
    /// As it stands in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Infeasible => "infeasible",
        }
    }

    /// The status of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Ok, Self::Infeasible].into_iter().find(|status| status.name() == name)
    }
}

columns! {
    /// One planned point of a study: what was asked, and what came out.
    ///
    /// Figures of the plan are `None` where there is no plan.
    pub struct Row {
        /// The study.
        study: String = "study",
        /// The group of the study that asks.
        group: String = "group",
        /// The network or the recorded trace.
        network: String = "network",
        /// Samples per iteration, where known. Where the largest batch was asked for, the answer.
        batch: Option<u32> = "batch",
        /// Options of the network that are not its own, such as `image 224x224`.
        options: String = "options",
        /// Where the op times come from: `measured`, `imported`, `modelled` or `scaled`.
        origin: String = "origin",
        /// The machine, without what follows `+`.
        machine: String = "machine",
        /// The link: a bundled link's name, a bandwidth, or `own` for the machine's.
        link: String = "link",
        /// Bandwidth from host to device for a copy of 256 MiB.
        bandwidth: BytesPerSec = "bandwidth_bytes_per_sec",
        /// Device memory that the plan may use. Where the smallest was asked for, the answer.
        budget: Bytes = "budget_bytes",
        /// Host memory that the plan may use.
        host_budget: Bytes = "host_budget_bytes",
        /// The method.
        method: String = "method",
        /// The machine for which the method decided, where it is another; else empty.
        decided_on: String = "decided_on",
        /// What the method may decide, joined with `+`.
        allowed: String = "allowed",
        /// What the method may compress with, and on what assumption; absent: with nothing.
        codecs: Option<String> = "codecs",
        /// What was searched for: empty, `largest-batch` or `smallest-budget`.
        find: String = "find",
        /// Evaluations that one search may make.
        evaluations: u64 = "evaluations",
        /// Whether there is a plan.
        status: Status = "status",
        /// Why there is none, in a sentence.
        reason: Option<String> = "reason",
        /// By how much the budget would have to grow for a plan, where known.
        shortfall: Option<Bytes> = "shortfall_bytes",
        /// The iteration without a memory limit.
        in_core: Nanos = "in_core_ns",
        /// Its peak.
        in_core_peak: Bytes = "in_core_peak_bytes",
        /// Time of one iteration, all lanes drained.
        iteration: Option<Nanos> = "iteration_ns",
        /// That time over the in-core time.
        slowdown: Option<f64> = "slowdown",
        /// Time over the proven bound, less one, where there is a bound.
        gap: Option<f64> = "gap",
        /// Largest sum of live buffers.
        peak: Option<Bytes> = "peak_bytes",
        /// End of the highest buffer in the arena.
        arena: Option<Bytes> = "arena_bytes",
        /// Tensors that stay on the device.
        kept: Option<u64> = "kept",
        /// Tensors that wait in host memory.
        swapped: Option<u64> = "swapped",
        /// Tensors that are made again.
        recomputed: Option<u64> = "recomputed",
        /// Tensors that are compressed.
        compressed: Option<u64> = "compressed",
        /// What the tensors that are compressed take as they are.
        compressed_raw: Option<Bytes> = "compressed_raw_bytes",
        /// What is reserved for their compressed forms.
        compressed_small: Option<Bytes> = "compressed_small_bytes",
        /// Bytes copied out per iteration.
        d2h: Option<Bytes> = "d2h_bytes",
        /// Bytes copied in per iteration.
        h2d: Option<Bytes> = "h2d_bytes",
        /// Time spent running ops again.
        recompute: Option<Nanos> = "recompute_ns",
        /// Time spent compressing and decompressing.
        codec: Option<Nanos> = "codec_ns",
        /// Time for which the compute lane stood idle.
        stall: Option<Nanos> = "stall_ns",
        /// How long planning took: the one figure that differs from run to run.
        plan_seconds: Option<f64> = "plan_seconds",
    }
}

impl Row {
    /// What was asked, without what came out.
    pub fn question(&self) -> Self {
        let asked = Self {
            study: self.study.clone(),
            group: self.group.clone(),
            network: self.network.clone(),
            options: self.options.clone(),
            origin: self.origin.clone(),
            machine: self.machine.clone(),
            link: self.link.clone(),
            bandwidth: self.bandwidth,
            host_budget: self.host_budget,
            method: self.method.clone(),
            decided_on: self.decided_on.clone(),
            allowed: self.allowed.clone(),
            codecs: self.codecs.clone(),
            find: self.find.clone(),
            evaluations: self.evaluations,
            ..Self::default()
        };
        if !self.find.is_empty() {
            return asked;
        }
        // No search was for these.
        let Self { batch, budget, in_core, in_core_peak, .. } = *self;
        Self { batch, budget, in_core, in_core_peak, ..asked }
    }

    /// Samples per second, where there is a plan and the batch is known.
    pub fn throughput(&self) -> Option<f64> {
        Some(f64::from(self.batch?) / self.iteration?.as_secs_f64())
    }
}
