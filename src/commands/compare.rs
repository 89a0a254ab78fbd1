//! `tidegate compare`

use std::time::Instant;

use planner::methods::{self, Method};
use planner::{PlanError, Problem, Watch};
use reports::{Comparison, MethodResult, Status};
use schema::{Bytes, Choice, Document, Nanos, Plan, Reference, Task, Trace};
use simulator::{InCore, Infeasible, prove};

use crate::commands::plan::method;
use crate::exit::{Exit, Result, WithExit, usage};
use crate::inputs::{Inputs, ProblemArgs};
use crate::output::{Format, print, print_json};
use crate::progress::Bar;

/// Plan with several methods and compare them
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    problem: ProblemArgs,

    /// The methods, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "METHODS")]
    methods: Vec<String>,

    /// How to print the comparison
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Plans with each method and prints the comparison.
pub fn run(args: &Args) -> Result {
    let chosen = match args.methods.as_slice() {
        [] => methods::all(),
        names => names.iter().map(|name| method(name)).collect::<Result<_>>()?,
    };
    for (index, method) in chosen.iter().enumerate() {
        if chosen[..index].iter().any(|other| other.name() == method.name()) {
            return Err(usage(format!("--methods names `{}` twice", method.name())));
        }
    }
    let inputs = args.problem.read()?;
    let problem = inputs.problem();
    let mut rows = Vec::new();
    for method in &chosen {
        let bar = Bar::new(method.name());
        rows.push(result_of(method.as_ref(), &problem, &bar, &inputs.in_core)?.row);
    }
    let any_fits = rows.iter().any(|row| row.status == Status::Ok);
    let comparison = comparison(&inputs, &problem, rows);
    match args.format {
        Format::Text => {
            print(format!("{}\n", inputs.carry_over))?;
            print(reports::table(&comparison))?;
        }
        Format::Json => print_json(&comparison)?,
    }
    if any_fits {
        return Ok(());
    }
    let error = anyhow::anyhow!("no method fits {}", inputs.budget);
    Err(WithExit { exit: Exit::Infeasible, error })
}

/// What one method came up with.
pub struct Found {
    /// The plan, proven safe.
    pub plan: std::result::Result<Plan, PlanError>,
    /// Its row in a comparison.
    pub row: MethodResult,
}

/// Plans with one method. A plan that cannot be proven safe ends the command: it is our error,
/// never a result.
pub fn result_of(
    method: &dyn Method,
    problem: &Problem,
    watch: &dyn Watch,
    in_core: &InCore,
) -> Result<Found> {
    let begin = Instant::now();
    let plan = planner::plan(method, problem, watch);
    let seconds = begin.elapsed().as_secs_f64();
    let mut row = match &plan {
        Ok(plan) => {
            if let Err(problem) = prove(plan) {
                let error = anyhow::anyhow!("{} made an unsafe plan: {problem}", method.name());
                return Err(WithExit { exit: Exit::NotProven, error });
            }
            row_of(plan, in_core)
        }
        Err(PlanError::Interrupted) => {
            let error = anyhow::anyhow!("interrupted");
            return Err(WithExit { exit: Exit::Interrupted, error });
        }
        Err(error) => {
            let reason = with_op_name(error, problem.trace);
            let mut row = MethodResult::without_plan(method.name(), Status::Infeasible, reason);
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
        let copies = plan.actions.iter().filter(|a| wanted(&a.task));
        copies.filter_map(|a| a.host).map(|h| plan.host_buffers[h.index()].bytes).sum()
    };
    let count =
        |choice: Choice| plan.decisions.iter().filter(|d| d.choice == choice).count() as u64;
    let recompute = time(|task| matches!(task, Task::Recompute(_)));
    let compute = time(|task| matches!(task, Task::Run(_))) + recompute;
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
        compressed: Some(0),
        d2h: Some(bytes(|task| matches!(task, Task::CopyOut(_)))),
        h2d: Some(bytes(|task| matches!(task, Task::CopyIn(_)))),
        recompute: Some(recompute),
        codec: Some(Nanos::ZERO),
        stall: Some(predicted.iteration.saturating_sub(compute)),
    }
}

/// The rows with what they have in common.
pub fn comparison(inputs: &Inputs, problem: &Problem, methods: Vec<MethodResult>) -> Comparison {
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
        bound: planner::bound(problem).time(),
        methods,
    }
}
