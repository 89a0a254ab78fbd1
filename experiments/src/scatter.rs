//! Times that scatter: deciding with them in mind, and what a plan makes of them.

use planner::methods::Method;
use planner::{Monitor, PlanError, Problem, Spread};
use schema::{Machine, Plan, Trace};

use crate::compare::{Found, found_by};
use crate::{Error, Inputs, Result};

/// Replays from which the distribution is taken.
const REPLAYS: u32 = 1000;

/// How to decide, and what to show, where times scatter.
#[derive(Default)]
pub struct Scatter {
    /// What a plan is to withstand.
    pub robust: Option<Robust>,
    /// How much times scatter in the replays that are shown.
    pub jitter: Option<Spread>,
}

/// What a robust plan is to withstand.
pub struct Robust {
    spread: Spread,
    quantile: f64,
    /// The trace and the machine with copies and reruns as slow as they are at the quantile.
    slower: (Trace, Machine),
}

impl Robust {
    /// Times that scatter by `spread`, of which plans are judged by a quantile, where copies and reruns
    /// are slower by `factor`.
    pub fn new(inputs: &Inputs, spread: Spread, quantile: f64, factor: f64) -> Self {
        Self { spread, quantile, slower: planner::slower(&inputs.trace, &inputs.machine, factor) }
    }
}

impl Scatter {
    /// Times that scatter by `jitter` in the replays that are shown; a plan that is to withstand a spread of
    /// times, judged by a quantile.
    ///
    /// # Errors
    /// If a spread or the quantile is none.
    pub fn new(inputs: &Inputs, robust: Option<[f64; 2]>, jitter: Option<f64>) -> Result<Self> {
        let of = |option| move |error| Error::Spread(option, error);
        let robust = robust.map(|[spread, quantile]| {
            let spread = Spread::new(spread).map_err(of("--robust"))?;
            let factor = spread.slower(quantile).map_err(of("--quantile"))?;
            Ok::<_, Error>(Robust::new(inputs, spread, quantile, factor))
        });
        let jitter = jitter.map(|spread| Spread::new(spread).map_err(of("--jitter")));
        Ok(Self { robust: robust.transpose()?, jitter: jitter.transpose()? })
    }

    /// Plans with one method. Where the plan is to be robust, there are two: one for the stated
    /// times, one for slower copies and reruns. The one that takes less time at the quantile, over
    /// replays with times that scatter, is the method's.
    ///
    /// # Errors
    /// If there is no plan yet when the search is interrupted, or it cannot be proven safe.
    pub fn result_of(
        &self,
        method: &dyn Method,
        inputs: &Inputs,
        problem: &Problem,
        monitor: &dyn Monitor,
    ) -> Result<Found> {
        let plan = || {
            let stated = planner::plan(method, problem, monitor);
            let stopped = match &stated {
                Ok(plan) => plan.settings.contains_key(planner::INTERRUPTED),
                Err(error) => *error == PlanError::Interrupted,
            };
            let (Some(robust), false) = (&self.robust, stopped) else {
                return stated;
            };
            let (trace, machine) = &robust.slower;
            let mut slower = inputs.conditions.problem(trace, machine, problem.budget);
            // Random states have been left out already.
            slower.budget = problem.budget;
            let slower = match planner::plan(method, &slower, monitor) {
                Ok(plan) => planner::retimed(plan, problem)?,
                Err(PlanError::Interrupted) => return Err(PlanError::Interrupted),
                Err(_) => return stated,
            };
            let time = |plan: &Plan| {
                planner::replays(plan, robust.spread, REPLAYS).quantile(robust.quantile)
            };
            match stated {
                Ok(stated) if time(&stated) <= time(&slower) => Ok(stated),
                _ => Ok(slower),
            }
        };
        let mut found = found_by(method.name(), problem, &inputs.in_core, plan)?;
        if let (Ok(plan), Some(spread)) = (&found.plan, self.jitter) {
            let replays = planner::replays(plan, spread, REPLAYS);
            found.row.jitter = Some(reports::Jitter {
                median: replays.quantile(0.5),
                p90: replays.quantile(0.9),
                p99: replays.quantile(0.99),
                worst: replays.quantile(1.0),
            });
        }
        Ok(found)
    }
}
