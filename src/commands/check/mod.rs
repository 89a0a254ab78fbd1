//! `tidegate check`

mod agreement;
mod failures;
mod page;
mod subject;
mod table;

use std::path::PathBuf;

use planner::methods::Method;
use planner::{Limits, PlanError, Problem, ProvenPlan, plan};
use rayon::prelude::*;
use reports::Checked;
use runtime::network::Network;
use scenarios::Budget;
use schema::{Bytes, CodecModels, Machine, Plan, Timeline, Trace};

use crate::codec_args::CodecInputs;
use crate::commands::compare::methods_of;
use crate::device_args::DeviceArgs;
use crate::exit::{Exit, Result, WithExit};
use crate::measured::compared::{Compared, InCoreTimes, Pair};
use crate::measured::device::{check_graph, in_core, on_device, room_to_measure};
use crate::measured::profile::{MeasuredMachine, Measuring, measure_machine, measure_network};
use crate::measured::runs::{Execution, Runs};
use crate::output::{Format, print, print_json};
use crate::page::PendingPage;
use crate::progress::{UntilInterrupted, points};
use crate::signals::interrupted;
use agreement::Agreement;
use failures::Failures;
pub use subject::Subject;
pub use table::CheckResult;
use table::{NetworkTable, NotRun, PlanRow};

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

    /// How to print what came of it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
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
    let is_text = args.format == Format::Text;
    if is_text {
        print(format!("{}\n", machine.machine.description))?;
    }
    let (mut done, mut tables) = (Vec::new(), Vec::new());
    let (mut not_run, mut failures) = (Vec::new(), Failures::new(args.device.on));
    for on in networks.iter().zip(&built) {
        match check(args, &methods, &machine, on, &mut failures) {
            Ok((table, of_network)) => {
                if is_text {
                    print(table.text())?;
                }
                tables.push(table);
                done.extend(of_network);
            }
            Err(error) => {
                let (network, reason) = (on.0.to_string(), failures.add(error)?);
                if is_text {
                    print(format!("\n{network}: not run: {reason}\n"))?;
                }
                not_run.push(NotRun { network, reason });
            }
        }
    }
    let rows: Vec<&Checked> = done.iter().map(|done| &done.row).collect();
    let timelines: Vec<_> = done.iter().map(|done| [&done.predicted, &done.measured]).collect();
    let agreement = Agreement::of(&rows, &timelines);
    if is_text {
        print(format!("\n{agreement}"))?;
    }
    if let Some(page) = page {
        let written = page::write(page, &done, &machine.machine)?;
        if is_text {
            print(written)?;
        }
    }
    let ended = table::same_bits(&tables);
    if !is_text {
        let device = machine.machine.description;
        print_json(&CheckResult { device, networks: tables, not_run, agreement })?;
    }
    failures.end()?;
    ended
}

/// One network: profiled, planned and run.
fn check(
    args: &Args,
    methods: &[Box<dyn Method>],
    measured: &MeasuredMachine,
    (subject, network): (&Subject, &Network),
    failures: &mut Failures,
) -> Result<(NetworkTable, Vec<Done>)> {
    failures.unless_lost()?;
    let machine = &measured.machine;
    let how = Measuring { args: &args.device, graph: args.graph, budget: None };
    let (trace, times) = measure_network((&subject.named(), network), how, machine)?;
    let runs = Runs {
        warmup: 1,
        iterations: args.iterations as usize,
        seed: args.device.seed,
        graph: args.graph,
        fingerprint: true,
    };
    let on = (network, &trace, machine);
    let in_core = in_core(args.device.on, on, runs)?;
    let peak = simulator::in_core(&trace).peak;
    let mut table = NetworkTable {
        network: subject.to_string(),
        ops: trace.ops.len(),
        peak_bytes: peak,
        in_core_ns: Pair { measured: in_core.measured, predicted: in_core.predicted },
        computed_by: times.computed_by,
        plans: Vec::new(),
    };
    let mut done = Vec::new();
    for (budget, method, planned) in plans(args, methods, measured, &trace)? {
        let share = 100.0 * budget.0 as f64 / peak.0.max(1) as f64;
        let mut row = PlanRow::new(share, method);
        match (planned, failures.unless_lost()) {
            (Err(error), _) => row.failed(&no_plan(&error), None),
            (Ok(_), Err(lost)) => {
                failures.add(lost)?;
                row.failed("device lost", None);
            }
            (Ok(plan), Ok(())) => match on_device(args.device.on, on, &plan, runs, &[]) {
                Err(error) => row.failed("not run", Some(failures.add(error)?)),
                Ok(execution) => {
                    row.executed(&Compared::of(&plan, &execution, Some(&in_core)), &plan);
                    let checked = checked(subject, &row, &plan, &execution, &in_core);
                    let predicted = simulator::predict(&plan, Some(&trace));
                    let (measured, trace) = (execution.middle().clone(), trace.clone());
                    done.push(Done {
                        row: checked,
                        plan: plan.into_plan(),
                        predicted,
                        measured,
                        trace,
                    });
                }
            },
        }
        table.plans.push(row);
    }
    Ok((table, done))
}

/// A plan for each budget and method, made side by side; in the order of budgets and methods.
#[allow(clippy::type_complexity, reason = "a list of what is taken apart at once")]
fn plans<'a>(
    args: &Args,
    methods: &'a [Box<dyn Method>],
    measured: &MeasuredMachine,
    trace: &Trace,
) -> Result<Vec<(Bytes, &'a str, std::result::Result<ProvenPlan, PlanError>)>> {
    let (machine, peak) = (&measured.machine, simulator::in_core(trace).peak);
    let budgets = args.budgets.iter().map(|budget| Budget::resolve(Some(*budget), machine, peak));
    let all: Vec<_> =
        budgets.flat_map(|bytes| methods.iter().map(move |method| (bytes, method))).collect();
    let bar = points(all.len());
    let planned = all.into_par_iter().map(|(bytes, method)| {
        let problem = problem(args, trace, machine, bytes, &measured.codecs);
        let planned = plan(method.as_ref(), &problem, &UntilInterrupted);
        bar.inc(1);
        (bytes, method.name(), planned)
    });
    let planned = planned.collect();
    bar.finish_and_clear();
    match interrupted() {
        true => Err(WithExit { exit: Exit::Interrupted, error: anyhow::anyhow!("interrupted") }),
        false => Ok(planned),
    }
}

fn no_plan(error: &PlanError) -> String {
    match error.short_by() {
        Some(short) => format!("lacks {short}"),
        None => "no plan".into(),
    }
}

fn problem<'a>(
    args: &Args,
    trace: &'a Trace,
    machine: &'a Machine,
    budget: Bytes,
    codecs: &Option<(Vec<results::CodecSample>, CodecModels)>,
) -> Problem<'a> {
    let problem = Problem::new(trace, machine, budget).with_evaluations(args.evaluations);
    let Some((_, models)) = codecs else { return problem };
    CodecInputs::measured(models).apply(problem)
}

fn checked(
    subject: &Subject,
    row: &PlanRow,
    plan: &Plan,
    execution: &Execution,
    in_core: &InCoreTimes,
) -> Checked {
    let compared = Compared::of(plan, execution, Some(in_core));
    let slowdown = compared.slowdown.expect("the iteration in core was measured");
    Checked {
        network: subject.to_string(),
        budget_percent: row.budget_percent,
        method: plan.method.clone(),
        measured: compared.iteration_ns.measured,
        predicted: compared.iteration_ns.predicted,
        measured_slowdown: slowdown.measured,
        predicted_slowdown: slowdown.predicted,
        arena_as_predicted: compared.arena_bytes.measured == compared.arena_bytes.predicted,
    }
}
