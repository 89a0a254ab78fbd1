//! The host link as measured points per direction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, BytesPerSec, Nanos};

/// The link between host and device memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What it is, such as `PCIe 3 x16`.
    pub name: String,
    /// Device to host.
    pub d2h: Bandwidth,
    /// Host to device.
    pub h2d: Bandwidth,
    /// What every copy costs on top of its bytes.
    #[serde(rename = "latency_ns")]
    pub latency: Nanos,
    /// Speed of each direction while both are busy, as a share of its speed alone: 1 for a link
    /// whose directions do not disturb each other, 0.5 for one that shares its bandwidth.
    pub both_directions: f64,
    /// Speed of compute while a copy runs, in either direction or in both, as a share of its speed
    /// alone, from 0.1 to 1: both want the device's memory. Absent: 1, so that copies do not slow
    /// it. The copy keeps its speed.
    #[serde(default = "full_speed", skip_serializing_if = "is_full_speed")]
    pub beside_copy: f64,
}

pub(crate) fn full_speed() -> f64 {
    1.0
}

pub(crate) fn is_full_speed(share: &f64) -> bool {
    *share == full_speed()
}

/// Copies from device to host, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Device to host.
    D2h,
    /// Host to device.
    H2d,
}

/// Bandwidth of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// To or from page-locked host memory: measured points by ascending size, at least one.
    pub pinned: Vec<BandwidthPoint>,
    /// To or from pageable host memory, where measured. Plans use pinned memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pageable: Vec<BandwidthPoint>,
}

/// One measured point: copies of `bytes` reach `bytes_per_sec`, latency left aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BandwidthPoint {
    /// Size of the copy.
    pub bytes: Bytes,
    /// Bandwidth, latency left aside.
    pub bytes_per_sec: BytesPerSec,
}

impl Bandwidth {
    /// The same bandwidth at every size.
    pub fn constant(bytes_per_sec: BytesPerSec) -> Self {
        let point = BandwidthPoint { bytes: Bytes(1 << 20), bytes_per_sec };
        Self { pinned: vec![point], pageable: Vec::new() }
    }

    /// Bandwidth of a pinned copy of `bytes`, in bytes per second: between two measured sizes
    /// linear in the logarithm of the size, beyond them that of the nearest.
    pub fn at(&self, bytes: Bytes) -> f64 {
        let points = &self.pinned;
        let next = points.partition_point(|p| p.bytes < bytes);
        let speed = |i: usize| points[i].bytes_per_sec.0 as f64;
        if next == 0 {
            return speed(0);
        }
        if next == points.len() {
            return speed(next - 1);
        }
        let size = |i: usize| (points[i].bytes.0.max(1) as f64).ln();
        let here = (bytes.0.max(1) as f64).ln();
        let share = (here - size(next - 1)) / (size(next) - size(next - 1));
        speed(next - 1) + share * (speed(next) - speed(next - 1))
    }

    fn problem(&self) -> Option<&'static str> {
        if self.pinned.is_empty() {
            return Some("has no point: give at least one pinned bandwidth");
        }
        for points in [&self.pinned, &self.pageable] {
            if points.windows(2).any(|w| w[0].bytes >= w[1].bytes) {
                return Some("must list its points by ascending size");
            }
            let speeds = 1..=1_000_000_000_000_000;
            if points.iter().any(|p| !speeds.contains(&p.bytes_per_sec.0)) {
                return Some("must lie between 1 byte/s and 1e15 bytes/s");
            }
        }
        None
    }
}

impl Link {
    /// A link of one bandwidth each way, without latency, and whose copies disturb nothing.
    pub fn constant(name: &str, bytes_per_sec: BytesPerSec) -> Self {
        let bandwidth = Bandwidth::constant(bytes_per_sec);
        Self {
            name: name.into(),
            d2h: bandwidth.clone(),
            h2d: bandwidth,
            latency: Nanos::ZERO,
            both_directions: 1.0,
            beside_copy: 1.0,
        }
    }

    /// Time of a pinned copy of `bytes` while the other direction is idle: latency plus bytes
    /// over bandwidth, rounded to the nearest nanosecond. Nothing costs nothing.
    pub fn copy_time(&self, direction: Direction, bytes: Bytes) -> Nanos {
        if bytes == Bytes::ZERO {
            return Nanos::ZERO;
        }
        let bandwidth = match direction {
            Direction::D2h => &self.d2h,
            Direction::H2d => &self.h2d,
        };
        let nanos = (bytes.0 as f64 * 1e9 / bandwidth.at(bytes)).round();
        // A slow enough link takes longer than a number holds.
        Nanos(self.latency.0.saturating_add(nanos as u64))
    }

    /// What is wrong with the link, with the field's name, or nothing.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        if let Some(why) = self.d2h.problem() {
            return Some(("link.d2h", why));
        }
        if let Some(why) = self.h2d.problem() {
            return Some(("link.h2d", why));
        }
        if !(0.1..=1.0).contains(&self.both_directions) {
            return Some(("link.both_directions", "must lie between 0.1 and 1"));
        }
        if !(0.1..=1.0).contains(&self.beside_copy) {
            return Some(("link.beside_copy", "must lie between 0.1 and 1"));
        }
        if self.latency.0 > 1_000_000_000 {
            return Some(("link.latency_ns", "is over a second"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(points: &[(u64, u64)]) -> Link {
        let point = |&(bytes, speed): &(u64, u64)| BandwidthPoint {
            bytes: Bytes(bytes),
            bytes_per_sec: BytesPerSec(speed),
        };
        let pinned = points.iter().map(point).collect();
        let bandwidth = Bandwidth { pinned, pageable: Vec::new() };
        let h2d = bandwidth.clone();
        Link { d2h: bandwidth, h2d, latency: Nanos(10), ..Link::constant("test", BytesPerSec(1)) }
    }

    #[test]
    fn a_copy_costs_latency_and_bytes_over_bandwidth() {
        let link = link(&[(1000, 1_000_000_000)]);
        assert_eq!(link.copy_time(Direction::D2h, Bytes(500)), Nanos(510));
        assert_eq!(link.copy_time(Direction::H2d, Bytes(0)), Nanos(0));
    }

    #[test]
    fn between_points_bandwidth_is_linear_in_the_logarithm_of_the_size() {
        let link = link(&[(1_000, 1_000_000_000), (100_000, 3_000_000_000)]);
        assert_eq!(link.d2h.at(Bytes(10)).round(), 1e9);
        assert_eq!(link.d2h.at(Bytes(10_000)).round(), 2e9);
        assert_eq!(link.d2h.at(Bytes(1 << 30)).round(), 3e9);
    }
}
