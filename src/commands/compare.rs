//! `tidegate compare`

use std::path::PathBuf;

use experiments::compare::{compare, methods_of};
use experiments::policy::Policy;
use reports::Status;

use crate::exit::{Exit, Result, end_of_interrupted, ended};
use crate::inputs::{BudgetArg, CountArg, ProblemArgs};
use crate::output::Format;
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

    /// A policy to hold beside them: JSON with what becomes of `ops` by key, as PyTorch's selective
    /// checkpointing takes it, or with lists of modules to `checkpoint` and `offload` (see `export`)
    #[arg(long, value_name = "POLICY")]
    plan: Option<PathBuf>,

    /// How to print the comparison
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Also show the peak, the bytes copied, and what time reruns, codecs and stalls take
    #[arg(long)]
    wide: bool,
}

pub fn run(args: &Args) -> Result {
    let policy = args.plan.as_deref().map(Policy::read).transpose()?;
    let mut methods = methods_of(&args.methods, args.problem.codecs.none())?;
    let inputs = args.problem.read(args.budget.budget)?;
    let inputs = args.count.of(inputs, args.budget.budget);
    let scatter = args.scatter.read(&inputs)?;
    let problem = inputs.problem();
    if let Some(policy) = policy {
        methods.push(Box::new(policy.stated(&problem)?));
    }
    let comparison = compare(&inputs, &problem, &methods, &scatter, Bar::new)?;
    let text = || inputs.assumptions() + &reports::table(&comparison, args.wide);
    args.format.show(&comparison, text)?;
    if interrupted() {
        return Err(end_of_interrupted());
    }
    if comparison.methods.iter().any(|row| row.status == Status::Ok) {
        return Ok(());
    }
    Err(ended(Exit::Infeasible, format!("no method fits {}", inputs.budget)))
}
