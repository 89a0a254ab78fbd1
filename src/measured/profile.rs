//! A network and the machine that it runs on, measured.

use planner::{Monitor, Progress};
use profiler::measure::{
    Contention, Copies, LinkCurve, Loads, cuda_machine, host_machine, measure_contention,
    measure_host, measure_link, memory_of_this_machine,
};
use results::CodecSample;
use runtime::cuda::{CudaLoads, CudaProbe};
use runtime::device::Load;
use runtime::device::host::{HostLoads, LinkProbe};
use runtime::network::{Measured, Network};
use runtime::profile::zeros;
use scenarios::Budget;
use schema::{Bytes, CodecModels, Machine, Origin, Provenance, Trace};

use crate::codec_samples::Sampling;
use crate::codec_timers::{codec_timer, not_run};
use crate::commands::fit::codecs::fit_models;
use crate::device_args::{DeviceArgs, DeviceKind, OnDevice};
use crate::exit::{Exit, OrExit, Result, WithExit};
use crate::measured::device::{in_core_plan, on_device, zeros_on_cuda};
use crate::measured::op_times::OpTimes;
use crate::measured::runs::{Execution, Runs};
use crate::measured::within::{self, measure_within};
use crate::progress::Bar;
use crate::signals::interrupted;
use crate::training::Named;

/// Sizes of the copies that are timed over a link that is emulated.
const COPIES: [Bytes; 6] = [
    Bytes(4 << 10),
    Bytes(32 << 10),
    Bytes(256 << 10),
    Bytes(1 << 20),
    Bytes(4 << 20),
    Bytes(16 << 20),
];

/// The same for CUDA; a device with little memory has fewer.
const CUDA_COPIES: [Bytes; 10] = [
    Bytes(4 << 10),
    Bytes(16 << 10),
    Bytes(64 << 10),
    Bytes(256 << 10),
    Bytes(1 << 20),
    Bytes(4 << 20),
    Bytes(16 << 20),
    Bytes(64 << 20),
    Bytes(256 << 20),
    Bytes(1 << 30),
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

/// No tensor that is sampled is smaller.
const LEAST_TENSOR: Bytes = Bytes(4 << 10);

/// The same for a GPU: the largest, beyond which times are lines over sizes and the processor's bytes, which
/// kernels are held to, take long to make; and how many sizes there are, each a quarter of the next.
const CUDA_TENSOR: Bytes = Bytes(64 << 20);
const CUDA_SIZES: usize = 5;

/// The same for CUDA: what a codec makes of a tensor and what it works in must fit, too.
fn cuda_tensors(free: Bytes) -> Vec<Bytes> {
    let quarter = |size: &Bytes| Some(Bytes(size.0 / 4)).filter(|size| size.0 >= LEAST_TENSOR.0);
    let all = std::iter::successors(Some(CUDA_TENSOR), quarter);
    let mut sizes: Vec<_> = all.filter(|size| size.0 <= free.0 / 16).take(CUDA_SIZES).collect();
    sizes.reverse();
    sizes
}

/// Shares of zeros of these tensors, and runs of which the fastest counts.
const SHARES: u32 = 11;
const RUNS: u32 = 5;

/// A machine that was measured.
pub struct MeasuredMachine {
    /// The machine.
    pub machine: Machine,
    /// The link's curve.
    pub link: LinkCurve,
    /// How much lanes slow each other.
    pub contention: Contention,
    /// Samples of codecs and models fitted to them, where any were asked for.
    pub codecs: Option<(Vec<CodecSample>, CodecModels)>,
}

/// Measures the machine.
pub fn measure_machine(args: &DeviceArgs) -> Result<MeasuredMachine> {
    args.on.check()?;
    let bar = Bar::new("profile");
    let memory = memory_of_this_machine();
    let (machine, link, contention, tensors) = match args.on.kind {
        DeviceKind::Host => {
            let mut probe = LinkProbe::new(args.link(), COPIES[COPIES.len() - 1]);
            let link = link_of(&mut probe, &args.link().name, &COPIES, args, &bar)?;
            let mut loads = HostLoads::new(args.link()).or_exit(Exit::Failed)?;
            let contention = contention_of(&mut loads, args, &bar)?;
            let machine =
                host_machine(link.link.clone(), measure_host(), &contention, memory, SOURCE);
            (machine, link, contention, TENSORS.to_vec())
        }
        DeviceKind::Cuda => {
            let left = || runtime::memory::left().unwrap_or(Bytes(memory.0 / 2));
            let most = CUDA_COPIES[CUDA_COPIES.len() - 1].min(Bytes(left().0 / 8));
            let mut probe = CudaProbe::open(0, most).or_exit(Exit::Failed)?;
            let facts = probe.facts().or_exit(Exit::Failed)?;
            let fits = CUDA_COPIES.iter().filter(|size| **size <= probe.largest());
            let sizes: Vec<Bytes> = fits.copied().collect();
            let link = link_of(&mut probe, "as measured", &sizes, args, &bar)?;
            drop(probe);
            let mut loads = CudaLoads::open(&args.on.cuda_options()).map_err(not_run)?;
            let contention = contention_of(&mut loads, args, &bar)?;
            drop(loads);
            let machine = cuda_machine(link.link.clone(), &facts, &contention, left(), SOURCE);
            (machine, link, contention, cuda_tensors(facts.free))
        }
    };
    let codecs = match args.sampled.as_slice() {
        [] => None,
        codecs => {
            let sampling =
                Sampling { codecs, sizes: &tensors, shares: SHARES, runs: RUNS, seed: 0 };
            Some(sample_and_fit(&sampling, args.on, &bar)?)
        }
    };
    Ok(MeasuredMachine { machine, link, contention, codecs })
}

const SOURCE: &str = "tidegate profile";

fn contention_of<L: Loads>(loads: &mut L, args: &DeviceArgs, bar: &Bar) -> Result<Contention>
where
    L::Error: std::error::Error + Send + Sync + 'static,
{
    let mut done = 0;
    let contention = measure_contention(loads, args.repeats.min(5), || {
        done += 1;
        bar.proceed(Progress { phase: "contention", done, of: Load::ALL.len() as u64 });
    });
    stop_if_interrupted()?;
    contention.or_exit(Exit::Failed)
}

fn link_of<C: Copies>(
    copies: &mut C,
    name: &str,
    sizes: &[Bytes],
    args: &DeviceArgs,
    bar: &Bar,
) -> Result<LinkCurve>
where
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let of = 2 * sizes.len() as u64;
    let mut done = 0;
    let curve = measure_link(copies, name, sizes, args.repeats.min(5), || {
        done += 1;
        bar.proceed(Progress { phase: "link", done, of });
    });
    stop_if_interrupted()?;
    curve.or_exit(Exit::Failed)
}

/// How a network's ops are measured.
#[derive(Clone, Copy)]
pub struct Measuring<'a> {
    /// On what, and how often.
    pub args: &'a DeviceArgs,
    /// Whether iterations are launched as graphs.
    pub graph: bool,
    /// The device memory of the plan that runs meanwhile; with none, everything is kept where there is
    /// room for it.
    pub budget: Option<Budget>,
}

/// Measures a network's ops on a machine that was measured.
pub fn measure_network(
    (named, network): (&Named, &Network),
    how: Measuring,
    machine: &Machine,
) -> Result<(Trace, OpTimes)> {
    let source = format!("{SOURCE} {}", named.name);
    let (mut trace, times) = measure_ops(network, source, how, machine)?;
    trace.provenance.recipe = Some(named.recipe()?);
    Ok((trace, times))
}

/// The same for a network that is at hand. `source` is the command.
pub fn measure_ops(
    network: &Network,
    source: String,
    how: Measuring,
    machine: &Machine,
) -> Result<(Trace, OpTimes)> {
    let Measuring { args, graph, budget } = how;
    let DeviceArgs { warmup, repeats, seed, .. } = *args;
    let unknown = Measured { durations: Vec::new(), sparsity: Vec::new() };
    let mut trace = network.trace(&unknown, provenance(source, args, machine));
    let runs = Runs { warmup, iterations: repeats, seed, graph, fingerprint: false };
    let budget = within::budget(budget, args.on, &trace, machine);
    let (mut times, execution) = match budget {
        Some(budget) => measure_within(budget, (network, &mut trace), (args.on, machine), runs)?,
        None => measure_in_core((network, &mut trace), (args.on, machine), runs)?,
    };
    (times.computed_by, times.within) = (execution.computed_by, budget);
    let note = times.computed_by.as_ref().map(|whose| format!("Computed by {whose}."));
    trace.provenance.notes.extend(note);
    if graph {
        trace.provenance.notes.push("Each iteration was launched as one CUDA graph.".into());
    }
    Ok((trace, times))
}

/// Times ops while everything is kept, and counts zeros; gives the trace both.
fn measure_in_core(
    (network, trace): (&Network, &mut Trace),
    (on, machine): (OnDevice, &Machine),
    runs: Runs,
) -> Result<(OpTimes, Execution)> {
    // Times are those of the device itself, from which predictions are made.
    let plan = in_core_plan(trace, machine)?;
    // What is zero shows once it trains.
    let iterations = runs.warmup.max(1);
    let zeros = match on.kind {
        DeviceKind::Host => zeros(network, iterations, runs.seed).or_exit(Exit::Failed)?,
        DeviceKind::Cuda => zeros_on_cuda(on, (network, trace), &plan, (iterations, runs.seed))?,
    };
    stop_if_interrupted()?;
    let execution = on_device(on, (network, trace, machine), &plan, runs, &[])?;
    let times = OpTimes::of(trace.ops.len(), &execution.timelines);
    for (op, duration) in trace.ops.iter_mut().zip(&times.durations) {
        op.duration = *duration;
    }
    for (tensor, zeros) in trace.tensors.iter_mut().zip(zeros) {
        tensor.sparsity = zeros;
    }
    trace.provenance.notes.extend([
        "Times are from the start of an op to the start of the next; everything was kept.".into(),
        format!("Sparsity is that of iteration {}; zeros are counted.", runs.warmup.max(1)),
    ]);
    Ok((times, execution))
}

fn provenance(source: String, args: &DeviceArgs, machine: &Machine) -> Provenance {
    let DeviceArgs { warmup, repeats, seed, .. } = *args;
    let notes = vec![format!(
        "Durations are medians over {repeats} iterations after {warmup} of warm-up, on one random batch (seed \
         {seed})."
    )];
    Provenance {
        framework: Some("tidegate runtime".into()),
        date: Some(chrono::Utc::now().format("%Y-%m-%d").to_string()),
        notes,
        ..Provenance::new(Origin::Measured, machine.device.name.clone(), source)
    }
}

/// Takes samples of codecs, and fits models to them.
pub fn sample_and_fit(
    sampling: &Sampling,
    on: OnDevice,
    bar: &Bar,
) -> Result<(Vec<CodecSample>, CodecModels)> {
    let mut timer = codec_timer(on, sampling.codecs, 1)?;
    let samples = sampling.take(timer.as_mut(), bar)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_are_sampled_fit_the_device() {
        let [mib, kib] = [|n: u64| Bytes(n << 20), |n: u64| Bytes(n << 10)];
        assert_eq!(cuda_tensors(mib(80_000)), [kib(256), mib(1), mib(4), mib(16), mib(64)]);
        assert_eq!(cuda_tensors(mib(8)), [kib(4), kib(16), kib(64), kib(256)]);
    }
}
