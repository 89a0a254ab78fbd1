//! `tidegate compare`

use std::time::Instant;

use planner::methods::{self, Method};
use planner::{Monitor, PlanError, Problem, ProvenPlan, bound, least_budget};
use reports::{Comparison, MethodResult, Status};
use schema::{Bytes, Choice, Document, Nanos, Plan, Reference, Task, Trace};
use simulator::{InCore, Infeasible};

use crate::commands::plan::method;
use crate::exit::{Exit, Result, WithExit, usage};
use crate::inputs::{BudgetArg, CountArg, Inputs, ProblemArgs};
use crate::output::{Format, print, print_json};
use crate::progress::Bar;
use crate::scatter::ScatterArgs;
use crate::signals::interrupted;

/// Plan with several methods and compare them
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    problem: ProblemArgs,

    #[command(flatten)]
    budget: BudgetArg,

    #[command(flatten)]
    count: CountArg,

    #[command(flatten)]
    scatter: ScatterArgs,

    /// The methods, separated by commas [default: all that the codecs serve]
    #[arg(long, value_delimiter = ',', value_name = "METHODS")]
    methods: Vec<String>,

    /// How to print the comparison
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Also show the peak, the bytes copied, and what time reruns, codecs and stalls take
    #[arg(long)]
    wide: bool,
}

/// Plans with each method and prints the comparison.
pub fn run(args: &Args) -> Result {
    let chosen = methods_of(&args.methods, args.problem.codecs.none())?;
    let inputs = args.problem.read(args.budget.budget)?;
    let inputs = inputs.counting(args.count.count, args.budget.budget);
    let scatter = args.scatter.read(&inputs)?;
    let problem = inputs.problem();
    let mut rows = Vec::new();
    for method in &chosen {
        let bar = Bar::new(method.name());
        match scatter.result_of(method.as_ref(), &inputs, &problem, &bar) {
            Ok(found) => rows.push(found.row),
            Err(end) if end.exit == Exit::Interrupted && !rows.is_empty() => break,
            Err(end) => return Err(end),
        }
        if interrupted() {
            break;
        }
    }
    let any_fits = rows.iter().any(|row| row.status == Status::Ok);
    let comparison = comparison(&inputs, &problem, rows);
    match args.format {
        Format::Text => {
            print(inputs.assumptions())?;
            print(reports::table(&comparison, args.wide))?;
        }
        Format::Json => print_json(&comparison)?,
    }
    if interrupted() {
        return Err(end_of_interrupted());
    }
    if any_fits {
        return Ok(());
    }
    let error = anyhow::anyhow!("no method fits {}", inputs.budget);
    Err(WithExit { exit: Exit::Infeasible, error })
}

/// The end of a command that was interrupted and has shown what there was by then.
pub fn end_of_interrupted() -> WithExit {
    let error = anyhow::anyhow!(
        "interrupted: shown is what there was by then, the last plan as good as its search had come"
    );
    WithExit { exit: Exit::Interrupted, error }
}

/// The methods of these names, none twice; all of them without a name.
pub fn methods_of(names: &[String], no_codecs: bool) -> Result<Vec<Box<dyn Method>>> {
    if names.is_empty() {
        let mut chosen = methods::all();
        chosen.retain(|m| !(m.only_on_request() || no_codecs && m.needs_codecs()));
        return Ok(chosen);
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(usage(format!("--methods names `{name}` twice")));
        }
    }
    names.iter().map(|name| method(name)).collect()
}

/// What one method came up with.
pub struct Found {
    /// The plan.
    pub plan: std::result::Result<ProvenPlan, PlanError>,
    /// Its row in a comparison.
    pub row: MethodResult,
}

/// Plans with one method, to the end of its search. A plan that cannot be proven safe ends the command: it is our error,
/// never a result.
pub fn result_of(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
    in_core: &InCore,
) -> Result<Found> {
    let found =
        found_by(method.name(), problem, in_core, || planner::plan(method, problem, monitor))?;
    // What is compared with other points, or kept, is the plan of a whole search.
    if interrupted() {
        let error = anyhow::anyhow!("interrupted");
        return Err(WithExit { exit: Exit::Interrupted, error });
    }
    Ok(found)
}

/// The same for a method whose plan is made in some way.
pub fn found_by(
    method: &str,
    problem: &Problem,
    in_core: &InCore,
    plan: impl FnOnce() -> std::result::Result<ProvenPlan, PlanError>,
) -> Result<Found> {
    let begin = Instant::now();
    let plan = plan();
    let seconds = begin.elapsed().as_secs_f64();
    let mut row = match &plan {
        Ok(plan) => row_of(plan, in_core),
        Err(error @ PlanError::Unproven { .. }) => {
            let error = anyhow::anyhow!("{error}");
            return Err(WithExit { exit: Exit::NotProven, error });
        }
        Err(PlanError::Interrupted) => {
            let error = anyhow::anyhow!("interrupted");
            return Err(WithExit { exit: Exit::Interrupted, error });
        }
        Err(error) => {
            let reason = with_op_name(error, problem.trace);
            let mut row = MethodResult::without_plan(method, Status::Infeasible, reason);
            row.shortfall = error.short_by();
            row
        }
    };
    row.plan_seconds = Some(seconds);
    Ok(Found { plan, row })
}

/// The error's sentence, in which the op that it names by number has its name, too.
fn with_op_name(error: &PlanError, trace: &Trace) -> String {
    let text = error.to_string();
    let (PlanError::OverBudget { cause, .. } | PlanError::Impossible(cause)) = error else {
        return text;
    };
    let op = match cause {
        Infeasible::Memory { op, .. }
        | Infeasible::Prefetch { op, .. }
        | Infeasible::TooManyRecomputations { before: op } => *op,
        _ => return text,
    };
    let name = trace.ops.get(op.index()).map_or("", |op| op.name.as_str());
    text.replacen(&op.to_string(), &format!("{op} ({name})"), 1)
}

fn row_of(plan: &Plan, in_core: &InCore) -> MethodResult {
    let time = |wanted: fn(&Task) -> bool| -> Nanos {
        plan.actions.iter().filter(|a| wanted(&a.task)).map(|a| a.duration).sum()
    };
    let bytes = |wanted: fn(&Task) -> bool| -> Bytes {
        plan.actions.iter().filter(|a| wanted(&a.task)).map(|a| plan.moved_bytes(a)).sum()
    };
    let count =
        |choice: Choice| plan.decisions.iter().filter(|d| d.choice == choice).count() as u64;
    let recompute = time(|task| matches!(task, Task::Recompute(_)));
    let codec = time(|task| matches!(task, Task::Compress(_) | Task::Decompress(_)));
    let compute = time(|task| matches!(task, Task::Run(_))) + recompute + codec;
    let predicted = &plan.predicted;
    MethodResult {
        method: plan.method.clone(),
        status: Status::Ok,
        reason: None,
        shortfall: None,
        iteration: Some(predicted.iteration),
        slowdown: Some(predicted.iteration.ratio(in_core.iteration)),
        peak: Some(predicted.peak),
        arena: Some(predicted.arena),
        gap: predicted.bound.map(|bound| predicted.iteration.ratio(bound) - 1.0),
        plan_seconds: None,
        kept: Some(count(Choice::Keep)),
        swapped: Some(count(Choice::Swap)),
        recomputed: Some(count(Choice::Recompute)),
        compressed: Some(plan.decisions.iter().filter(|d| d.codec.is_some()).count() as u64),
        d2h: Some(bytes(|task| matches!(task, Task::D2h(_)))),
        h2d: Some(bytes(|task| matches!(task, Task::H2d(_)))),
        recompute: Some(recompute),
        codec: Some(codec),
        stall: Some(predicted.iteration.saturating_sub(compute)),
        jitter: None,
    }
}

/// The rows with what they have in common: each is held against the tightest bound.
pub fn comparison(
    inputs: &Inputs,
    problem: &Problem,
    mut methods: Vec<MethodResult>,
) -> Comparison {
    let bound = bound(problem).time();
    methods.iter_mut().for_each(|row| over_bound(row, bound));
    let reference = |name: String, digest| Reference { name, digest };
    Comparison {
        trace: reference(inputs.trace.title(), inputs.trace.digest()),
        provenance: Some(inputs.trace.provenance.clone()),
        machine: reference(inputs.machine.name.clone(), inputs.machine.digest()),
        budget: inputs.budget,
        in_core: reports::InCore {
            iteration: inputs.in_core.iteration,
            peak: inputs.in_core.peak,
            fixed: inputs.in_core.fixed,
        },
        bound,
        least_budget: Some(least_budget(problem).0),
        methods,
    }
}

/// States how far a row is over a bound.
pub fn over_bound(row: &mut MethodResult, bound: Option<Nanos>) {
    row.gap = row.iteration.zip(bound).map(|(time, bound)| time.ratio(bound) - 1.0);
}
