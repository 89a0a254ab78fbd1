//! From a method's decisions to its plan.

use schema::{Bytes, Plan};
use simulator::{GapId, Policy, Treatment};

use crate::methods::Method;
use crate::{PlanError, Problem, Watch, bound, lower};

/// Decisions, and when copies start under them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// One for each gap of the problem's model.
    pub treatments: Vec<Treatment>,
    /// When copies start.
    pub policy: Policy,
    /// The gaps that the method considered.
    pub considered: Vec<GapId>,
    /// Memory is given back when the framework did so, not after the last use.
    pub as_recorded: bool,
}

/// Shares of the budget for which a method decides, one after another, until its decisions can be
/// lowered.
const DECIDED_PERMILLE: [u64; 8] = [1000, 990, 980, 965, 940, 900, 850, 800];

/// How often a decision is lowered with ever less memory until its buffers can be packed into the
/// whole budget: what fits byte for byte need not fit address for address, and copies in that
/// start a little later leave room.
const LOWERINGS: usize = 8;

/// Plans with a method: of the decisions that it comes up with, those that are fastest when they
/// are lowered.
///
/// Each decision is lowered in the same way, whichever method it comes from, and a method decides
/// for smaller targets until all its candidates could be lowered. One whose candidates include
/// another's thus never does worse than that one.
pub fn plan(method: &dyn Method, problem: &Problem, watch: &dyn Watch) -> Result<Plan, PlanError> {
    let mut failure = None;
    let mut best: Option<Plan> = None;
    let mut tried: Vec<Decided> = Vec::new();
    for permille in DECIDED_PERMILLE {
        let candidates = match method.decide(problem, share(problem.budget, permille), watch) {
            Ok(candidates) => candidates,
            Err(PlanError::Interrupted) => return Err(PlanError::Interrupted),
            Err(error) => {
                failure.get_or_insert(error);
                break;
            }
        };
        let mut all_lowered = true;
        for candidate in candidates {
            if tried.contains(&candidate) {
                continue;
            }
            match lower_where_it_fits(problem, &candidate) {
                Ok(plan) => {
                    let time = plan.predicted.iteration;
                    if best.as_ref().is_none_or(|best| time < best.predicted.iteration) {
                        best = Some(plan);
                    }
                }
                Err(error) => {
                    all_lowered = false;
                    failure.get_or_insert(error);
                }
            }
            tried.push(candidate);
        }
        if all_lowered {
            break;
        }
    }
    match best {
        Some(mut plan) => {
            plan.method = method.name().to_string();
            plan.predicted.bound = bound(problem).time();
            Ok(plan)
        }
        None => Err(failure.expect("a method decides something or says why not")),
    }
}

fn lower_where_it_fits(problem: &Problem, decided: &Decided) -> Result<Plan, PlanError> {
    let mut failure = None;
    let mut target = problem.budget;
    for _ in 0..LOWERINGS {
        match lower(problem, target, decided) {
            Ok(plan) => return Ok(plan),
            Err(error @ PlanError::Fragmented { short_by, budget }) => {
                failure.get_or_insert(error);
                // As if the arena shrank with the target, and a little more.
                let wanted = u128::from(target.0) * u128::from(budget.0);
                target = Bytes((wanted / u128::from((budget + short_by).0)) as u64);
                target = share(target, 998);
            }
            // What does not fit this target fits no smaller one.
            Err(error) => return Err(failure.unwrap_or(error)),
        }
    }
    Err(failure.expect("there is at least one lowering"))
}

fn share(budget: Bytes, permille: u64) -> Bytes {
    Bytes((u128::from(budget.0) * u128::from(permille) / 1000) as u64)
}
