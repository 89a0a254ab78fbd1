//! One row: a question and its answer.

use reports::MethodResult;
use schema::{Bytes, BytesPerSec, Nanos};

/// One planned point of a study: what was asked, and what came out.
///
/// Figures of the plan are `None` where there is no plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The study.
    pub study: String,
    /// The group of the study that asks.
    pub group: String,
    /// The network or the recorded trace.
    pub network: String,
    /// Samples per iteration, where known. Where the largest batch was asked for, the answer.
    pub batch: Option<u32>,
    /// Options of the network that are not its own, such as `image 224x224`.
    pub options: String,
    /// Where the op times come from: `measured`, `imported`, `modelled` or `scaled`.
    pub origin: String,
    /// The machine, without what follows `+`.
    pub machine: String,
    /// The link: a bundled link's name, a bandwidth, or `own` for the machine's.
    pub link: String,
    /// Bandwidth from host to device for a copy of 256 MiB.
    pub bandwidth: BytesPerSec,
    /// Device memory that the plan may use. Where the smallest was asked for, the answer.
    pub budget: Bytes,
    /// Host memory that the plan may use.
    pub host_budget: Bytes,
    /// The machine for which the method decided, where it is another; else empty.
    pub decided_on: String,
    /// What the method may decide, joined with `+`.
    pub allowed: String,
    /// What the method may compress with, and on what assumption; absent: with nothing.
    pub codecs: Option<String>,
    /// What was searched for: empty, `largest-batch` or `smallest-budget`.
    pub find: String,
    /// Evaluations that one search may make.
    pub evaluations: u64,
    /// The iteration without a memory limit.
    pub in_core: Nanos,
    /// Its peak.
    pub in_core_peak: Bytes,
    /// What the tensors that are compressed take as they are.
    pub compressed_raw: Option<Bytes>,
    /// What is expected of their compressed forms.
    pub compressed_small: Option<Bytes>,
    /// What came out: the method, and its plan where it has one.
    pub answer: MethodResult,
}

impl Row {
    /// What was asked, without what came out.
    pub fn question(&self) -> Self {
        let answer = MethodResult { method: self.answer.method.clone(), ..MethodResult::default() };
        let (compressed_raw, compressed_small) = (None, None);
        let asked = Self { compressed_raw, compressed_small, answer, ..self.clone() };
        if self.find.is_empty() {
            return asked;
        }
        // A search was for some of these.
        let (budget, in_core, in_core_peak) = (Bytes::ZERO, Nanos::ZERO, Bytes::ZERO);
        Self { batch: None, budget, in_core, in_core_peak, ..asked }
    }

    /// The method's name, with whatever else tells rows of one question apart: what it may do, with a
    /// word more, unless that is all that there is, and for which machine it decided.
    pub fn method_name(&self, more: &str) -> String {
        let mut name = self.answer.method.clone();
        if self.allowed != "swap+recompute" {
            name += &format!(" ({}{more})", self.allowed);
        }
        if !self.decided_on.is_empty() {
            name += &format!(" (decided on {})", self.decided_on);
        }
        name
    }

    /// Samples per second, where there is a plan and the batch is known.
    pub fn throughput(&self) -> Option<f64> {
        Some(f64::from(self.batch?) / self.answer.iteration?.as_secs_f64())
    }
}
