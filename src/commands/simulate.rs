//! `tidegate simulate`

use std::path::PathBuf;

use reports::columns;
use schema::{Document, Lane, Nanos, PendingFile, Plan, StallCause, Task, Timeline, Trace};
use simulator::{check_figures, predict, prove};

use crate::exit::{Exit, OrExit, Result};
use crate::output::{Format, print};
use crate::plan_trace::{machine_of, own_trace, trace_of};

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

/// Simulates, writes and shows.
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
        Format::Text => print(summary(&plan, &timeline)),
    }
}

/// Refuses a trace that the plan was not made for.
pub fn check_trace(plan: &Plan, trace: &Trace) -> Result {
    Ok(simulator::check_contract(plan, trace).map_err(experiments::Error::from)?)
}

fn summary(plan: &Plan, timeline: &Timeline) -> String {
    let mut text = format!(
        "{} on {}, method {}, predicted from the times in the plan\n",
        timeline.trace.name, timeline.machine.name, timeline.method
    );
    let share = |time: Nanos| {
        format!("{:.1} %", 100.0 * time.0 as f64 / timeline.iteration.0.max(1) as f64)
    };
    let mut rows = vec![
        vec!["iteration".into(), timeline.iteration.to_string()],
        vec!["peak".into(), timeline.peak.to_string()],
        vec!["arena".into(), plan.predicted.arena.to_string()],
        vec!["budget".into(), timeline.budget.to_string()],
    ];
    for lane in timeline.lanes() {
        let of_lane = timeline.intervals.iter().filter(|i| i.lane == lane);
        let busy: Nanos = of_lane.map(|i| i.end.saturating_sub(i.start)).sum();
        rows.push(vec![format!("{} busy", lane.name()), busy.to_string(), share(busy)]);
    }
    let again = timeline.intervals.iter().filter(|i| matches!(i.task, Task::Recompute(_)));
    let again: Nanos = again.map(|i| i.end.saturating_sub(i.start)).sum();
    rows.push(vec!["of compute, run again".into(), again.to_string(), share(again)]);
    let is_codec = |task| matches!(task, Task::Compress(_) | Task::Decompress(_));
    let on_compute = timeline.intervals.iter().filter(|i| i.lane == Lane::Compute);
    let codecs = on_compute.filter(|i| is_codec(i.task));
    let codecs: Nanos = codecs.map(|i| i.end.saturating_sub(i.start)).sum();
    if codecs > Nanos::ZERO {
        rows.push(vec!["of compute, codecs".into(), codecs.to_string(), share(codecs)]);
    }
    for (cause, name) in [
        (StallCause::Data, "compute waits for data"),
        (StallCause::Memory, "compute waits for memory"),
        (StallCause::Turn, "compute waits for its turn"),
    ] {
        let stalls = timeline.intervals.iter().filter(|i| i.lane == Lane::Compute);
        let stalls = stalls.filter_map(|i| i.stall).filter(|stall| stall.cause == cause);
        let idle: Nanos = stalls.map(|stall| stall.idle).sum();
        rows.push(vec![name.into(), idle.to_string(), share(idle)]);
    }
    text.push_str(&columns(&rows));
    text
}
