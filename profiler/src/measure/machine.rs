//! A machine document from what was measured.

use std::collections::BTreeMap;

use schema::{Bytes, Compute, Device, Host, Link, Machine};

use super::Roofline;

/// The machine that this process runs on, as the host device sees it: half of the memory stands for
/// the device's, half for the host's. `source` is the command that measured link and roofline.
pub fn host_machine(link: Link, roofline: Roofline, memory: Bytes, source: &str) -> Machine {
    let half = Bytes(memory.0 / 2);
    let measured = |what: &str| format!("measured by `{source}`: {what}");
    let sources = [
        ("device.memory", "half of this machine's memory".to_string()),
        ("device.reserved", "nothing: the arena is all that there is".to_string()),
        ("device.compute.f32_flops", measured("a product of large matrices on one thread")),
        ("device.compute.f16_flops", "as for 32 bits: layers compute in 32 bits".to_string()),
        (
            "device.compute.memory_bandwidth",
            measured("a copy that no cache holds, read and written"),
        ),
        ("device.compute.codec_lane", "codecs run on the thread that computes".to_string()),
        ("host.memory", "half of this machine's memory".to_string()),
        ("link", measured("copies between two arenas, slowed down to the link that is emulated")),
    ];
    Machine {
        name: "host".into(),
        description: format!("{}, one thread, {}", runtime::profile::processor_name(), link.name),
        device: Device {
            name: format!("{}, 1 thread", runtime::profile::processor_name()),
            memory: half,
            reserved: Bytes::ZERO,
            compute: Compute {
                f32_flops: roofline.f32_flops,
                f16_flops: roofline.f32_flops,
                memory_bandwidth: roofline.memory_bandwidth,
                codec_lane: false,
                beside_codec: 1.0,
            },
        },
        host: Host { memory: half },
        link,
        sources: sources.into_iter().map(|(n, s)| (n.to_string(), s)).collect::<BTreeMap<_, _>>(),
    }
}

/// This machine's memory, from `/proc/meminfo` where there is one; else 4 GiB.
pub fn memory_of_this_machine() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    total(&text).unwrap_or(Bytes(4 << 30))
}

fn total(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
mod tests {
    use schema::{Bandwidth, BytesPerSec, Document, Nanos};

    use super::*;

    #[test]
    fn memory_is_read_where_the_system_tells_it() {
        assert_eq!(total("MemTotal:  16 kB\nMemFree: 3 kB\n"), Some(Bytes(16 << 10)));
        assert_eq!(total("MemTotal: many\n"), None);
        assert_eq!(total(""), None);
    }

    #[test]
    fn the_machine_is_well_formed() {
        let link = Link {
            name: "emulated".into(),
            d2h: Bandwidth::constant(BytesPerSec(1_000_000)),
            h2d: Bandwidth::constant(BytesPerSec(1_000_000)),
            latency: Nanos(1000),
            both_directions: 1.0,
        };
        let roofline = Roofline { f32_flops: 1, memory_bandwidth: BytesPerSec(1) };
        let machine = host_machine(link, roofline, memory_of_this_machine(), "test");
        assert_eq!(machine.check(), Ok(()));
    }
}
