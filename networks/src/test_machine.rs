//! A machine for tests, to which figures matter little.

use schema::{Bandwidth, Bytes, BytesPerSec, Compute, Device, Host, Link, Machine, Nanos};

pub(crate) fn machine() -> Machine {
    let bandwidth = Bandwidth::constant(BytesPerSec(10_000_000_000));
    Machine {
        name: "test".into(),
        description: String::new(),
        device: Device {
            name: "test".into(),
            memory: Bytes(1 << 34),
            reserved: Bytes(0),
            compute: Compute {
                f32_flops: 10_000_000_000_000,
                f16_flops: 20_000_000_000_000,
                memory_bandwidth: BytesPerSec(700_000_000_000),
                codec_lane: false,
                beside_codec: 1.0,
            },
        },
        host: Host { memory: Bytes(1 << 38) },
        link: Link {
            name: "test".into(),
            d2h: bandwidth.clone(),
            h2d: bandwidth,
            latency: Nanos(10_000),
            both_directions: 1.0,
            beside_copy: 1.0,
        },
        sources: Default::default(),
    }
}
