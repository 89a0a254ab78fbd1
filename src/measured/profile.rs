//! A network and the machine that it runs on, measured.

use codecs::CodecId;
use planner::{Progress, Watch};
use profiler::measure::{
    LinkCurve, host_machine, measure_host, measure_link, memory_of_this_machine,
};
use results::CodecSample;
use runtime::device::host::LinkProbe;
use runtime::network::Network;
use runtime::profile::Profiler;
use schema::{Bytes, CodecModels, Machine, Trace};

use crate::codec_samples::Sampling;
use crate::commands::fit::codecs::fit_models;
use crate::device_args::DeviceArgs;
use crate::exit::{Exit, OrExit, Result, WithExit};
use crate::measured::host::{in_core_plan, on_host};
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
    let steps = 2 * COPIES.len() as u64 + 1;
    let mut done = 0;
    let mut copies = LinkProbe::new(args.link(), COPIES[COPIES.len() - 1]);
    let name = args.link().name;
    let link = measure_link(&mut copies, &name, &COPIES, args.repeats.min(5), || {
        done += 1;
        bar.go_on(Progress { phase: "link", done, of: steps });
    })
    .or_exit(Exit::Failed)?;
    stop_if_interrupted()?;
    let machine = host_machine(
        link.link.clone(),
        measure_host(),
        memory_of_this_machine(),
        "tidegate profile",
    );
    let codecs = match args.sampled.as_slice() {
        [] => None,
        codecs => Some(sample(codecs, &bar)?),
    };
    Ok(MeasuredMachine { machine, link, codecs })
}

/// Measures a network's ops on a machine that was measured.
pub fn measure_network(
    named: &Named,
    args: &DeviceArgs,
    machine: &Machine,
) -> Result<(Network, Trace, OpTimes)> {
    let network = named.network()?;
    let DeviceArgs { warmup, repeats, seed, .. } = *args;
    // What is zero shows once it trains. Times are those of the device itself, from which predictions
    // are made.
    let first = Profiler { warmup: 0, repeats: warmup.max(1), seed };
    let first = first.measure(&network, || {}).or_exit(Exit::Failed)?;
    stop_if_interrupted()?;
    let date = chrono::Utc::now().format("%Y-%m-%d").to_string();
    let mut trace = first.trace(&network, format!("tidegate profile {}", named.name), Some(date));
    let plan = in_core_plan(&trace, machine)?;
    let runs = Runs { warmup, iterations: repeats, seed };
    let ran = on_host(&network, &trace, &plan, machine, runs, &[])?;
    let times = OpTimes::of(trace.ops.len(), &ran.timelines);
    for (op, duration) in trace.ops.iter_mut().zip(&times.durations) {
        op.duration = *duration;
    }
    trace.provenance.settings = named.settings();
    trace.provenance.notes[0] = format!(
        "Durations are medians over {repeats} iterations after {warmup} of warm-up, from the start of \
         an op to the start of the next, on one random batch (seed {seed}), everything kept."
    );
    Ok((network, trace, times))
}

fn sample(codecs: &[CodecId], bar: &Bar) -> Result<(Vec<CodecSample>, CodecModels)> {
    let sampling = Sampling { codecs, sizes: &TENSORS, shares: SHARES, runs: RUNS, threads: 1 };
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
