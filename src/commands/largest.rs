//! `tidegate largest`

use experiments::Conditions;
use experiments::compare::method;
use experiments::largest::{Largest, Question, largest_batch, smallest_budget};
use experiments::recipes::{modelled, recipe};
use experiments::sources::{read_machine, with_links};
use planner::{Limits, methods};
use reports::Status;
use scenarios::Budget;
use schema::{Framework, Machine, Trace};

use crate::codec_args::CodecArgs;
use crate::exit::{Exit, Result, ended, usage};
use crate::inputs::{InPlace, read_trace};
use crate::networks::{NetworkArgs, is_network, must_be_network};
use crate::output::Format;
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

pub fn run(args: &Args) -> Result {
    let method = method(&args.method)?;
    let network = args.options.ranks.net_link.as_deref();
    let machine = read_machine(&with_links(&args.machine, None, network))?;
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
        must_be_network(&args.network)?;
        if args.options.batch.is_some() {
            return Err(usage("the largest batch is what is searched for: leave --batch away"));
        }
        let framework = args.options.conventions.unwrap_or_default();
        if framework == Framework::Tidegate {
            return Err(usage("--conventions: the search is for PyTorch's ops, or caffe's: leave it away"));
        }
        let trace = |batch| {
            let recipe = recipe(&args.network, framework, args.options.options(batch))?;
            modelled(&recipe, &machine, args.options.efficiencies.as_deref())
        };
        let budget = |peak| Budget::resolve(args.budget, &machine, peak);
        largest_batch(&question, (&trace, false), &budget, &monitor)?
    };
    drop(monitor);
    let asked = [args.method.as_str(), &args.network, &args.machine];
    let largest = Largest::new(answer, &machine, args.device, asked);
    args.format.show(&largest, || largest.to_string())?;
    match largest.comparison.methods[0].status {
        Status::Ok => Ok(()),
        _ => Err(ended(Exit::Infeasible, largest.no_plan())),
    }
}

fn trace(args: &Args, machine: &Machine) -> Result<Trace> {
    if !is_network(&args.network) {
        let trace = read_trace(&args.network, InPlace::AsRecorded, Some(machine))?;
        args.options.none_for(&args.network)?;
        return Ok(trace);
    }
    if args.options.batch.is_none() {
        return Err(usage("the smallest device is that for one batch: state it with --batch"));
    }
    args.options.modelled_trace(&args.network, machine)
}
