//! What the executor itself costs: iterations of actions that do next to nothing.
//!
//! ```sh
//! cargo run --release -p tidegate-runtime --example executor_overhead
//! ```
//!
//! The network is a chain of activations of one element, and the link takes no time. In-core, one
//! lane runs an op after another. With every feature map swapped, lanes wait for each other all the
//! time: what that costs depends on how many processors there are for the lanes, as one that parks
//! is woken by the system.

use std::collections::BTreeMap;
use std::error::Error;

use networks::{Activation, Builder, NetworkOptions, Optimizer};
use planner::methods::by_name;
use planner::{NoMonitor, Problem, plan};
use runtime::device::Device;
use runtime::device::host::{HostDevice, HostOptions};
use runtime::network::{Measured, Network};
use schema::{
    Bandwidth, Bytes, BytesPerSec, Compute, Dtype, Host, Link, Machine, Nanos, Origin, Provenance,
};

const LAYERS: usize = 1000;
const WARMUP: usize = 20;
const REPEATS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let options = NetworkOptions::default();
    let mut net = Builder::new("chain", &options, Dtype::F32, Optimizer::None)?;
    let mut x = net.input("input", &[1])?;
    x = net.linear("first", x, 1, false)?;
    for layer in 0..LAYERS {
        // Its backward pass reads the input, so that there is something to swap.
        x = net.activation(&format!("gelu{layer}"), x, Activation::Gelu)?;
    }
    let network = Network::new(&net.finish(x)?, None)?;
    let provenance = Provenance {
        origin: Origin::Modelled,
        device: "none".into(),
        framework: None,
        source: "an example".into(),
        date: None,
        notes: Vec::new(),
        settings: Default::default(),
    };
    let durations = vec![Nanos(1000); network.ops().len()];
    let trace = network.trace(&Measured { durations, sparsity: Vec::new() }, provenance);
    let machine = machine();
    println!("{LAYERS} layers of one element, median and smallest of {REPEATS} iterations");
    for method in ["in-core", "swap-all"] {
        let mut problem = Problem::new(&trace, &machine, Bytes(1 << 20));
        problem.limits.evaluations = 10;
        let method = by_name(method).ok_or("no such method")?;
        let plan = plan(method.as_ref(), &problem, &NoMonitor)?;
        let options = HostOptions::new(machine.link.clone());
        let mut device = HostDevice::new(&network, &trace, &plan, &options)?;
        let mut times = Vec::new();
        for iteration in 0..WARMUP + REPEATS {
            let time = device.run()?.iteration;
            if iteration >= WARMUP {
                times.push(time);
            }
        }
        times.sort_unstable();
        let each = |time: Nanos| time.0 as f64 / 1e3 / plan.actions.len() as f64;
        let lanes = schema::Lane::ALL.map(|lane| {
            plan.actions.iter().filter(|action| plan.lane(action.task) == lane).count()
        });
        println!(
            "{:<10} {:>5} actions ({} compute, {} out, {} in): {:.3} us an action, smallest {:.3} us",
            plan.method,
            plan.actions.len(),
            lanes[0],
            lanes[1],
            lanes[2],
            each(times[REPEATS / 2]),
            each(times[0]),
        );
    }
    Ok(())
}

fn machine() -> Machine {
    let bandwidth = Bandwidth::constant(BytesPerSec(1_000_000_000_000_000));
    Machine {
        name: "empty".into(),
        description: "copies take no time".into(),
        device: schema::Device {
            name: "empty".into(),
            memory: Bytes(1 << 30),
            reserved: Bytes(0),
            compute: Compute {
                f32_flops: 1,
                f16_flops: 1,
                memory_bandwidth: BytesPerSec(1),
                codec_lane: false,
                beside_codec: 1.0,
            },
        },
        host: Host { memory: Bytes(1 << 30) },
        link: Link {
            name: "empty".into(),
            d2h: bandwidth.clone(),
            h2d: bandwidth,
            latency: Nanos(0),
            both_directions: 1.0,
            beside_copy: 1.0,
        },
        sources: BTreeMap::new(),
    }
}
