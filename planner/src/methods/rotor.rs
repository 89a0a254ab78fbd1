//! Optimal checkpointing of heterogeneous chains.

mod programme;

use schema::Bytes;
use simulator::{Evaluator, Policy, Step};

use crate::method::{About, Method, needs_recompute};
use crate::methods::chain::{Chain, Costs, carry_out};
use crate::methods::revolve;
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Result};

pub(super) use programme::{Programme, SLOTS};

/// `rotor` (Beaumont et al., "Optimal checkpointing for heterogeneous chains", RR-9302, 2019): of
/// all persistent schedules of a chain the fastest, by their dynamic programme. For the
/// stages `s` to `t` with `m` bytes beside the input of `s`, either the input becomes a checkpoint
/// and the stages up to some `s'` run forward without saving, or `s` saves all:
///
/// > C_BP(s, t, m) = min(C_ck, C_all)
/// > C_ck = min over s' of sum u_f(s..s'-1) + C_BP(s', t, m - w_a(s'-1)) + C_BP(s, s'-1, m)
/// > C_all = u_f(s) + C_BP(s+1, t, m - w_abar(s)) + u_b(s)
///
/// Memory is counted in 500 slots, sizes rounded up, as in the authors' code. We depart in one
/// point: a trace's stages also hold what the paper's model has no term for (gradients of
/// parameters, tensors that skip stages), and give some of what it counts back earlier. So the
/// slots are those with which everything could be kept, and the programme is allowed as many of
/// them as lead to a schedule that fits when it is evaluated op by op.
pub struct Rotor;

impl Method for Rotor {
    fn about(&self) -> About {
        About {
            name: "rotor",
            summary: "recompute by the optimal persistent schedule of the chain of stages",
            source: "Optimal checkpointing for heterogeneous chains (Beaumont et al., 2019)",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        needs_recompute(problem)?;
        let chain = Chain::of(problem)?;
        let costs = Costs::of(problem, &chain);
        let programme = Programme::solve(&costs, monitor)?;
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let steps = most_slots_that_fit(problem, &chain, &programme, &mut evaluator)?;
        Ok(Decided::from_steps(problem, steps, Policy::EARLY))
    }

    fn uses(&self) -> Allowed {
        Allowed::RERUNS
    }
}

/// The schedule for as many slots as fit; where even the programme's most frugal schedule does not,
/// the chain is reversed from its input alone.
fn most_slots_that_fit(
    problem: &Problem,
    chain: &Chain,
    programme: &Programme,
    evaluator: &mut Evaluator,
) -> Result<Vec<Step>> {
    let mut attempt = |operations: &[_]| {
        let steps = carry_out(problem, chain, operations, &vec![false; chain.len()]);
        evaluator.evaluate_steps(&steps).map(|_| steps)
    };
    let mut best = None;
    if let Some(fewest) = programme.fewest_slots() {
        let (mut fit, mut too_many) = (fewest, SLOTS + 1);
        // All slots first, then the fewest, then in between.
        let mut slots = SLOTS;
        while fit < too_many {
            match attempt(&programme.schedule(slots)) {
                Ok(steps) => {
                    best = Some(steps);
                    fit = slots + 1;
                }
                Err(_) => too_many = slots,
            }
            slots = if best.is_none() { fewest } else { fit + too_many.saturating_sub(fit) / 2 };
        }
    }
    match best {
        Some(steps) => Ok(steps),
        None => attempt(&revolve::schedule(chain.len(), 1))
            .map_err(|cause| PlanError::from_infeasible(cause, problem.budget)),
    }
}
