//! A machine document from what was measured.

use runtime::cuda::CudaFacts;
use schema::{Bytes, BytesPerSec, Compute, Device, Host, Link, Machine};

use super::{Contention, Roofline};

/// What the speed of compute beside a copy is the mean of.
const BESIDE_COPY: &str =
    "the mean of a product of matrices and an activation, beside copies out and in";

/// The machine that this process runs on, as the host device sees it: half of the memory stands for
/// the device's, half for the host's. `source` is the command that measured link and roofline.
pub fn host_machine(
    link: Link,
    roofline: Roofline,
    contention: &Contention,
    memory: Bytes,
    source: &str,
) -> Machine {
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
        ("device.compute.f32_products", measured("the same product")),
        ("device.compute.elementwise", measured("the same copy")),
        ("device.compute.codec_lane", "codecs run on the thread that computes".to_string()),
        ("contention", measured(&contention.summary())),
        ("host.memory", "half of this machine's memory".to_string()),
        ("link", measured("copies between two arenas, slowed down to the link that is emulated")),
        ("link.beside_copy", measured(BESIDE_COPY)),
    ];
    Machine {
        name: "host".into(),
        description: format!("{}, one thread, {}", runtime::profile::processor_name(), link.name),
        device: Device {
            name: format!("{}, 1 thread", runtime::profile::processor_name()),
            memory: half,
            reserved: Bytes::ZERO,
            compute: Compute {
                f32_products: Some(roofline.f32_flops),
                elementwise: Some(roofline.memory_bandwidth),
                ..Compute::new(roofline.f32_flops, roofline.memory_bandwidth)
            },
        },
        // Updates are element by element, too, and the processor is the same.
        host: Host { updates: Some(roofline.memory_bandwidth), ..Host::new(half) },
        link: Link { beside_copy: contention.beside_copy(), ..link },
        network: None,
        sources: sources.into_iter().map(|(n, s)| (n.to_string(), s)).collect(),
    }
}

/// The machine of a CUDA device: what the device says of itself, a link that was measured, and so
/// much of the host's memory, which was left, for what leaves the device. `source` is the command
/// that measured the link.
pub fn cuda_machine(
    link: Link,
    facts: &CudaFacts,
    contention: &Contention,
    host_memory: Bytes,
    source: &str,
) -> Machine {
    let says = |what: &str| format!("the driver's word: {what}");
    let measured = |what: &str| format!("measured by `{source}`: {what}");
    let sources = [
        ("device.name", says(&identity(facts))),
        ("device.memory", says("all memory")),
        ("device.reserved", says("what was not free when it was asked")),
        ("device.compute.f32_flops", says("multiprocessors, their cores, and the clock")),
        ("device.compute.f16_flops", "as for 32 bits: layers compute in 32 bits".to_string()),
        ("device.compute.memory_bandwidth", says("the memory's clock and width")),
        ("device.compute.multiprocessors", says("multiprocessors")),
        ("device.compute.codec_lane", "codecs have a stream of their own".to_string()),
        (
            "device.compute.beside_codec",
            measured("the mean of a product of matrices and an activation beside a codec"),
        ),
        ("device.compute.f32_products", measured("a product of large matrices")),
        ("device.compute.elementwise", measured("an activation of a large tensor")),
        ("contention", measured(&contention.summary())),
        ("host.memory", measured("what the system and its control group had to give")),
        ("link", measured("copies from and to pinned memory, and memory that is not")),
        ("link.beside_copy", measured(BESIDE_COPY)),
    ];
    Machine {
        name: "cuda".into(),
        description: format!("{}, {}", facts.name, link.name),
        device: Device {
            name: facts.name.clone(),
            memory: facts.memory,
            reserved: facts.memory.saturating_sub(facts.free),
            compute: Compute {
                codec_lane: true,
                multiprocessors: Some(facts.multiprocessors),
                f32_products: contention.rates.map(|[products, _]| products.max(1)),
                elementwise: contention.rates.map(|[_, bytes]| BytesPerSec(bytes.max(1))),
                beside_codec: contention.beside_codec(),
                ..Compute::new(facts.f32_flops, BytesPerSec(facts.memory_bandwidth))
            },
        },
        host: Host::new(host_memory),
        link: Link { beside_copy: contention.beside_copy(), ..link },
        network: None,
        sources: sources.into_iter().map(|(n, s)| (n.to_string(), s)).collect(),
    }
}

/// What tells the device from others, and what its times depend on.
fn identity(facts: &CudaFacts) -> String {
    let CudaFacts { uuid, multiprocessors, .. } = facts;
    format!(
        "{uuid}, compute capability {}.{}, {multiprocessors} multiprocessors at up to {} MHz, memory at \
         up to {} MHz, a driver for CUDA {}.{}",
        facts.capability.0,
        facts.capability.1,
        facts.clock_khz / 1000,
        facts.memory_clock_khz / 1000,
        facts.driver.0,
        facts.driver.1
    )
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
    use schema::Document;

    use super::*;

    #[test]
    fn memory_is_read_where_the_system_tells_it() {
        assert_eq!(total("MemTotal:  16 kB\nMemFree: 3 kB\n"), Some(Bytes(16 << 10)));
        assert_eq!(total("MemTotal: many\n"), None);
        assert_eq!(total(""), None);
    }

    #[test]
    fn the_machine_is_well_formed() {
        let link = Link::constant("emulated", BytesPerSec(1_000_000));
        let roofline = Roofline { f32_flops: 1, memory_bandwidth: BytesPerSec(1) };
        let memory = memory_of_this_machine();
        let contention = Contention { loads: Vec::new(), product: None, rates: None };
        let machine = host_machine(link, roofline, &contention, memory, "test");
        assert_eq!(machine.check(), Ok(()));
    }
}
