//! `tidegate profile`

use std::path::{Path, PathBuf};

use experiments::fits::sample_and_fit;
use experiments::page::make_folder;
use experiments::zeros::{Course, means, zeros_by_epoch};
use profiler::codec_samples::Sampling;
use profiler::machine::{MeasuredMachine, measure_machine};
use profiler::measure::{BESIDE, beside_name};
use profiler::op_times::OpTimes;
use profiler::profile::{Measuring, SOURCE, measure_ops};
use reports::columns;
use results::TensorZeros;
use runtime::profile::Needs;
use scenarios::Budget;
use schema::{Bytes, Direction, Document, PendingFile, Trace};

use crate::device_args::{DeviceArgs, DeviceKind};
use crate::exit::{Exit, OrExit, Result};
use crate::networks::NetworkArgs;
use crate::output::print;
use crate::progress::Bar;
use crate::training::Named;

/// Measure a network and the machine that it runs on: op times, link, codecs
#[derive(clap::Args)]
pub struct Args {
    /// A network (see `list networks`) or its file (.toml or .onnx), with --batch
    #[arg(value_name = "NETWORK")]
    name: String,

    #[command(flatten)]
    network: NetworkArgs,

    #[command(flatten)]
    device: DeviceArgs,

    /// Time ops in iterations that are each launched as one CUDA graph, as `run --graph` and `check
    /// --graph` launch plans: without, an op takes at least as long as it takes to launch it
    #[arg(long)]
    graph: bool,

    /// Device memory, an amount or a share of the in-core peak, within which a plan keeps the iteration
    /// while ops are timed [default: all that it needs; on CUDA most of the device's where that is not
    /// enough]
    #[arg(long, short, value_name = "BUDGET")]
    budget: Option<Budget>,

    /// Also train for so many epochs on the host, and count the zeros of each tensor after each
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    epochs: u32,

    /// Iterations of such an epoch
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    epoch_iterations: u32,

    /// The folder to write trace.json and machine.json into, with --sample also samples.parquet and
    /// codec-models.json, and with --epochs zeros.parquet; it is made where there is none
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
}

/// Measures, writes and shows.
pub fn run(args: &Args) -> Result {
    let named = Named { name: &args.name, options: &args.network };
    let network = named.network()?;
    let how = Measuring { graph: args.graph, budget: args.budget, ..args.device.measuring()? };
    how.target.check_graph(how.graph, how.warmup)?;
    let budget = args.budget.map(|budget| budget.of(Bytes(Needs::of(&network).peak)));
    how.target.room_to_measure(&network, budget)?;
    make_folder(&args.output)?;
    let file = |name: &str| PendingFile::create(&args.output.join(name));
    let (trace, machine) = (file("trace.json")?, file("machine.json")?);
    let bar = Bar::new("profile");
    let machine_measured = measure_machine(&how, &bar)?;
    let codecs = match args.device.sampled.as_slice() {
        [] => None,
        codecs => {
            let sampling = Sampling::quick(codecs, &machine_measured.tensors);
            Some(sample_and_fit(&sampling, &how.target, &bar)?)
        }
    };
    let source = format!("{SOURCE} {}", args.name);
    let (mut measured, times) =
        measure_ops(&network, source, &how, &machine_measured.machine, &bar)?;
    measured.provenance.recipe = Some(named.recipe()?);
    let course =
        Course { epochs: args.epochs, iterations: args.epoch_iterations, seed: args.device.seed };
    let zeros = zeros_by_epoch(&network, course, &bar)?;
    drop(bar);
    if !zeros.is_empty() {
        results::write_parquet(&zeros, file("zeros.parquet")?).or_exit(Exit::Failed)?;
    }
    if let Some((samples, models)) = &codecs {
        results::write_parquet(samples, file("samples.parquet")?).or_exit(Exit::Failed)?;
        file("codec-models.json")?.finish(models.to_json().as_bytes())?;
    }
    machine.finish(machine_measured.machine.to_json().as_bytes())?;
    trace.finish(measured.to_json().as_bytes())?;
    print(summary(&measured, &times, &machine_measured, &args.device))?;
    print(zeros_table(&zeros))?;
    print(next_steps(&args.output, codecs.is_some()))
}

fn summary(trace: &Trace, times: &OpTimes, machine: &MeasuredMachine, args: &DeviceArgs) -> String {
    let iterations = &times.iterations;
    let [fastest, slowest] =
        [iterations.first(), iterations.last()].map(|t| t.copied().unwrap_or_default());
    let within = times.within.map(|budget| format!(" under a plan within {budget}"));
    let within = within.unwrap_or_default();
    let mut text = format!(
        "{}: {} ops, {} tensors, peak {}\nin core  {} by the median of each op, iterations took \
         {fastest} to {slowest}{within}\nscatter  half of the ops by less than {:.1} % of their time\n",
        trace.network,
        trace.ops.len(),
        trace.tensors.len(),
        simulator::in_core(trace).peak,
        trace.total_time(),
        100.0 * times.scatter
    );
    if let Some(sparsity) = mean_sparsity(trace) {
        text.push_str(&format!("zeros    {:.1} % of all activations\n", 100.0 * sparsity));
    }
    if let Some(whose) = &times.computed_by {
        text.push_str(&format!("computed by {whose}\n"));
    }
    text.push_str(&format!("machine  {}\n\n", machine.machine.description));
    text.push_str(&columns(&copies(machine, args)));
    let link = &machine.machine.link;
    text.push_str(&format!(
        "latency {}; both directions at once: each at {:.0} % of its speed; compute beside a copy: at \
         {:.0} %\n",
        link.latency,
        100.0 * link.both_directions,
        100.0 * link.beside_copy
    ));
    text.push('\n');
    text.push_str(&columns(&contention(machine)));
    text
}

/// The copies that were timed: beside what the host device was asked for, or copies that are not of
/// pinned memory.
fn copies(machine: &MeasuredMachine, args: &DeviceArgs) -> Vec<Vec<String>> {
    let last = match args.on.kind {
        DeviceKind::Host => "as asked for",
        DeviceKind::Cuda => "pageable",
    };
    let mut rows = vec![["copy", "bytes", "time", "both at once", last].map(String::from).to_vec()];
    rows.extend(machine.link.timed.iter().map(|timed| {
        let direction = match timed.direction {
            Direction::D2h => "out",
            Direction::H2d => "in",
        };
        let last = match args.on.kind {
            DeviceKind::Host => Some(args.link().copy_time(timed.direction, timed.bytes)),
            DeviceKind::Cuda => timed.pageable,
        };
        let [alone, both] = [timed.measured, timed.both].map(|time| time.to_string());
        let last = last.map_or("-".into(), |time| time.to_string());
        vec![direction.into(), timed.bytes.to_string(), alone, both, last]
    }));
    rows
}

/// How much lanes slow each other.
fn contention(machine: &MeasuredMachine) -> Vec<Vec<String>> {
    let mut head = vec!["speed".to_string(), "alone".to_string()];
    head.extend(BESIDE.iter().map(|others| format!("beside {}", beside_name(others))));
    let mut rows = vec![head];
    rows.extend(machine.contention.loads.iter().map(|slowed| {
        let share = |share: &Option<f64>| match share {
            Some(share) => format!("{:.0} %", 100.0 * share),
            None => "-".into(),
        };
        let alone = [slowed.load.to_string(), slowed.alone.to_string()];
        alone.into_iter().chain(slowed.shares.iter().map(share)).collect()
    }));
    rows
}

/// Shares of zeros by epoch, where any were counted.
fn zeros_table(zeros: &[TensorZeros]) -> String {
    let means = means(zeros);
    if means.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["after epoch", "zeros, of all that the forward pass makes"].map(String::from).to_vec(),
    ];
    rows.extend(
        means
            .iter()
            .map(|(epoch, share)| vec![epoch.to_string(), format!("{:.1} %", 100.0 * share)]),
    );
    format!("\n{}", columns(&rows))
}

/// Share of zeros over all activations of which it is known, by bytes.
fn mean_sparsity(trace: &Trace) -> Option<f64> {
    let activations = trace.tensors.iter().filter(|t| t.role == schema::Role::Activation);
    let known = activations.filter_map(|t| Some((t.bytes.0 as f64, t.sparsity?)));
    let (bytes, zeros) =
        known.fold((0.0, 0.0), |(b, z), (bytes, share)| (b + bytes, z + bytes * share));
    (bytes > 0.0).then(|| zeros / bytes)
}

/// What the files are for.
fn next_steps(folder: &Path, codecs: bool) -> String {
    let folder = folder.display();
    let codecs = match codecs {
        true => format!(" --codec-models {folder}/codec-models.json --codecs all"),
        false => String::new(),
    };
    format!(
        "\ntidegate plan {folder}/trace.json -m {folder}/machine.json -b 60%{codecs} -o plan.json\n\
         tidegate run plan.json --trace {folder}/trace.json -m {folder}/machine.json\n"
    )
}
