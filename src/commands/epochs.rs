//! `tidegate epochs`

use std::path::{Path, PathBuf};

use experiments::compare::method;
use experiments::epochs::{Epochs, Training, table};
use experiments::published_figures;
use experiments::sources::is_bundled;
use experiments::zeros::Zeros;
use schema::PendingFile;

use crate::exit::{Result, WithExit, usage};
use crate::inputs::{BudgetArg, ProblemArgs};
use crate::networks::{is_network, must_be_network};
use crate::output::{Format, write_or_show};
use crate::progress::Bar;

/// Plan a training epoch by epoch, as the share of zeros changes: one plan per range of epochs
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    problem: ProblemArgs,

    #[command(flatten)]
    budget: BudgetArg,

    /// The epochs to plan, the last one excluded; the training ends there
    #[arg(long, value_name = "FIRST..END", default_value = "0..90")]
    epochs: Epochs,

    /// Shares of zeros by tensor and epoch that `profile --epochs` counted on this trace, spread
    /// evenly over the training [default: the model of the named network]
    #[arg(long, value_name = "FILE")]
    zeros: Option<PathBuf>,

    /// The method (see `list methods`). With cswap+ the lossy codec's parameter slides over the
    /// epochs
    #[arg(long, value_name = "METHOD", default_value = "cswap+")]
    method: String,

    /// Where to write the plans, in one file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How to print the summary
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let method = method(&args.method)?;
    let name = &args.problem.trace;
    if args.zeros.is_none() && !is_network(name) {
        if !is_bundled(name) && !Path::new(name).exists() {
            must_be_network(name)?;
        }
        let why = "is no network, and what happens to its values over epochs is not known: name a network";
        return Err(usage(format!("`{name}` {why}, or with --zeros what was counted")));
    }
    let zeros = args.zeros.as_deref().map(Zeros::read).transpose()?;
    if args.problem.network.progress.is_some() {
        return Err(usage("--progress is what goes from 0 to 1 over the epochs: leave it away"));
    }
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let bar = Bar::new(method.name());
    let training =
        Training { epochs: args.epochs.0.clone(), zeros, method: method.as_ref(), monitor: &bar };
    let (series, rows, assumptions) = training.plan(|epoch| {
        let mut problem = args.problem.clone();
        if training.zeros.is_none() {
            let last = training.epochs.end - 1;
            problem.network.progress = Some(f64::from(epoch) / f64::from(last.max(1)));
        }
        let inputs = problem.read(args.budget.budget)?;
        let settings = problem.settings(&inputs)?;
        Ok::<_, WithExit>((inputs, settings))
    })?;
    drop(bar);
    write_or_show(output, &series, || {
        args.format.show(&rows, || {
            let ProblemArgs { trace, machine, .. } = &args.problem;
            let published = published_figures("epochs", method.name(), trace, machine);
            format!("{assumptions}{}{published}", table(&rows))
        })
    })
}
