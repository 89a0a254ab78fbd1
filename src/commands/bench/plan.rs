//! `tidegate bench plan`

use std::sync::OnceLock;
use std::time::Instant;

use planner::methods::Method;
use planner::{Allowed, Limits, Monitor, PlanError, Problem, Progress};
use scenarios::Budget;
use schema::{Bytes, Machine, Nanos, Trace};
use simulator::{Policy, Treatment, in_core};

use crate::commands::bench::{slope, synthetic};
use crate::commands::compare::methods_of;
use crate::exit::{Exit, Result, WithExit};
use crate::inputs::{Allow, InPlace, read_machine, read_trace};
use crate::networks::{NetworkArgs, is_network};
use crate::output::{Format, columns, print, print_json};
use crate::progress::Bar;
use crate::signals::interrupted;

/// Evaluations that are timed for how they grow.
const EVALUATIONS: u32 = 21;

/// From as many ops on, a trace is large.
const LARGE: f64 = 10_000.0;

#[derive(clap::Args)]
pub struct Args {
    /// Networks, with --batch, or traces, as for `plan` [default: the traces that are bundled]
    #[arg(value_name = "NETWORK|TRACE")]
    traces: Vec<String>,

    #[command(flatten)]
    network: NetworkArgs,

    /// Also plan synthetic traces of 1,000 ops and more, up to as many (at most 1,000,000), on a host with
    /// room for everything, and print how planning time grows
    #[arg(long, value_name = "OPS", default_value_t = 0)]
    sweep: u64,

    /// The methods, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "METHODS")]
    methods: Vec<String>,

    /// The machine to plan for
    #[arg(long, short, value_name = "MACHINE", default_value = "titan-v")]
    machine: String,

    /// Device memory that a plan may use: an amount, or a share of the in-core peak
    #[arg(long, short, value_name = "BUDGET", default_value = "80%")]
    budget: Budget,

    /// What a method may decide besides keeping a tensor
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CHOICES",
        default_value = "keep,swap,recompute,compress"
    )]
    allow: Vec<Allow>,

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
    ops: usize,
    method: &'static str,
    /// Until there was a plan that could have been taken; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_plan_seconds: Option<f64>,
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
        let trace = args.trace(name, &machine)?;
        for method in &methods {
            measured.push(measure(args, name, &trace, &machine, method.as_ref())?);
        }
    }
    let known = measured.len();
    let roomy = Machine { host: schema::Host { memory: Bytes(u64::MAX >> 8) }, ..machine.clone() };
    for (ops, trace) in swept(args) {
        for method in &methods {
            let name = format!("synthetic {ops}");
            measured.push(measure(args, &name, &trace, &roomy, method.as_ref())?);
        }
    }
    if args.format == Format::Json {
        return print_json(&measured);
    }
    let header = ["trace", "method", "first plan", "planned in", "evaluations", "a second"];
    let mut rows = vec![header.map(String::from).to_vec()];
    rows.extend(measured.iter().map(|m| {
        vec![
            m.trace.clone(),
            m.method.into(),
            m.first_plan_seconds.map_or("none".into(), |first| format!("{first:.3} s")),
            format!("{:.3} s", m.plan_seconds),
            m.evaluations.to_string(),
            format!("{:.0}", m.evaluations_per_second),
        ]
    }));
    print(columns(&rows))?;
    for method in &methods {
        let swept = measured[known..].iter().filter(|m| m.method == method.name());
        print_growth(
            &format!("{}: planning time", method.name()),
            swept.map(|m| (m.ops as f64, m.plan_seconds)),
        )?;
    }
    let points = swept(args).map(|(ops, trace)| (ops as f64, evaluation_seconds(&trace, &roomy)));
    print_growth("an evaluation alone, from the start: its time", points)
}

/// Prints how a time grows with the number of ops, if there are two sizes: from [`LARGE`] on where two of
/// them are that large, since smaller ones say more about caches than about what is done.
fn print_growth(what: &str, points: impl Iterator<Item = (f64, f64)>) -> Result {
    let all: Vec<(f64, f64)> = points.collect();
    let large: Vec<(f64, f64)> = all.iter().copied().filter(|(ops, _)| *ops >= LARGE).collect();
    let points = if large.len() > 1 { large } else { all };
    let Some(((first, _), (slope, fit))) = points.first().copied().zip(slope(points.into_iter()))
    else {
        return Ok(());
    };
    print(format!(
        "{what} grows with the power {slope:.2} of the number of ops, from {first} ops on (1 is linear; \
         R^2 {fit:.3})\n"
    ))
}

/// The synthetic traces that are asked for, by their number of ops.
fn swept(args: &Args) -> impl Iterator<Item = (u64, Trace)> {
    let sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].into_iter().map(|ops| 1000 * ops);
    let sizes = sizes.take_while(|ops| *ops <= args.sweep);
    sizes.map(|ops| (ops, synthetic::chain(ops, synthetic::uneven)))
}

/// The shortest of some evaluations from the start, of swapping every feature map with no more memory than
/// that takes.
fn evaluation_seconds(trace: &Trace, machine: &Machine) -> f64 {
    let problem = Problem::new(trace, machine, in_core(trace).peak);
    let mut treatments = problem.keep_all();
    problem.feature_maps.iter().for_each(|gap| treatments[*gap] = Treatment::Swap);
    let swapped = problem.evaluator(Policy::EARLY, problem.budget).evaluate(&treatments);
    let least = swapped.map_or(problem.budget, |outcome| outcome.peak);
    let time = |_| {
        let mut evaluator = problem.evaluator(Policy::EARLY, least);
        let begin = Instant::now();
        let _ = std::hint::black_box(evaluator.evaluate(&treatments));
        begin.elapsed().as_secs_f64()
    };
    (0..EVALUATIONS).map(time).fold(f64::INFINITY, f64::min)
}

impl Args {
    fn trace(&self, name: &str, machine: &Machine) -> Result<Trace> {
        if !is_network(name) {
            return read_trace(name, self.in_place);
        }
        self.network.modelled_trace(name, machine)
    }

    fn allowed(&self) -> Allowed {
        Allowed {
            swap: self.allow.contains(&Allow::Swap),
            recompute: self.allow.contains(&Allow::Recompute),
            compress: false,
        }
    }
}

/// Notes when there is a first plan.
struct Clock {
    bar: Bar,
    begin: Instant,
    first: OnceLock<f64>,
}

impl Monitor for Clock {
    fn proceed(&self, progress: Progress) -> bool {
        self.bar.proceed(progress)
    }

    fn found(&self, iteration: Nanos) {
        self.first.get_or_init(|| self.begin.elapsed().as_secs_f64());
        self.bar.found(iteration);
    }
}

fn measure(
    args: &Args,
    name: &str,
    trace: &Trace,
    machine: &Machine,
    method: &dyn Method,
) -> Result<Measured> {
    let budget = Budget::resolve(Some(args.budget), machine, in_core(trace).peak);
    let clock =
        Clock { bar: Bar::new(method.name()), begin: Instant::now(), first: OnceLock::new() };
    // Its own problem, so that no method gains from what another has worked out.
    let problem = Problem::new(trace, machine, budget)
        .with_evaluations(args.evaluations)
        .with_allowed(args.allowed());
    let plan = planner::plan(method, &problem, &clock);
    let plan_seconds = clock.begin.elapsed().as_secs_f64();
    if plan == Err(PlanError::Interrupted) || interrupted() {
        let error = anyhow::anyhow!("interrupted");
        return Err(WithExit { exit: Exit::Interrupted, error });
    }
    let evaluations = problem.evaluations_made();
    Ok(Measured {
        trace: name.into(),
        ops: trace.ops.len(),
        method: method.name(),
        first_plan_seconds: clock.first.get().copied(),
        plan_seconds,
        evaluations,
        evaluations_per_second: evaluations as f64 / plan_seconds.max(1e-9),
    })
}
