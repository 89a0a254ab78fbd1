//! `tidegate run`

use std::path::PathBuf;

use experiments::compared::Compared;
use experiments::option_text::at_least_one;
use experiments::plan_trace::{machine_of, modelled_trace_of};
use experiments::recipes::network_of;
use profiler::runs::Runs;
use runtime::device::Fault;
use schema::{Document, PendingFile, Plan, Trace};
use simulator::predict;

use crate::device_args::OnDevice;
use crate::exit::{Exit, Result, ended, usage};
use crate::output::{Format, write_or_show};
use crate::progress::Bar;

/// Run a plan on a device, and show what was measured beside what was predicted
#[derive(clap::Args)]
pub struct Args {
    /// The plan; `-` is the standard input
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// The trace that it was made for, which `profile` wrote; that of a network that was planned
    /// with `--conventions tidegate` is made again
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,

    /// The machine that it was made for, whose link is what copies are as slow as [default: the one
    /// that a network was planned for]
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,

    #[command(flatten)]
    on: OnDevice,

    /// Iterations before the first that counts
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    warmup: usize,

    /// Iterations that count; the median by time is shown
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = at_least_one)]
    iterations: usize,

    /// Seed of weights, samples and labels
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Launch each iteration as one CUDA graph, captured when the warm-up's first has run
    #[arg(long)]
    graph: bool,

    /// Leave the iteration without a memory limit away, over which the slowdown is taken
    #[arg(long)]
    no_in_core: bool,

    /// Make something go wrong: copy-out:N, copy-in:N, host-memory, corrupt:N, corrupt:TENSOR or
    /// delay:LANE:N:TIME; repeat it for several
    #[arg(long, value_name = "FAULT")]
    inject: Vec<Fault>,

    /// Where to write the measured timeline; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How to print what was measured
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let plan = Plan::read(&args.plan)?;
    let trace = match &args.trace {
        Some(file) => Trace::read(file)?,
        None => modelled_trace_of(&plan)?,
    };
    let Some(machine) = args.machine.as_ref().or(plan.settings.get("machine")) else {
        return Err(usage("the plan does not say its machine: name it with --machine"));
    };
    let machine = machine_of(&plan, machine)?;
    let network = network_of(&trace)?;
    let Args { warmup, iterations, seed, graph, .. } = *args;
    let target = args.on.target()?;
    target.check_graph(graph, warmup)?;
    let runs = Runs { warmup, iterations, seed, graph, fingerprint: !args.no_in_core };
    let subject = (&network, &trace, &machine);
    let execution = target.run(subject, &plan, runs, &args.inject, &Bar::new(&plan.method))?;
    let in_core = || target.run_in_core(subject, runs, &Bar::new("in-core"));
    let in_core = (!args.no_in_core).then(in_core).transpose()?;
    let compared = Compared::of(&plan, &execution, in_core.as_ref());
    write_or_show(output, execution.middle(), || {
        let predicted = predict(&plan, Some(&trace));
        args.format.show(&compared, || compared.text(&plan, &predicted, &execution, graph))
    })?;
    if compared.same_bits == Some(false) && args.inject.is_empty() {
        let what = "what outlives the iterations has other bits than in core";
        return Err(ended(Exit::NotProven, what));
    }
    Ok(())
}
