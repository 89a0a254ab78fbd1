//! Times that scatter: deciding with them in mind, and what a plan makes of them.

use clap::Args;
use planner::methods::Method;
use planner::{Monitor, PlanError, Problem, Spread};
use schema::{Machine, Plan, Trace};

use crate::commands::compare::{Found, found_by};
use crate::exit::{Result, usage};
use crate::inputs::Inputs;

/// Replays from which the distribution is taken.
const REPLAYS: u32 = 1000;

/// How times scatter.
#[derive(Debug, Args)]
pub struct ScatterArgs {
    /// Plan for times that scatter by this much, such as `10%` (standard deviation over mean): once
    /// as stated and once as if copies and reruns were as slow as they are at --quantile, and take
    /// the plan that is faster at --quantile over 1,000 replays. Shown is its time as stated
    #[arg(long, value_name = "SPREAD")]
    robust: Option<Percent>,

    /// What --robust goes by: the time that this share of all replays does not exceed
    #[arg(long, value_name = "SHARE", default_value = "90%", requires = "robust")]
    quantile: Percent,

    /// Replay each plan 1,000 times with times that scatter by this much, such as `10%`: each
    /// action's on its own, the link's from replay to replay; shows the median, the time that 90 and
    /// 99 of 100 replays do not exceed, and the worst
    #[arg(long, value_name = "SPREAD")]
    jitter: Option<Percent>,
}

/// A share in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(pub f64);

impl std::str::FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
        match number.filter(|number: &f64| number.is_finite() && *number >= 0.0) {
            Some(number) => Ok(Self(number)),
            None => Err("write a share in percent, such as 10%".into()),
        }
    }
}

impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// How to decide, and what to show, where times scatter.
pub struct Scatter {
    robust: Option<Robust>,
    jitter: Option<Spread>,
}

/// What a robust plan is to withstand.
struct Robust {
    spread: Spread,
    quantile: f64,
    /// The trace and the machine with copies and reruns as slow as they are at the quantile.
    slower: (Trace, Machine),
}

impl ScatterArgs {
    /// What the arguments ask for.
    pub fn read(&self, inputs: &Inputs) -> Result<Scatter> {
        let spread = |option: &str, percent: Percent| {
            Spread::new(percent.0 / 100.0).map_err(|error| usage(format!("{option}: {error}")))
        };
        let robust = match self.robust {
            Some(percent) => {
                let (spread, quantile) = (spread("--robust", percent)?, self.quantile.0 / 100.0);
                let factor = spread.slower(quantile);
                let factor = factor.map_err(|error| usage(format!("--quantile: {error}")))?;
                let slower = planner::slower(&inputs.trace, &inputs.machine, factor);
                Some(Robust { spread, quantile, slower })
            }
            None => None,
        };
        let jitter = self.jitter.map(|percent| spread("--jitter", percent)).transpose()?;
        Ok(Scatter { robust, jitter })
    }

    /// What a plan's settings say of these arguments.
    pub fn settings(&self) -> Option<(String, String)> {
        let robust = self.robust?;
        Some(("robust".into(), format!("{robust} at {}", self.quantile)))
    }
}

impl Scatter {
    /// Plans with one method. Where the plan is to be robust, there are two: one for the stated
    /// times, one for slower copies and reruns. The one that takes less time at the quantile, over
    /// replays with times that scatter, is the method's.
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
            let slower = inputs.problem_of(trace, machine, problem.budget);
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
