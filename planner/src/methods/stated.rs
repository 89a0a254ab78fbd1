//! Decisions that somebody else made.

use schema::Bytes;
use simulator::{GapId, Policy, Treatment};

use crate::method::{About, Method, needs_recompute, needs_swap};
use crate::{Decided, Monitor, PlanError, Problem, Result};

/// Decisions that somebody else made, such as a framework's policy, to be lowered, proven and timed like
/// any other. They fit or they do not.
pub struct Stated {
    /// One for each gap of the problem's model.
    pub treatments: Vec<Treatment>,
    /// The gaps that were decided about.
    pub considered: Vec<GapId>,
}

impl Method for Stated {
    fn about(&self) -> About {
        About {
            name: "policy",
            summary: "what a policy says, op by op or module by module",
            source: "the policy's file",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        let has = |wanted: Treatment| self.treatments.contains(&wanted);
        if has(Treatment::Swap) {
            needs_swap(problem)?;
        }
        if has(Treatment::Recompute) {
            needs_recompute(problem)?;
        }
        let outcome = problem.evaluator(Policy::EARLY, target).evaluate(&self.treatments);
        outcome.map_err(|cause| PlanError::from_infeasible(cause, problem.budget))?;
        Ok(Decided::new(self.treatments.clone(), Policy::EARLY, self.considered.clone()))
    }

    fn targets(&self) -> &'static [u64] {
        &[1000]
    }
}
