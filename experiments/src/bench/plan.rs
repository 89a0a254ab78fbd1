//! How long planning takes.

use std::sync::OnceLock;
use std::time::Instant;

use planner::methods::Method;
use planner::{Monitor, PlanError, Problem, Progress};
use scenarios::Budget;
use schema::{Bytes, Machine, Nanos, Trace};
use serde::Serialize;
use simulator::{Policy, Treatment, in_core};

use super::{Bench, Measured, chain, slope, uneven};
use crate::{Conditions, Error, Result};

/// Evaluations that are timed for how they grow.
const EVALUATIONS: u32 = 21;

/// From as many ops on, a trace is large.
const LARGE: f64 = 10_000.0;

/// What it takes to plan one trace with one method, whether or not it finds a plan.
#[derive(Serialize)]
pub struct Planning {
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

impl Measured for Planning {
    const HEAD: &'static [&'static str] =
        &["trace", "method", "first plan", "planned in", "evaluations", "a second"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.trace.clone(),
            self.method.into(),
            self.first_plan_seconds.map_or("none".into(), |first| format!("{first:.3} s")),
            format!("{:.3} s", self.plan_seconds),
            self.evaluations.to_string(),
            format!("{:.0}", self.evaluations_per_second),
        ]
    }
}

/// Times planning of named traces, and of synthetic ones of up to so many ops on a host with room for
/// everything. Whoever waits is asked for anew for each method.
///
/// # Errors
/// If it is interrupted.
pub fn planning<M: Monitor>(
    named: &[(String, Trace)],
    methods: &[Box<dyn Method>],
    (machine, budget): (&Machine, Budget),
    conditions: &Conditions,
    most_ops: u64,
    monitor: impl Fn(&str) -> M,
) -> Result<Bench<Planning>> {
    let measure = |name: &str, trace: &Trace, machine: &Machine, method: &dyn Method| {
        let budget = Budget::resolve(Some(budget), machine, in_core(trace).peak);
        // Its own problem, so that no method gains from what another has worked out.
        let problem = conditions.problem(trace, machine, budget);
        measure(name, &problem, method, &monitor(method.name()))
    };
    let mut rows = Vec::new();
    for (name, trace) in named {
        for method in methods {
            rows.push(measure(name, trace, machine, method.as_ref())?);
        }
    }
    let known = rows.len();
    let roomy = Machine { host: schema::Host::new(Bytes(u64::MAX >> 8)), ..machine.clone() };
    for (ops, trace) in swept(most_ops) {
        for method in methods {
            rows.push(measure(&format!("synthetic {ops}"), &trace, &roomy, method.as_ref())?);
        }
    }
    let mut notes = String::new();
    for method in methods {
        let swept = rows[known..].iter().filter(|m| m.method == method.name());
        let points = swept.map(|m| (m.ops as f64, m.plan_seconds));
        notes += &growth(&format!("{}: planning time", method.name()), points);
    }
    let points =
        swept(most_ops).map(|(ops, trace)| (ops as f64, evaluation_seconds(&trace, &roomy)));
    notes += &growth("an evaluation alone, from the start: its time", points);
    Ok(Bench { rows, notes })
}

/// How a time grows with the number of ops, if there are two sizes: from [`LARGE`] on where two of them are
/// that large, since smaller ones say more about caches than about what is done.
fn growth(what: &str, points: impl Iterator<Item = (f64, f64)>) -> String {
    let all: Vec<(f64, f64)> = points.collect();
    let large: Vec<(f64, f64)> = all.iter().copied().filter(|(ops, _)| *ops >= LARGE).collect();
    let points = if large.len() > 1 { large } else { all };
    let Some(((first, _), (slope, fit))) = points.first().copied().zip(slope(points.into_iter()))
    else {
        return String::new();
    };
    format!(
        "{what} grows with the power {slope:.2} of the number of ops, from {first} ops on (1 is linear; \
         R^2 {fit:.3})\n"
    )
}

/// Synthetic traces of up to so many ops, by their number of ops.
fn swept(most_ops: u64) -> impl Iterator<Item = (u64, Trace)> {
    let sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].into_iter().map(|ops| 1000 * ops);
    sizes.take_while(move |ops| *ops <= most_ops).map(|ops| (ops, chain(ops, uneven)))
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

/// Notes when there is a first plan.
struct Clock<'a> {
    monitor: &'a dyn Monitor,
    begin: Instant,
    first: OnceLock<f64>,
}

impl Monitor for Clock<'_> {
    fn proceed(&self, progress: Progress) -> bool {
        self.monitor.proceed(progress)
    }

    fn found(&self, iteration: Nanos) {
        self.first.get_or_init(|| self.begin.elapsed().as_secs_f64());
        self.monitor.found(iteration);
    }

    fn step(&self, name: &str) {
        self.monitor.step(name);
    }
}

fn measure(
    name: &str,
    problem: &Problem,
    method: &dyn Method,
    monitor: &dyn Monitor,
) -> Result<Planning> {
    let clock = Clock { monitor, begin: Instant::now(), first: OnceLock::new() };
    let plan = planner::plan(method, problem, &clock);
    let plan_seconds = clock.begin.elapsed().as_secs_f64();
    let cut_short = match &plan {
        Ok(plan) => plan.settings.contains_key(planner::INTERRUPTED),
        Err(error) => *error == PlanError::Interrupted,
    };
    if cut_short {
        return Err(Error::Interrupted("interrupted"));
    }
    let evaluations = problem.evaluations_made();
    Ok(Planning {
        trace: name.into(),
        ops: problem.trace.ops.len(),
        method: method.name(),
        first_plan_seconds: clock.first.get().copied(),
        plan_seconds,
        evaluations,
        evaluations_per_second: evaluations as f64 / plan_seconds.max(1e-9),
    })
}
