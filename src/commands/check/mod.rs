//! `tidegate check`

mod agreement;
mod failures;
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
use crate::device_args::DeviceArgs;
use crate::exit::{Exit, Result, WithExit};
use crate::measured::compared::{Compared, InCoreTimes};
use crate::measured::device::{check_graph, in_core, on_device, room_to_measure};
use crate::measured::profile::{MeasuredMachine, measure_machine, measure_network};
use crate::measured::runs::{Ran, Runs};
use crate::output::{columns, print};
use crate::page::PendingPage;
use crate::progress::Bar;
use crate::signals::interrupted;
use agreement::Agreement;
use failures::Failures;
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

    /// Launch each iteration as one CUDA graph, those that ops are timed in and those of plans
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
    check_graph(args.device.on, args.graph, args.device.warmup)?;
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
    let (mut done, mut failures) = (Vec::new(), Failures::new(args.device.on));
    for on in networks.iter().zip(&built) {
        if let Err(error) = check(args, &methods, &machine, on, (&mut done, &mut failures)) {
            let why = failures.add(error)?;
            print(format!("\n{}: not run: {why}\n", on.0))?;
        }
    }
    let rows: Vec<&Checked> = done.iter().map(|done| &done.row).collect();
    let timelines: Vec<_> = done.iter().map(|done| [&done.predicted, &done.measured]).collect();
    let agreement = Agreement::of(&rows, &timelines);
    print(format!("\n{agreement}"))?;
    if let Some(page) = page {
        page::write(page, &done, &machine.machine)?;
    }
    failures.end()
}

/// One network: profiled, planned and run; prints its table. What became of each plan goes to `done` or
/// `failures`.
fn check(
    args: &Args,
    methods: &[Box<dyn Method>],
    measured: &MeasuredMachine,
    (subject, network): (&Subject, &Network),
    (done, failures): (&mut Vec<Done>, &mut Failures),
) -> Result {
    failures.unless_lost()?;
    let machine = &measured.machine;
    let (trace, times) =
        measure_network((&subject.named(), network), (&args.device, args.graph), machine)?;
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
    let (mut table, mut reasons) = (vec![header()], String::new());
    for budget in &args.budgets {
        let bytes = Budget::resolve(Some(*budget), machine, peak);
        for method in methods {
            let share = 100.0 * bytes.0 as f64 / peak.0.max(1) as f64;
            let mut cells = vec![format!("{share:.0} %"), method.name().to_string()];
            if let Err(lost) = failures.unless_lost() {
                failures.add(lost)?;
                cells.push("device lost".into());
                table.push(cells);
                continue;
            }
            let problem = problem(args, &trace, machine, bytes, &measured.codecs);
            let bar = Bar::new(method.name());
            let planned = plan(method.as_ref(), &problem, &bar);
            drop(bar);
            if interrupted() {
                let error = anyhow::anyhow!("interrupted");
                return Err(WithExit { exit: Exit::Interrupted, error });
            }
            match planned {
                Ok(plan) => match on_device(args.device.on, on, &plan, runs, &[]) {
                    Ok(ran) => {
                        let row = checked(subject, share, &plan, &ran, in_core_times);
                        cells.extend(figures(&row));
                        let predicted = simulator::predict(&plan, Some(&trace));
                        let measured = ran.middle().clone();
                        done.push(Done { row, plan, predicted, measured, trace: trace.clone() });
                    }
                    Err(error) => {
                        let why = failures.add(error)?;
                        reasons.push_str(&format!("{share:.0} %, {}: {why}\n", method.name()));
                        cells.push("not run".into());
                    }
                },
                Err(error) => cells.push(match error.short_by() {
                    Some(short) => format!("lacks {short}"),
                    None => "no plan".into(),
                }),
            }
            table.push(cells);
        }
    }
    print(columns(&table) + &reasons)
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
