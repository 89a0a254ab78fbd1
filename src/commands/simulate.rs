//! `tidegate simulate`

use std::path::PathBuf;

use experiments::plan_trace::{machine_of, own_trace, trace_of};
use schema::{Document, PendingFile, Plan, Trace};
use simulator::{check_figures, predict, prove};

use crate::exit::{Exit, OrExit, Result};
use crate::output::{Format, print};

/// Simulate a plan and show where its time goes
#[derive(clap::Args)]
pub struct Args {
    /// The plan; `-` is the standard input
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// The trace that it was made for, to name ops and tensors; bundled ones, and bundled
    /// networks, are found without it
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,

    /// The machine that it was made for; another is refused
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,

    /// Where to write the timeline; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How to print the timeline where it is not written to a file
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let plan = Plan::read(&args.plan)?;
    prove(&plan).or_exit(Exit::NotProven)?;
    check_figures(&plan).or_exit(Exit::NotProven)?;
    let named = args.trace.as_deref().map(|name| trace_of(&plan, name)).transpose()?;
    let trace = named.or_else(|| own_trace(&plan));
    if let Some(trace) = &trace {
        check_trace(&plan, trace)?;
    }
    if let Some(name) = &args.machine {
        machine_of(&plan, name)?;
    }
    let timeline = predict(&plan, trace.as_ref());
    let to_stdout = output.as_ref().is_some_and(PendingFile::is_stdout);
    if let Some(output) = output {
        output.finish(timeline.to_json().as_bytes())?;
    }
    match args.format {
        _ if to_stdout => Ok(()),
        Format::Json => print(timeline.to_json()),
        Format::Text => print(reports::breakdown(&timeline, plan.predicted.arena)),
    }
}

/// Refuses a trace that the plan was not made for.
pub fn check_trace(plan: &Plan, trace: &Trace) -> Result {
    Ok(simulator::check_contract(plan, trace).map_err(experiments::Error::from)?)
}
