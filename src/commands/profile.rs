//! `tidegate profile`

use std::path::PathBuf;

use experiments::page::make_folder;
use experiments::profile::{next_steps, summary, zeros_table};
use experiments::recipes::computing;
use experiments::tables::write_parquet;
use experiments::zeros::{Course, zeros_by_epoch};
use profiler::machine::measure_machine;
use profiler::profile::{Measuring, SOURCE, measure_ops};
use runtime::profile::Needs;
use scenarios::Budget;
use schema::{Bytes, Document, PendingFile};

use crate::device_args::DeviceArgs;
use crate::exit::{Exit, OrExit, Result};
use crate::networks::NetworkArgs;
use crate::output::print;
use crate::progress::Bar;

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

    /// Also train for so many epochs on the host, and look at each tensor's values after each
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

pub fn run(args: &Args) -> Result {
    let recipe = args.network.recipe_to_run(&args.name)?;
    let network = computing(&recipe)?;
    let how = Measuring { graph: args.graph, budget: args.budget, ..args.device.measuring()? };
    how.target.check_graph(how.graph, how.warmup)?;
    let budget = args.budget.map(|budget| budget.of(Bytes(Needs::of(&network).peak)));
    how.target.room_to_measure(&network, budget)?;
    make_folder(&args.output)?;
    let file = |name: &str| PendingFile::create(&args.output.join(name));
    let (trace, machine) = (file("trace.json")?, file("machine.json")?);
    let bar = Bar::new("profile");
    let machine_measured = measure_machine(&how, &bar)?;
    let codecs = args.device.sample(&how.target, &machine_measured.tensors, &bar)?;
    let (source, on) = (format!("{SOURCE} {}", args.name), &machine_measured.machine);
    let (mut measured, times) = measure_ops(&network, source, &how, on, &bar)?;
    let (iterations, seed) = (args.epoch_iterations, args.device.seed);
    let course = Course { epochs: args.epochs, iterations, seed };
    let zeros = zeros_by_epoch(&network, &recipe, course, &bar)?;
    measured.provenance.recipe = Some(recipe);
    drop(bar);
    if !zeros.is_empty() {
        write_parquet(&zeros, file("zeros.parquet")?).or_exit(Exit::Failed)?;
    }
    if let Some((samples, models)) = &codecs {
        write_parquet(samples, file("samples.parquet")?).or_exit(Exit::Failed)?;
        file("codec-models.json")?.finish(models.to_json().as_bytes())?;
    }
    machine.finish(machine_measured.machine.to_json().as_bytes())?;
    trace.finish(measured.to_json().as_bytes())?;
    print(summary(&measured, &times, &machine_measured, &how))?;
    print(zeros_table(&zeros))?;
    print(next_steps(&args.output, &measured, &machine_measured.machine, codecs.is_some()))
}
