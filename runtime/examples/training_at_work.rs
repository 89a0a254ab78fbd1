//! What codecs do to training: a small network learns to tell images apart, in-core, with
//! zero-value compression, with ZFP at a fixed rate, and with SZ under COMET's bounds.
//!
//! ```sh
//! cargo run --release -p tidegate-runtime --example training_at_work
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use planner::methods::{
    Comet, InCoreMethod, LayerStatistics, Method, StaticCompression, by_name, loss_weight,
};
use planner::{CodecOptions, NoWatch, Problem, plan};
use runtime::device::host::{HostDevice, HostOptions};
use runtime::network::{Network, Step};
use runtime::profile::Profiler;
use runtime::training::{Course, Curves, Images, classifier, look_inside, train};
use schema::{
    Bandwidth, Bytes, BytesPerSec, CodecModel, CodecModels, Compute, Fidelity, Host, Link, Machine,
    ModelBasis, Nanos, Plan, RatioBand, SizeModel, TimeModel, TimePoint, Trace,
};

const BATCH: usize = 32;
const SEED: u64 = 1;
const IMAGES: Images = Images { side: 16, channels: 3, noise: 2.0, seed: 7 };
const COURSE: Course = Course { epochs: 10, batches: 40, test_batches: 10 };
/// Iterations after which COMET's statistics are collected: without momentum there are none.
const WARMUP: Course = Course { epochs: 1, batches: 20, test_batches: 0 };
const SZ_BOUNDS: [f64; 6] = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2];

fn main() -> Result<(), Box<dyn Error>> {
    let network = classifier(&IMAGES, BATCH)?;
    let profile = Profiler { warmup: 1, repeats: 5, seed: SEED }.measure(&network, || {})?;
    let trace = profile.trace(&network, "an example".into(), None);
    let machine = machine();
    let whole = simulator::in_core(&trace);
    let roomy = Bytes(whole.peak.0 * 11 / 10);

    let in_core = planned(&InCoreMethod, &trace, &machine, roomy, &no_codecs())?;
    let statistics = statistics(&network, &trace, &in_core)?;
    let comet = Comet { statistics };
    let plus = by_name("cswap+").ok_or("no such method")?;
    let candidates: [(&str, &dyn Method, CodecModels); 4] = [
        ("in-core", &InCoreMethod, no_codecs()),
        ("ZVC", &StaticCompression::default(), zvc()),
        ("ZFP", plus.as_ref(), zfp()),
        ("SZ", &comet, sz()),
    ];
    let mut rows = Vec::new();
    for (name, method, models) in candidates {
        let budgets = if name == "in-core" { vec![110] } else { vec![50, 60, 70, 80, 90, 100] };
        let fits = budgets.into_iter().find_map(|percent| {
            let budget = Bytes(whole.peak.0 * percent / 100);
            planned(method, &trace, &machine, budget, &models).ok()
        });
        let Some(plan) = fits else {
            println!("{name}: no budget below in-core's peak suffices");
            continue;
        };
        let curves = learn(&network, &trace, &plan, COURSE)?;
        rows.push((name, plan, curves));
    }
    print(&rows);
    Ok(())
}

fn print(rows: &[(&str, Plan, Curves)]) {
    println!("{:<10}{:>12}{:>12}{:>12}  codecs", "", "arena", "iteration", "fallbacks");
    for (name, plan, curves) in rows {
        let mut times = curves.iterations.clone();
        times.sort_unstable();
        let used: BTreeSet<_> = plan.buffers.iter().filter_map(|b| b.compressed).collect();
        let codecs: Vec<_> = used.iter().map(|id| plan.codecs[id.index()].to_string()).collect();
        let (arena, time) = (curves.memory.arena.to_string(), times[times.len() / 2].to_string());
        let fallbacks = curves.memory.fallbacks;
        println!("{name:<10}{arena:>12}{time:>12}{fallbacks:>12}  {}", codecs.join(", "));
    }
    println!("\nmean loss of each epoch, and share of the test's images that are told right");
    for epoch in 0..COURSE.epochs {
        print!("epoch {:>2}", epoch + 1);
        for (name, _, curves) in rows {
            let losses = &curves.losses[epoch * COURSE.batches..][..COURSE.batches];
            let mean = losses.iter().sum::<f32>() / losses.len() as f32;
            print!("  {name} {mean:.4} {:>5.1} %", 100.0 * curves.accuracies[epoch]);
        }
        println!();
    }
}

fn learn(
    network: &Network,
    trace: &Trace,
    plan: &Plan,
    course: Course,
) -> Result<Curves, Box<dyn Error>> {
    let options = HostOptions { seed: SEED, ..HostOptions::new(machine().link) };
    let mut device = HostDevice::new(network, trace, plan, &options)?;
    Ok(train(&mut device, network, &IMAGES, course, |_| {})?)
}

/// What COMET collects of each convolution, by the tensor that it reads, a few iterations on.
fn statistics(
    network: &Network,
    trace: &Trace,
    in_core: &Plan,
) -> Result<Vec<Option<LayerStatistics>>, Box<dyn Error>> {
    let options = HostOptions { seed: SEED, ..HostOptions::new(machine().link) };
    let mut device = HostDevice::new(network, trace, in_core, &options)?;
    train(&mut device, network, &IMAGES, WARMUP, |_| {})?;
    let mut statistics = vec![None; network.tensors().len()];
    look_inside(&mut device, network, &IMAGES, |id, in_core| {
        let op = network.op(id);
        let Step::ConvolutionWeights(_) = op.step else { return };
        let weights = &network.tensor(op.writes[0]).name;
        let momentum = weights.replace(".grad", ".momentum");
        let momentum = network.tensors().iter().position(|tensor| tensor.name == momentum);
        let momentum = momentum.map(schema::TensorId::from_index).and_then(|id| in_core.get(id));
        let (x, dy) = (in_core.get(op.reads[0]), in_core.get(op.reads[1]));
        let (Some(momentum), Some(x), Some(dy)) = (momentum, x, dy) else { return };
        let channels = op.writes.get(1).map_or(1, |bias| network.tensor(*bias).elements);
        statistics[op.reads[0].index()] = Some(LayerStatistics {
            momentum: momentum.iter().map(|m| f64::from(m.abs())).sum::<f64>()
                / momentum.len() as f64,
            loss_gradient: loss_weight(dy, dy.len() / (BATCH * channels)),
            batch: BATCH as u32,
            nonzero: x.iter().filter(|x| **x != 0.0).count() as f64 / x.len() as f64,
        });
    })?;
    for (index, layer) in statistics.iter().enumerate() {
        if let Some(layer) = layer {
            let name = &network.tensors()[index].name;
            println!("COMET's bound for {name}: {:.2e}", layer.error_bound().unwrap_or(0.0));
        }
    }
    Ok(statistics)
}

fn planned(
    method: &dyn Method,
    trace: &Trace,
    machine: &Machine,
    budget: Bytes,
    models: &CodecModels,
) -> Result<Plan, planner::PlanError> {
    let mut problem = Problem::new(trace, machine, budget);
    if !models.models.is_empty() {
        let options = CodecOptions { lossy: true, ..CodecOptions::default() };
        problem = problem.with_codecs(models, options);
    }
    plan(method, &problem, &NoWatch)
}

fn no_codecs() -> CodecModels {
    CodecModels { device: "host".into(), source: "none".into(), models: Vec::new() }
}

fn models(models: Vec<(&str, Option<f64>, Fidelity, SizeModel)>) -> CodecModels {
    let point = |bytes: u64| TimePoint { bytes: Bytes(bytes), time: Nanos(2_000 + bytes / 2) };
    let points = vec![point(0), point(1 << 20)];
    let times = TimeModel {
        bands: vec![RatioBand { up_to_permille: 1000, points }],
        spread_permille: None,
        basis: ModelBasis::Modelled,
        source: "assumed: 2 GB/s".into(),
    };
    let model = |(codec, parameter, fidelity, size): (&str, _, _, _)| CodecModel {
        codec: codec.into(),
        parameter,
        fidelity,
        size,
        compress: times.clone(),
        decompress: times.clone(),
    };
    let models = models.into_iter().map(model).collect();
    CodecModels { device: "host".into(), source: "assumed".into(), models }
}

fn zvc() -> CodecModels {
    let size =
        SizeModel::Sparsity { overhead_permille: 33, dense_permille: 1000, margin_permille: 100 };
    models(vec![("zvc", None, Fidelity::Lossless, size)])
}

fn zfp() -> CodecModels {
    let size = SizeModel::Rate { permille: 250, margin_permille: 0 };
    models(vec![("zfp", Some(8.0), Fidelity::FixedRate, size)])
}

fn sz() -> CodecModels {
    let size = SizeModel::Rate { permille: 400, margin_permille: 250 };
    let model = |bound| ("sz", Some(bound), Fidelity::ErrorBounded, size);
    models(SZ_BOUNDS.map(model).into())
}

fn machine() -> Machine {
    let bandwidth = Bandwidth::constant(BytesPerSec(300_000_000));
    Machine {
        name: "laptop".into(),
        description: "the host, and a slow link".into(),
        device: schema::Device {
            name: "host".into(),
            memory: Bytes(1 << 30),
            reserved: Bytes(0),
            compute: Compute {
                f32_flops: 10_000_000_000,
                f16_flops: 10_000_000_000,
                memory_bandwidth: BytesPerSec(10_000_000_000),
                codec_lane: false,
                beside_codec: 1.0,
            },
        },
        host: Host { memory: Bytes(1 << 32) },
        link: Link {
            name: "300 MB/s".into(),
            d2h: bandwidth.clone(),
            h2d: bandwidth,
            latency: Nanos(10_000),
            both_directions: 0.8,
        },
        sources: BTreeMap::new(),
    }
}
