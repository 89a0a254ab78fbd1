//! `tidegate largest`

use experiments::compare::{comparison, method};
use experiments::sources::read_machine;
use experiments::study::{Budgeted, Question, largest_batch, smallest_budget};
use experiments::{CompressedForms, Conditions, published_figures};
use networks::NetworkOptions;
use planner::{Limits, Problem, methods};
use reports::Comparison;
use scenarios::Budget;
use schema::{Bytes, Machine, Trace};

use crate::codec_args::CodecArgs;
use crate::exit::{Exit, Result, ended, usage};
use crate::inputs::{InPlace, read_trace};
use crate::networks::{NetworkArgs, is_network, read_network};
use crate::output::{Format, print, print_json};
use crate::progress::Bar;

/// Find the largest batch that a method can plan, or the smallest device
#[derive(clap::Args)]
pub struct Args {
    /// A network (see `list networks`) or its file (.toml or .onnx); with --device also a trace
    #[arg(value_name = "NETWORK")]
    network: String,

    /// A machine (see `list machines`), or a file (.toml or .json)
    #[arg(long, short, value_name = "MACHINE")]
    machine: String,

    /// Find the least device memory for --batch instead
    #[arg(long, conflicts_with = "budget")]
    device: bool,

    /// Device memory that the plan may use: an amount, or a share of the in-core peak
    /// [default: the machine's memory less what is reserved]
    #[arg(long, short, value_name = "BUDGET")]
    budget: Option<Budget>,

    /// The method (see `list methods`)
    #[arg(long, value_name = "METHOD", default_value = methods::DEFAULT)]
    method: String,

    #[command(flatten)]
    options: NetworkArgs,

    /// Evaluations that one search may make
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().evaluations)]
    evaluations: u64,

    #[command(flatten)]
    codecs: CodecArgs,

    /// How to print what is found
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What was found, with the plan's figures.
#[derive(serde::Serialize)]
struct Largest {
    find: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<u32>,
    /// Memory of the smallest device: the plan's, and what the machine reserves.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_memory_bytes: Option<Bytes>,
    comparison: Comparison,
}

/// Searches and shows.
pub fn run(args: &Args) -> Result {
    let method = method(&args.method)?;
    let machine = read_machine(&args.machine)?;
    let limits = Limits { evaluations: args.evaluations };
    let conditions = Conditions::new(limits, args.codecs.read(&machine)?);
    let monitor = Bar::new(method.name());
    let question = Question {
        machine: &machine,
        decided_on: None,
        method: method.as_ref(),
        conditions: &conditions,
        probes: false,
        epoch: None,
    };
    let answer = if args.device {
        smallest_budget(&question, trace(args, &machine)?, &monitor)?
    } else {
        if !is_network(&args.network) {
            let message = "is no network, so that its batch is what it is";
            return Err(usage(format!("`{}` {message}: name a network", args.network)));
        }
        if args.options.batch.is_some() {
            return Err(usage("the largest batch is what is searched for: leave --batch away"));
        }
        if args.options.conventions.is_some() {
            return Err(usage("--conventions: the search is for PyTorch's ops: leave it away"));
        }
        let options = args.options.options(1)?;
        let network =
            |batch| read_network(&args.network, &NetworkOptions { batch, ..options.clone() });
        let budget = |peak| Budget::resolve(args.budget, &machine, peak);
        largest_batch(&question, &network, &budget, &monitor)?
    };
    drop(monitor);
    show(args, &machine, answer)
}

fn trace(args: &Args, machine: &Machine) -> Result<Trace> {
    if !is_network(&args.network) {
        args.options.none_for(&args.network)?;
        return read_trace(&args.network, InPlace::AsRecorded);
    }
    if args.options.batch.is_none() {
        return Err(usage("the smallest device is that for one batch: state it with --batch"));
    }
    args.options.modelled_trace(&args.network, machine)
}

fn show(args: &Args, machine: &Machine, answer: Budgeted) -> Result {
    let Budgeted { trace, in_core, budget, found } = answer;
    let fits = found.plan.is_ok();
    let bound = found.plan.as_ref().ok().and_then(|plan| plan.predicted.bound);
    let problem = Problem::new(&trace, machine, budget);
    let comparison = comparison(&problem, &in_core, bound, vec![found.row]);
    let find = if args.device { "smallest-budget" } else { "largest-batch" };
    let batch = trace.batch.filter(|_| fits);
    let device_memory_bytes = (args.device && fits).then(|| budget + machine.device.reserved);
    match args.format {
        Format::Json => print_json(&Largest {
            find,
            batch,
            device_memory_bytes,
            comparison: comparison.clone(),
        })?,
        Format::Text => {
            print(reports::table(&comparison, true))?;
            match (device_memory_bytes, batch) {
                (Some(memory), _) => print(format!(
                    "\nthe smallest device for {} with {}: {budget} for the plan, {memory} with \
                     what {} reserves\n",
                    trace.title(),
                    args.method,
                    machine.name
                ))?,
                (None, Some(batch)) => print(format!(
                    "\nthe largest batch of {} with {} within {budget}: {batch}\n",
                    trace.network, args.method
                ))?,
                (None, None) => {}
            }
            if let Ok(plan) = &found.plan {
                print(CompressedForms::of(plan, &trace).sentence())?;
            }
            let asked = (&args.method, &args.network, &args.machine);
            print(published_figures("largest", asked.0, asked.1, asked.2))?;
        }
    }
    if fits {
        return Ok(());
    }
    Err(ended(Exit::Infeasible, format!("{} fits no batch within {budget}", args.method)))
}
