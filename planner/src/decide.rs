//! From a method's decisions to its plan.

use schema::{Bytes, Plan};
use simulator::{GapId, Policy, Treatment};

use crate::methods::Method;
use crate::{PlanError, Problem, Watch, lower};

/// Decisions, and when copies start under them.
#[derive(Debug, Clone)]
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

/// Shares of the budget for which a method decides, one after another, until its buffers can be
/// packed into the whole budget: what fits byte for byte need not fit address for address.
const TARGETS_PERMILLE: [u64; 7] = [1000, 995, 990, 980, 960, 930, 900];

/// Plans with a method: of the decisions that it comes up with, those that are fastest when they
/// are lowered.
pub fn plan(method: &dyn Method, problem: &Problem, watch: &dyn Watch) -> Result<Plan, PlanError> {
    let mut failure = None;
    for permille in TARGETS_PERMILLE {
        let target = Bytes((u128::from(problem.budget.0) * u128::from(permille) / 1000) as u64);
        let decided = match method.decide(problem, target, watch) {
            Ok(decided) => decided,
            Err(error) => return Err(failure.unwrap_or(error)),
        };
        let mut best: Option<Plan> = None;
        for decided in decided {
            match lower(problem, target, &decided) {
                Ok(plan) => {
                    let faster = |best: &Plan| plan.predicted.iteration < best.predicted.iteration;
                    if best.as_ref().is_none_or(faster) {
                        best = Some(plan);
                    }
                }
                Err(error) => failure = Some(failure.unwrap_or(error)),
            }
        }
        if let Some(mut plan) = best {
            plan.method = method.name().to_string();
            return Ok(plan);
        }
        if !matches!(failure, Some(PlanError::Fragmented { .. })) {
            break;
        }
    }
    Err(failure.expect("every method decides something or says why not"))
}
