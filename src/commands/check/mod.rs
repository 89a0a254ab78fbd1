//! `tidegate check`

mod agreement;
mod page;
mod subject;

use std::path::PathBuf;

use planner::methods::Method;
use planner::{Limits, Problem, plan};
use reports::Checked;
use runtime::network::Network;
use scenarios::Budget;
use schema::{Bytes, CodecModels, Machine, Plan, Timeline, Trace};

use crate::codec_args::CodecInputs;
use crate::commands::compare::methods_of;
use crate::device_args::{DeviceArgs, DeviceKind};
use crate::exit::{Exit, Result, WithExit};
use crate::measured::compared::{Compared, InCoreTimes};
use crate::measured::device::{in_core, no_graphs, on_device, room_to_measure};
use crate::measured::profile::{MeasuredMachine, measure_machine, measure_network};
use crate::measured::runs::{Ran, Runs};
use crate::output::{columns, print};
use crate::page::PendingPage;
use crate::progress::Bar;
use crate::signals::interrupted;
use agreement::Agreement;
use subject::Subject;

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

    /// Iterations of each plan that count; the one in the middle by time is taken
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,

    /// Launch each iteration of a plan as one CUDA graph; ops are timed without
    #[arg(long)]
    graph: bool,

    /// A folder for a page with the figures; it is made where there is none
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// A plan that was run.
struct Done {
    row: Checked,
    plan: Plan,
    predicted: Timeline,
    measured: Timeline,
    trace: Trace,
}

/// Measures, plans, runs and shows.
pub fn run(args: &Args) -> Result {
    if args.graph && args.device.on.kind == DeviceKind::Host {
        return Err(no_graphs());
    }
    let methods = methods_of(&args.methods, args.device.sampled.is_empty())?;
    let networks =
        if args.networks.is_empty() { subject::standard() } else { args.networks.clone() };
    let built = |subject: &Subject| {
        let network = subject.named().network()?;
        room_to_measure(args.device.on, &network)?;
        Ok(network)
    };
    let built = networks.iter().map(built).collect::<Result<Vec<Network>>>()?;
    let page = args.output.as_deref().map(PendingPage::create).transpose()?;
    let machine = measure_machine(&args.device)?;
    print(format!("{}\n", machine.machine.description))?;
    let mut done = Vec::new();
    for on in networks.iter().zip(&built) {
        done.extend(check(args, &methods, &machine, on)?);
    }
    let rows: Vec<&Checked> = done.iter().map(|done| &done.row).collect();
    let timelines: Vec<_> = done.iter().map(|done| [&done.predicted, &done.measured]).collect();
    let agreement = Agreement::of(&rows, &timelines);
    print(format!("\n{agreement}"))?;
    match page {
        Some(page) => page::write(page, &done, &machine.machine),
        None => Ok(()),
    }
}

/// One network: profiled, planned and run; prints its table.
fn check(
    args: &Args,
    methods: &[Box<dyn Method>],
    measured: &MeasuredMachine,
    (subject, network): (&Subject, &Network),
) -> Result<Vec<Done>> {
    let machine = &measured.machine;
    let (trace, times) = measure_network((&subject.named(), network), &args.device, machine)?;
    let runs = Runs {
        warmup: 1,
        iterations: args.iterations as usize,
        seed: args.device.seed,
        graph: args.graph,
    };
    let on = (network, &trace, machine);
    let in_core_times = in_core(args.device.on, on, runs)?;
    let peak = simulator::in_core(&trace).peak;
    print(format!(
        "\n{subject}: {} ops, peak {peak}, in core {} ({} by the sum of its ops)\n",
        trace.ops.len(),
        in_core_times.measured,
        in_core_times.predicted
    ))?;
    if let Some(whose) = &times.computed_by {
        print(format!("computed by {whose}\n"))?;
    }
    let mut table = vec![header()];
    let mut done = Vec::new();
    for budget in &args.budgets {
        let bytes = Budget::resolve(Some(*budget), machine, peak);
        for method in methods {
            let problem = problem(args, &trace, machine, bytes, &measured.codecs);
            let bar = Bar::new(method.name());
            let planned = plan(method.as_ref(), &problem, &bar);
            drop(bar);
            if interrupted() {
                let error = anyhow::anyhow!("interrupted");
                return Err(WithExit { exit: Exit::Interrupted, error });
            }
            let share = 100.0 * bytes.0 as f64 / peak.0.max(1) as f64;
            let mut cells = vec![format!("{share:.0} %"), method.name().to_string()];
            match planned {
                Ok(plan) => {
                    let ran = on_device(args.device.on, on, &plan, runs, &[])?;
                    let row = checked(subject, share, &plan, &ran, in_core_times);
                    cells.extend(figures(&row));
                    let predicted = simulator::predict(&plan, Some(&trace));
                    let measured = ran.middle().clone();
                    done.push(Done { row, plan, predicted, measured, trace: trace.clone() });
                }
                Err(error) => cells.push(match error.short_by() {
                    Some(short) => format!("lacks {short}"),
                    None => "no plan".into(),
                }),
            }
            table.push(cells);
        }
    }
    print(columns(&table))?;
    Ok(done)
}

fn problem<'a>(
    args: &Args,
    trace: &'a Trace,
    machine: &'a Machine,
    budget: Bytes,
    codecs: &Option<(Vec<results::CodecSample>, CodecModels)>,
) -> Problem<'a> {
    let mut problem = Problem::new(trace, machine, budget);
    problem.limits = Limits { evaluations: args.evaluations };
    let Some((_, models)) = codecs else { return problem };
    problem.allowed.compress = true;
    CodecInputs::measured(models).apply(problem)
}

fn checked(
    subject: &Subject,
    budget_percent: f64,
    plan: &Plan,
    ran: &Ran,
    in_core: InCoreTimes,
) -> Checked {
    let compared = Compared::of(plan, ran, Some(&in_core));
    let slowdown = compared.slowdown.expect("the iteration in core was measured");
    Checked {
        network: subject.to_string(),
        budget_percent,
        method: plan.method.clone(),
        measured: compared.iteration_ns.measured,
        predicted: compared.iteration_ns.predicted,
        measured_slowdown: slowdown.measured,
        predicted_slowdown: slowdown.predicted,
        arena_as_predicted: compared.arena_bytes.measured == compared.arena_bytes.predicted,
    }
}

fn header() -> Vec<String> {
    let names = [
        "budget",
        "method",
        "measured",
        "predicted",
        "error",
        "over in-core",
        "predicted",
        "arena",
    ];
    names.map(String::from).to_vec()
}

fn figures(row: &Checked) -> Vec<String> {
    vec![
        row.measured.to_string(),
        row.predicted.to_string(),
        format!("{:+.1} %", 100.0 * row.error()),
        format!("{:.3}x", row.measured_slowdown),
        format!("{:.3}x", row.predicted_slowdown),
        if row.arena_as_predicted { "as predicted" } else { "differs" }.into(),
    ]
}
