//! The link between the ranks of a training.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, BytesPerSec, Nanos};

/// What each rank sends over to the next one of a ring, while it receives as much from the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetLink {
    /// What it is, such as `NVLink 3`.
    pub name: String,
    /// Bandwidth of one rank, each way: of a ring over several hosts, that of its slowest part.
    pub bytes_per_sec: BytesPerSec,
    /// What every message costs on top of its bytes.
    #[serde(rename = "latency_ns")]
    pub latency: Nanos,
}

impl NetLink {
    /// Time in which every one of `ranks` gets all of `bytes` of which each has its share (all-gather), or the
    /// sum of its share over all ranks (reduce-scatter): `(p - 1) alpha + (p - 1) / p n beta`, as each of p - 1
    /// messages has a share (Thakur, Rabenseifner and Gropp 2005, *Optimization of Collective Communication
    /// Operations in MPICH*, on ring algorithms). What it says of bandwidth is what NCCL's tests hold measured times
    /// against (`nccl-tests`, `doc/PERFORMANCE.md`). Here adding up costs nothing, as it goes on beside
    /// the next message. Nothing costs nothing, and so does a rank alone.
    pub fn ring_time(&self, ranks: u32, bytes: Bytes) -> Nanos {
        let messages = u64::from(ranks.saturating_sub(1));
        if bytes == Bytes::ZERO || messages == 0 {
            return Nanos::ZERO;
        }
        let sent = bytes.0 as f64 * messages as f64 / f64::from(ranks);
        let nanos = (sent * 1e9 / self.bytes_per_sec.0 as f64).round();
        Nanos(self.latency.0.saturating_mul(messages).saturating_add(nanos as u64))
    }

    /// What is wrong with the link, with the field's name, or nothing.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        if !(1..=1_000_000_000_000_000).contains(&self.bytes_per_sec.0) {
            return Some(("network.bandwidth", "must lie between 1 byte/s and 1e15 bytes/s"));
        }
        (self.latency.0 > 1_000_000_000).then_some(("network.latency", "is over a second"))
    }
}
