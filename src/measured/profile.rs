//! A network and the machine that it runs on, measured.

use codecs::CodecId;
use planner::{Progress, Watch};
use profiler::measure::{
    Copies, LinkCurve, cuda_machine, host_machine, measure_host, measure_link,
    memory_of_this_machine,
};
use results::CodecSample;
use runtime::cuda::CudaProbe;
use runtime::device::host::LinkProbe;
use runtime::network::{Measured, Network};
use runtime::profile::Profiler;
use schema::{Bytes, CodecModels, Machine, Origin, Provenance, Trace};

use crate::codec_samples::Sampling;
use crate::commands::fit::codecs::fit_models;
use crate::device_args::{DeviceArgs, DeviceKind};
use crate::exit::{Exit, OrExit, Result, WithExit, usage};
use crate::measured::device::{in_core_plan, on_device};
use crate::measured::op_times::OpTimes;
use crate::measured::runs::Runs;
use crate::progress::{Bar, interrupted};
use crate::training::Named;

/// Sizes of the copies that are timed.
const COPIES: [Bytes; 6] = [
    Bytes(4 << 10),
    Bytes(32 << 10),
    Bytes(256 << 10),
    Bytes(1 << 20),
    Bytes(4 << 20),
    Bytes(16 << 20),
];

/// Sizes of the tensors that codecs are sampled on: those of networks that a processor trains.
const TENSORS: [Bytes; 6] = [
    Bytes(256 << 10),
    Bytes(512 << 10),
    Bytes(1 << 20),
    Bytes(2 << 20),
    Bytes(4 << 20),
    Bytes(8 << 20),
];

/// Shares of zeros of these tensors, and runs of which the fastest counts.
const SHARES: u32 = 11;
const RUNS: u32 = 5;

/// A machine that was measured.
pub struct MeasuredMachine {
    /// The machine.
    pub machine: Machine,
    /// The link's curve.
    pub link: LinkCurve,
    /// Samples of codecs and models fitted to them, where any were asked for.
    pub codecs: Option<(Vec<CodecSample>, CodecModels)>,
}

/// Measures the machine.
pub fn measure_machine(args: &DeviceArgs) -> Result<MeasuredMachine> {
    let bar = Bar::new("profile");
    let largest = COPIES[COPIES.len() - 1];
    let memory = memory_of_this_machine();
    let (machine, link) = match args.device {
        DeviceKind::Host => {
            let mut probe = LinkProbe::new(args.link(), largest);
            let curve = link_of(&mut probe, &args.link().name, args, &bar)?;
            let machine = host_machine(curve.link.clone(), measure_host(), memory, SOURCE);
            (machine, curve)
        }
        DeviceKind::Cuda => {
            let mut probe = CudaProbe::open(0, largest).or_exit(Exit::Failed)?;
            let facts = probe.facts().or_exit(Exit::Failed)?;
            let curve = link_of(&mut probe, "as measured", args, &bar)?;
            (cuda_machine(curve.link.clone(), &facts, memory, SOURCE), curve)
        }
    };
    let codecs = match (args.sampled.as_slice(), args.device) {
        ([], _) => None,
        (_, DeviceKind::Cuda) => {
            return Err(usage("--sample is for the host device: CUDA's codecs are not timed yet"));
        }
        (codecs, DeviceKind::Host) => Some(sample(codecs, &bar)?),
    };
    Ok(MeasuredMachine { machine, link, codecs })
}

const SOURCE: &str = "tidegate profile";

fn link_of<C: Copies>(copies: &mut C, name: &str, args: &DeviceArgs, bar: &Bar) -> Result<LinkCurve>
where
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let of = 2 * COPIES.len() as u64 + 1;
    let mut done = 0;
    let curve = measure_link(copies, name, &COPIES, args.repeats.min(5), || {
        done += 1;
        bar.go_on(Progress { phase: "link", done, of });
    });
    stop_if_interrupted()?;
    curve.or_exit(Exit::Failed)
}

/// Measures a network's ops on a machine that was measured.
pub fn measure_network(
    named: &Named,
    args: &DeviceArgs,
    machine: &Machine,
) -> Result<(Network, Trace, OpTimes)> {
    let network = named.network()?;
    let source = format!("{SOURCE} {}", named.name);
    let (mut trace, times) = measure_ops(&network, source, args, machine)?;
    trace.provenance.settings = named.settings();
    Ok((network, trace, times))
}

/// The same for a network that is at hand. `source` is the command.
pub fn measure_ops(
    network: &Network,
    source: String,
    args: &DeviceArgs,
    machine: &Machine,
) -> Result<(Trace, OpTimes)> {
    let DeviceArgs { warmup, repeats, seed, .. } = *args;
    // What is zero shows once it trains.
    let measured = match args.device {
        DeviceKind::Host => {
            let first = Profiler { warmup: 0, repeats: warmup.max(1), seed };
            first.measure(network, || {}).or_exit(Exit::Failed)?.measured
        }
        DeviceKind::Cuda => Measured { durations: Vec::new(), sparsity: Vec::new() },
    };
    stop_if_interrupted()?;
    let mut trace = network.trace(&measured, provenance(source, args, machine));
    // Times are those of the device itself, from which predictions are made.
    let plan = in_core_plan(&trace, machine)?;
    let runs = Runs { warmup, iterations: repeats, seed, graph: false };
    let on = (network, &trace, machine);
    let ran = on_device(args.device, on, &plan, runs, &[])?;
    let mut times = OpTimes::of(trace.ops.len(), &ran.timelines);
    times.computed_by = ran.computed_by;
    let note = times.computed_by.as_ref().map(|whose| format!("Computed by {whose}."));
    trace.provenance.notes.extend(note);
    for (op, duration) in trace.ops.iter_mut().zip(&times.durations) {
        op.duration = *duration;
    }
    Ok((trace, times))
}

fn provenance(source: String, args: &DeviceArgs, machine: &Machine) -> Provenance {
    let DeviceArgs { warmup, repeats, seed, .. } = *args;
    let mut notes = vec![format!(
        "Durations are medians over {repeats} iterations after {warmup} of warm-up, from the start \
         of an op to the start of the next, on one random batch (seed {seed}), everything kept."
    )];
    if args.device == DeviceKind::Host {
        let after = warmup.max(1);
        notes.push(format!("Sparsity is that of iteration {after}; zeros are counted."));
    }
    Provenance {
        origin: Origin::Measured,
        device: machine.device.name.clone(),
        framework: Some("tidegate runtime".into()),
        source,
        date: Some(chrono::Utc::now().format("%Y-%m-%d").to_string()),
        notes,
        settings: Default::default(),
    }
}

fn sample(codecs: &[CodecId], bar: &Bar) -> Result<(Vec<CodecSample>, CodecModels)> {
    let sampling = Sampling { codecs, sizes: &TENSORS, shares: SHARES, runs: RUNS, threads: 1 };
    sample_and_fit(&sampling, bar)
}

/// Takes samples of codecs, and fits models to them.
pub fn sample_and_fit(sampling: &Sampling, bar: &Bar) -> Result<(Vec<CodecSample>, CodecModels)> {
    let samples = sampling.take(bar)?;
    let (models, _) = fit_models(&samples, std::path::Path::new("the samples just taken"), None)?;
    Ok((samples, models))
}

fn stop_if_interrupted() -> Result {
    match interrupted() {
        true => Err(WithExit {
            exit: Exit::Interrupted,
            error: anyhow::anyhow!("interrupted: nothing was written"),
        }),
        false => Ok(()),
    }
}
