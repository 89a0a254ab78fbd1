//! `tidegate bench plan`

use std::time::Instant;

use planner::methods::Method;
use planner::{Limits, PlanError, Problem};
use scenarios::Budget;
use schema::{Machine, Trace};
use simulator::in_core;

use crate::commands::compare::methods_of;
use crate::exit::{Exit, Result, WithExit};
use crate::inputs::{InPlace, read_machine, read_trace};
use crate::output::{Format, columns, print, print_json};
use crate::progress::Bar;

#[derive(clap::Args)]
pub struct Args {
    /// Traces, as for `plan` [default: those that are bundled]
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,

    /// The methods, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "METHODS")]
    methods: Vec<String>,

    /// The machine to plan for
    #[arg(long, short, value_name = "MACHINE", default_value = "titan-v")]
    machine: String,

    /// Device memory that a plan may use: an amount, or a share of the in-core peak
    #[arg(long, short, value_name = "BUDGET", default_value = "80%")]
    budget: Budget,

    /// How in-place ops are taken where a trace is a recording
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// Evaluations that one search may make
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().evaluations)]
    evaluations: u64,

    /// How to print the figures
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What it takes to plan one trace with one method, whether or not it finds a plan.
#[derive(serde::Serialize)]
struct Measured {
    trace: String,
    method: &'static str,
    plan_seconds: f64,
    /// Decisions that were evaluated; a method that decides by rule evaluates none.
    evaluations: u64,
    evaluations_per_second: f64,
}

/// Runs the measurement.
pub fn run(args: &Args) -> Result {
    let methods = methods_of(&args.methods, true)?;
    let names = match args.traces.as_slice() {
        [] => scenarios::traces().map(str::to_string).collect(),
        names => names.to_vec(),
    };
    let machine = read_machine(&args.machine)?;
    let mut measured = Vec::new();
    for name in &names {
        let trace = read_trace(name, args.in_place)?;
        for method in &methods {
            measured.push(measure(args, name, &trace, &machine, method.as_ref())?);
        }
    }
    if args.format == Format::Json {
        return print_json(&measured);
    }
    let header = ["trace", "method", "planned in", "evaluations", "a second"];
    let mut rows = vec![header.map(String::from).to_vec()];
    rows.extend(measured.iter().map(|m| {
        vec![
            m.trace.clone(),
            m.method.into(),
            format!("{:.3} s", m.plan_seconds),
            m.evaluations.to_string(),
            format!("{:.0}", m.evaluations_per_second),
        ]
    }));
    print(columns(&rows))
}

fn measure(
    args: &Args,
    name: &str,
    trace: &Trace,
    machine: &Machine,
    method: &dyn Method,
) -> Result<Measured> {
    let budget = Budget::resolve(Some(args.budget), machine, in_core(trace).peak);
    // Its own problem, so that no method gains from what another has worked out.
    let mut problem = Problem::new(trace, machine, budget);
    problem.limits = Limits { evaluations: args.evaluations };
    let bar = Bar::new(method.name());
    let begin = Instant::now();
    let plan = planner::plan(method, &problem, &bar);
    let plan_seconds = begin.elapsed().as_secs_f64();
    if plan == Err(PlanError::Interrupted) {
        let error = anyhow::anyhow!("interrupted");
        return Err(WithExit { exit: Exit::Interrupted, error });
    }
    let evaluations = problem.evaluations_made();
    Ok(Measured {
        trace: name.into(),
        method: method.name(),
        plan_seconds,
        evaluations,
        evaluations_per_second: evaluations as f64 / plan_seconds.max(1e-9),
    })
}
