//! What a trace runs on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::{Malformed, malformed};
use crate::link::{full_speed, is_full_speed};
use crate::{Bytes, BytesPerSec, Document, Link, Nanos, NetLink};

/// One device, its host and the link between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// A short name, as on the command line.
    pub name: String,
    /// What it is, in a few words.
    pub description: String,
    /// The device.
    pub device: Device,
    /// The host.
    pub host: Host,
    /// The link between them.
    pub link: Link,
    /// The link to devices of other ranks, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetLink>,
    /// Where each figure comes from, by the name of its field (`device.memory`, `link.d2h`).
    pub sources: BTreeMap<String, String>,
}

/// The device of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The product's name.
    pub name: String,
    /// Its memory.
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// What the driver and the framework keep for themselves.
    #[serde(rename = "reserved_bytes")]
    pub reserved: Bytes,
    /// How fast it computes.
    pub compute: Compute,
}

/// Roofline figures of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// Peak operations per second of 32-bit floats without reduced-precision units.
    pub f32_flops: u64,
    /// Peak dense operations per second of 16-bit floats, with matrix units where it has them.
    pub f16_flops: u64,
    /// Peak dense operations per second of matrix units that take 32-bit floats (TF32); absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf32_flops: Option<u64>,
    /// Streaming multiprocessors or compute units, over which products are spread in tiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<u32>,
    /// The last level of cache before memory.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "l2_cache_bytes")]
    pub l2_cache: Option<Bytes>,
    /// Operations per second that a large product of 32-bit floats reaches, where that was measured or
    /// is known to be less than others reach of their peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f32_products: Option<u64>,
    /// Bytes per second that a large element-wise op reaches, where that was measured.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "elementwise_bytes_per_sec"
    )]
    pub elementwise: Option<BytesPerSec>,
    /// Peak bandwidth of device memory.
    #[serde(rename = "memory_bytes_per_sec")]
    pub memory_bandwidth: BytesPerSec,
    /// Whether codecs can run beside compute; if not they run on the compute lane.
    pub codec_lane: bool,
    /// Speed of compute while a codec runs beside it, as a share of its speed alone, from 0.1 to 1:
    /// both want the device's cores and its memory's bandwidth. Absent: 1, so that codecs do not
    /// slow it. The codec keeps its speed.
    #[serde(default = "full_speed", skip_serializing_if = "is_full_speed")]
    pub beside_codec: f64,
}

impl Compute {
    /// A device of one peak and one bandwidth, whose codecs run on the compute lane, of which nothing else is known.
    pub fn new(flops: u64, memory_bandwidth: BytesPerSec) -> Self {
        Self {
            f32_flops: flops,
            f16_flops: flops,
            tf32_flops: None,
            multiprocessors: None,
            l2_cache: None,
            f32_products: None,
            elementwise: None,
            memory_bandwidth,
            codec_lane: false,
            beside_codec: full_speed(),
        }
    }
}

/// The host of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Memory that plans may use for what leaves the device.
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// Bytes per second that its processor reads and writes in optimizers' updates: all that one reads, and
    /// what it changes once more. Absent: plans have it run none.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "update_bytes_per_sec")]
    pub updates: Option<BytesPerSec>,
}

impl Host {
    /// As much memory, and a processor that runs no updates.
    pub fn new(memory: Bytes) -> Self {
        Self { memory, updates: None }
    }

    /// Time in which its processor reads and writes so many bytes in an update, where it runs any.
    pub fn update_time(&self, bytes: Bytes) -> Option<Nanos> {
        let speed = u128::from(self.updates?.0.max(1));
        let nanos = (u128::from(bytes.0) * 1_000_000_000).div_ceil(speed);
        Some(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

impl Machine {
    /// What a plan may use of the device's memory when no budget is stated.
    pub fn usable_memory(&self) -> Bytes {
        self.device.memory.saturating_sub(self.device.reserved)
    }
}

impl Document for Machine {
    const FORMAT: &'static str = "tidegate/machine";
    const VERSION: u32 = 1;

    fn check(&self) -> Result<(), Malformed> {
        let network = self.network.as_ref().and_then(NetLink::problem);
        if let Some((field, why)) = self.link.problem().or(network) {
            return malformed(format!("{field} {why}"));
        }
        let compute = &self.device.compute;
        if compute.f32_flops == 0 || compute.f16_flops == 0 || compute.memory_bandwidth.0 == 0 {
            return malformed("device.compute must have figures over 0");
        }
        let further = [compute.tf32_flops, compute.f32_products];
        if further.contains(&Some(0))
            || compute.multiprocessors == Some(0)
            || compute.elementwise == Some(BytesPerSec(0))
        {
            return malformed("device.compute must have figures over 0");
        }
        if !(0.1..=1.0).contains(&compute.beside_codec) {
            return malformed("device.compute.beside_codec must lie between 0.1 and 1");
        }
        if self.host.updates == Some(BytesPerSec(0)) {
            return malformed("host.update_bytes_per_sec must be over 0");
        }
        let largest = Bytes(1 << 60);
        if self.device.memory > largest || self.host.memory > largest {
            return malformed("memory_bytes exceeds 2^60 bytes");
        }
        Ok(())
    }
}
