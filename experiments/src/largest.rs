//! The largest batch and the smallest budget that a method can plan, by bisection.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use planner::methods::{About, Method};
use planner::{Limits, Monitor, PlanError, Problem, Progress};
use reports::Comparison;
use schema::{Bytes, InCore, Machine, Nanos, Trace};
use serde::Serialize;
use simulator::in_core;

use crate::compare::{Found, comparison, result_of};
use crate::rates::range_of;
use crate::recipes::description_of;
use crate::{CompressedForms, Conditions, Error, Result, published_figures};

/// What a method is asked for, apart from the trace and the budget.
pub struct Question<'a> {
    /// What carries the plan out.
    pub machine: &'a Machine,
    /// The machine for which the method decides, where it is another.
    pub decided_on: Option<(&'a Machine, &'a Trace)>,
    /// The method.
    pub method: &'a dyn Method,
    /// What its plan may do.
    pub conditions: &'a Conditions,
    /// Whether it searches only as long as it takes to know that there is a plan.
    pub probes: bool,
    /// The epoch that is planned, and how many the training has.
    pub epoch: Option<(u32, u32)>,
}

/// A trace under a budget, and what the method found.
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Budgeted {
    pub trace: Trace,
    /// Its iteration without a memory limit.
    pub in_core: InCore,
    pub budget: Bytes,
    pub found: Found,
}

/// Batches beyond this are none that anybody trains with.
const LARGEST_BATCH: u32 = 1 << 20;

/// A probe asks whether there is a plan, not for the best one: its searches are this short.
const PROBE: Limits = Limits { evaluations: 64 };

impl<'a> Question<'a> {
    fn problem<'p>(&self, trace: &'p Trace, machine: &'p Machine, budget: Bytes) -> Problem<'p> {
        let mut problem = self.conditions.problem(trace, machine, budget);
        if self.probes {
            problem.limits.evaluations = problem.limits.evaluations.min(PROBE.evaluations);
        }
        problem
    }

    /// Plans one trace under one budget.
    ///
    /// # Errors
    /// If the search is interrupted, or its plan cannot be proven safe.
    pub fn answer(&self, trace: &Trace, budget: Bytes, monitor: &dyn Monitor) -> Result<Found> {
        let problem = self.problem(trace, self.machine, budget);
        let in_core = in_core(trace);
        match self.decided_on {
            None => {
                let range = self.epoch.and_then(|_| range_of(self.method, &problem));
                let parameter = range.zip(self.epoch).map(|(range, (now, all))| range.at(now, all));
                let slid = parameter.and_then(|parameter| self.method.with_parameter(parameter));
                result_of(slid.as_deref().unwrap_or(self.method), &problem, monitor, &in_core)
            }
            Some((machine, trace)) => {
                let elsewhere = self.problem(trace, machine, budget);
                let decided = planner::decisions(self.method, &elsewhere, monitor);
                let method = Alone { method: self.method, decided: Some(decided) };
                result_of(&method, &problem, monitor, &in_core)
            }
        }
    }

    /// Whether the method has a plan at all.
    ///
    /// [`planner::plan`] falls back on the methods that a method includes. They search less, so
    /// they are asked first: where one of them has a plan, there is no need to search.
    pub(crate) fn fits(&self, trace: &Trace, budget: Bytes, monitor: &dyn Monitor) -> Result<bool> {
        if self.decided_on.is_none() {
            for included in self.method.includes() {
                let question = Question { method: included.as_ref(), ..*self };
                if question.fits(trace, budget, monitor)? {
                    return Ok(true);
                }
            }
        }
        let alone = Alone { method: self.method, decided: None };
        let monitor = UntilFound { monitor, found: AtomicBool::new(false) };
        match (Question { method: &alone, ..self.probe() }).answer(trace, budget, &monitor) {
            Ok(found) => Ok(found.plan.is_ok()),
            // The search was ended because it has a plan.
            Err(Error::Interrupted(_)) if monitor.found.load(Ordering::Relaxed) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The same with short searches.
    fn probe(&self) -> Self {
        Question { probes: true, ..*self }
    }

    /// The plan where a probe found one: at the edge of what fits, a longer search can end with
    /// decisions that no order of addresses carries out, and then the probe's plan counts.
    fn best(&self, trace: &Trace, budget: Bytes, monitor: &dyn Monitor) -> Result<Found> {
        let found = self.answer(trace, budget, monitor)?;
        if found.plan.is_ok() { Ok(found) } else { self.probe().answer(trace, budget, monitor) }
    }
}

/// Waits for any plan, and wants no better one.
struct UntilFound<'a> {
    monitor: &'a dyn Monitor,
    found: AtomicBool,
}

impl Monitor for UntilFound<'_> {
    fn proceed(&self, progress: Progress) -> bool {
        !self.found.load(Ordering::Relaxed) && self.monitor.proceed(progress)
    }

    fn found(&self, _: Nanos) {
        self.found.store(true, Ordering::Relaxed);
    }

    fn step(&self, name: &str) {
        self.monitor.step(name);
    }
}

/// A method without those that it includes: its own decisions are what is asked about.
struct Alone<'a> {
    method: &'a dyn Method,
    /// What it decided for another machine than the one that carries it out, or why there it has no plan.
    decided: Option<std::result::Result<planner::Decided, PlanError>>,
}

impl Method for Alone<'_> {
    fn about(&self) -> About {
        self.method.about()
    }

    fn batches_are_powers_of_two(&self) -> bool {
        self.method.batches_are_powers_of_two()
    }

    fn decide(
        &self,
        problem: &Problem,
        target: Bytes,
        monitor: &dyn Monitor,
    ) -> std::result::Result<planner::Decided, PlanError> {
        match &self.decided {
            Some(decided) => decided.clone(),
            None => self.method.decide(problem, target, monitor),
        }
    }

    fn targets(&self) -> &'static [u64] {
        self.method.targets()
    }
}

/// The largest batch for which the method has a plan: doubled from 1 until there is none, then
/// bisected, unless only powers of two are asked for, or the method trains with these. That a smaller batch fits where a larger one does
/// is taken for granted. For a method that cannot even plan one sample, the answer is that failure.
///
/// # Errors
/// If there is no such network, the search is interrupted, or a plan cannot be proven safe.
pub fn largest_batch(
    question: &Question,
    (trace, powers_of_two): (&dyn Fn(u32) -> Result<Trace>, bool),
    budget: &dyn Fn(Bytes) -> Bytes,
    monitor: &dyn Monitor,
) -> Result<Budgeted> {
    // Beyond the first sample, a batch that no trace can hold is one that does not fit.
    let fits = |batch| -> Result<bool> {
        let Ok(trace) = trace(batch) else { return Ok(false) };
        monitor.step(&format!("batch {batch}"));
        question.fits(&trace, budget(in_core(&trace).peak), monitor)
    };
    let finish = |batch| -> Result<Budgeted> {
        let trace = trace(batch)?;
        let in_core = in_core(&trace);
        let budget = budget(in_core.peak);
        let found = question.best(&trace, budget, monitor)?;
        Ok(Budgeted { trace, in_core, budget, found })
    };
    trace(1)?;
    let (mut most, mut beyond) = (0, 1);
    let so_far = |error, most: u32, beyond: Option<u32>| {
        let beyond =
            beyond.map_or("larger batches were not tried".into(), |b| format!("{b} does not"));
        of_search(error, (most > 0).then(|| format!("batch {most} fits, {beyond}")))
    };
    while beyond <= LARGEST_BATCH && fits(beyond).map_err(|error| so_far(error, most, None))? {
        (most, beyond) = (beyond, beyond * 2);
    }
    let bisects = !powers_of_two && !question.method.batches_are_powers_of_two();
    while bisects && beyond - most > 1 {
        let middle = most + (beyond - most) / 2;
        let fits = fits(middle).map_err(|error| so_far(error, most, Some(beyond)))?;
        if fits { most = middle } else { beyond = middle }
    }
    finish(most.max(1))
}

/// The smallest budget under which the method has a plan, to a thousandth of the in-core peak.
///
/// # Errors
/// If the search is interrupted, or a plan cannot be proven safe.
pub fn smallest_budget(
    question: &Question,
    trace: Trace,
    monitor: &dyn Monitor,
) -> Result<Budgeted> {
    let in_core = in_core(&trace);
    let step = (in_core.peak.0 / 1000).max(1);
    // In steps: 0 never fits, 1005 leaves room for packing.
    let (mut under, mut enough) = (0, 1005);
    while enough - under > 1 {
        let middle = under + (enough - under) / 2;
        let budget = Bytes(middle * step);
        monitor.step(&format!("budget {budget}"));
        let fits = question.fits(&trace, budget, monitor).map_err(|error| {
            let known = (enough < 1005).then(|| format!("{} fit", Bytes(enough * step)));
            of_search(error, known.map(|fit| format!("{fit}, {} do not", Bytes(under * step))))
        })?;
        if fits { enough = middle } else { under = middle }
    }
    let budget = Bytes(enough * step);
    let found = question.best(&trace, budget, monitor)?;
    Ok(Budgeted { trace, in_core, budget, found })
}

/// An error of a search; of one that was interrupted, with what is known by then.
fn of_search(error: Error, known: Option<String>) -> Error {
    match (error, known) {
        (Error::Interrupted(_), Some(known)) => Error::SearchInterrupted(known),
        (error, _) => error,
    }
}

/// What was found, with the plan's figures.
#[derive(Serialize)]
pub struct Largest {
    find: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<u32>,
    /// Memory of the smallest device: the plan's, and what the machine reserves.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_memory_bytes: Option<Bytes>,
    /// The plan beside the iteration without a memory limit.
    pub comparison: Comparison,
    #[serde(skip)]
    what: String,
    #[serde(skip)]
    says: String,
}

impl Largest {
    /// Of an answer about a machine: the smallest device, or the largest batch. `asked` are the method, the
    /// network and the machine, as they were named.
    pub fn new(answer: Budgeted, machine: &Machine, device: bool, asked: [&str; 3]) -> Self {
        let Budgeted { trace, in_core, budget, found } = answer;
        let plan = found.plan.as_ref().ok();
        let problem = Problem::new(&trace, machine, budget);
        let bound = plan.and_then(|plan| plan.predicted.bound);
        let comparison = comparison(&problem, &in_core, bound, vec![found.row]);
        let batch = trace.batch.filter(|_| plan.is_some());
        let device_memory_bytes = plan.filter(|_| device).map(|_| budget + machine.device.reserved);
        let [method, network, named] = asked;
        let mut says = match (device_memory_bytes, batch) {
            (Some(memory), _) => format!(
                "\nthe smallest device for {} with {method}: {budget} for the plan, {memory} with what \
                 {} reserves\n",
                trace.title(),
                machine.name
            ),
            (None, Some(batch)) => format!(
                "\nthe largest batch of {} with {method} within {budget}: {batch}\n",
                trace.network
            ),
            (None, None) => String::new(),
        };
        if let Some(plan) = plan {
            says += &CompressedForms::of(plan, &trace).sentence();
        }
        says += &published_figures("largest", method, network, named);
        let find = if device { "smallest-budget" } else { "largest-batch" };
        let what = description_of(&trace, Some(machine));
        Self { find, batch, device_memory_bytes, comparison, what, says }
    }

    /// That there is no plan.
    pub fn no_plan(&self) -> String {
        let Comparison { methods, budget, .. } = &self.comparison;
        format!("{} fits no batch within {budget}", methods[0].method)
    }
}

impl fmt::Display for Largest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}{}", self.what, reports::table(&self.comparison, true), self.says)
    }
}
