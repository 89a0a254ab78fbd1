//! `tidegate plan`

use std::path::PathBuf;

use experiments::compare::{Found, comparison_with_bound, method};
use planner::methods;
use schema::{Document, PendingFile};

use crate::exit::{Exit, OrExit, Result, end_of_interrupted};
use crate::inputs::{BudgetArg, ProblemArgs};
use crate::output::Format;
use crate::progress::Bar;
use crate::scatter::ScatterArgs;

/// Make a plan and show what it is predicted to cost
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    problem: ProblemArgs,

    #[command(flatten)]
    budget: BudgetArg,

    #[command(flatten)]
    scatter: ScatterArgs,

    /// The method (see `list methods`)
    #[arg(long, value_name = "METHOD", default_value = methods::DEFAULT)]
    method: String,

    /// Where to write the plan; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How to print the summary
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let method = method(&args.method)?;
    let inputs = args.problem.read(args.budget.budget)?;
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let problem = inputs.problem().with_settings(args.problem.settings(&inputs)?);
    let problem = problem.with_settings(args.scatter.settings());
    let scatter = args.scatter.read(&inputs)?;
    let bar = Bar::new(method.name());
    let Found { plan, row } = scatter.result_of(method.as_ref(), &inputs, &problem, &bar)?;
    drop(bar);
    let comparison = comparison_with_bound(&problem, &inputs.in_core, vec![row]);
    let to_stdout = output.as_ref().is_some_and(PendingFile::is_stdout);
    if let (Some(output), Ok(plan)) = (output, &plan) {
        output.finish(plan.to_json().as_bytes())?;
    }
    if !to_stdout {
        let text = || inputs.assumptions() + &reports::table(&comparison, true);
        args.format.show(&comparison, text)?;
    }
    if plan.or_exit(Exit::Infeasible)?.settings.contains_key(planner::INTERRUPTED) {
        return Err(end_of_interrupted());
    }
    Ok(())
}
