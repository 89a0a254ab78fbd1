//! `tidegate check`

use std::path::PathBuf;

use experiments::check::{self, Check};
use experiments::compare::methods_of;
use experiments::page::PendingPage;
use experiments::recipes::computing;
use experiments::{CodecInputs, Conditions};
use planner::{Limits, Monitor};
use profiler::machine::measure_machine;
use profiler::profile::Measuring;
use runtime::network::Network;
use scenarios::Budget;

use crate::device_args::DeviceArgs;
use crate::exit::{Result, unless};
use crate::output::{Format, print, print_json};
use crate::progress::Bar;
use crate::signals::interrupted;
use crate::subject::{Subject, standard};

/// Measure networks, plan them with several methods, run every plan, and show how well their times
/// were predicted
#[derive(clap::Args)]
pub struct Args {
    /// Networks with their options, such as resnet18:batch=8:image=64 [default: a set that takes a
    /// few minutes]
    #[arg(value_name = "NETWORK[:OPTION=VALUE]...")]
    networks: Vec<Subject>,

    #[command(flatten)]
    device: DeviceArgs,

    /// Shares of the in-core peak, or amounts, under which each method plans
    #[arg(
        long,
        short,
        value_delimiter = ',',
        value_name = "BUDGETS",
        default_value = "85%,75%,65%"
    )]
    budgets: Vec<Budget>,

    /// As if the networks did not fit: ops are timed under plans within this budget, and it is
    /// what each method plans for. A CUDA device that has no room for a network does so by itself
    #[arg(long, value_name = "BUDGET", conflicts_with = "budgets")]
    within: Option<Budget>,

    /// The methods
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "METHODS",
        default_value = "vdnn-all,swap-opt,pooch,selective,dtr,tide"
    )]
    methods: Vec<String>,

    /// Evaluations that one search may make
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().evaluations)]
    evaluations: u64,

    /// Iterations of each plan that count; the median by time is taken
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,

    /// Launch each iteration as one CUDA graph, those that ops are timed in and those of plans
    #[arg(long)]
    graph: bool,

    /// A folder for a page with the figures; it is made where there is none
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,

    /// How to print what came of it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let how = Measuring { graph: args.graph, budget: args.within, ..args.device.measuring()? };
    how.target.check_graph(how.graph, how.warmup)?;
    let methods = methods_of(&args.methods, args.device.sampled.is_empty())?;
    let networks = if args.networks.is_empty() { standard() } else { args.networks.clone() };
    let built = |subject: &Subject| {
        let network = computing(&subject.recipe()?)?;
        how.target.room_to_measure(&network, None)?;
        Ok(network)
    };
    let built = networks.iter().map(built).collect::<Result<Vec<Network>>>()?;
    let page = args.output.as_deref().map(PendingPage::create).transpose()?;
    let bar = Bar::new("check");
    let machine = measure_machine(&how, &bar)?;
    let sampled = args.device.sample(&how.target, &machine.tensors, &bar)?;
    let codecs = sampled.map(|(_, models)| CodecInputs::measured(&models));
    let conditions = Conditions::new(Limits { evaluations: args.evaluations }, codecs);
    // Text is printed as it comes.
    let told = |text: String| if args.format == Format::Text { print(text) } else { Ok(()) };
    told(format!("{}\n", machine.machine.description))?;
    let plans = (methods.as_slice(), args.budgets.as_slice());
    let mut check = Check::new(&how, &machine, plans, conditions, args.iterations as usize);
    for (subject, network) in networks.iter().zip(&built) {
        let subject = check::Subject {
            name: subject.to_string(),
            network,
            source: &subject.name,
            recipe: subject.recipe()?,
        };
        bar.step(&subject.name);
        match check.network(&subject, &bar) {
            Err(error) if error.is_interruption() => break,
            text => told(text?)?,
        }
    }
    told(format!("\n{}", check.agreement()))?;
    if let Some(page) = page {
        told(check.write(page)?)?;
    }
    let (result, failed) = check.finish();
    if args.format == Format::Json {
        print_json(&result)?;
    }
    unless(interrupted(), "interrupted; what is finished is shown")?;
    Ok(failed?)
}
