//! `tidegate simulate`

use std::path::PathBuf;

use experiments::plan_trace::{check_trace, machine_of};
use schema::{Document, PendingFile};
use simulator::predict;

use crate::exit::Result;
use crate::inputs::PlanArgs;
use crate::output::{Format, print, write_or_show};

/// Simulate a plan and show where its time goes
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    plan: PlanArgs,

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
    let (plan, _, trace) = args.plan.read()?;
    if let Some(trace) = &trace {
        check_trace(&plan, trace)?;
    }
    if let Some(name) = &args.machine {
        machine_of(&plan, name)?;
    }
    let timeline = predict(&plan, trace.as_ref());
    write_or_show(output, &timeline, || match args.format {
        Format::Json => print(timeline.to_json()),
        Format::Text => print(reports::breakdown(&timeline, plan.predicted.arena)),
    })
}
