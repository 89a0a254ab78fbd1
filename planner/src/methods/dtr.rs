//! Dynamic Tensor Rematerialization.

mod classes;
mod pool;
mod runtime;
mod tournament;

use schema::{Bytes, Nanos};
use simulator::{Policy, Step};

use crate::method::{About, Method, needs_recompute};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Result};

/// DTR (Kirisame et al., ICLR 2021): a greedy online policy. Whenever an allocation does not fit,
/// the tensor with the smallest `h` is evicted; an evicted tensor that is read is computed again,
/// recursively. Eager eviction: a tensor is evicted when the framework releases it. The heuristic
/// is `h_DTR^eq`:
///
/// > h(t) = (c0(t) + sum of c0 over the evicted classes beside t) / (m(t) s(t))
///
/// with the cost `c0` of making the tensor, its size `m` and its staleness `s`, the time since it
/// was last read. Evicted neighbours form classes in a union-find structure; leaving a class, a
/// tensor takes its own cost off the class, which is not split.
///
/// The policy is that of the published simulator `simrd` (runtime `RuntimeV2EagerOptimized`):
/// what is read by the computation that is due is locked, constants are never evicted, outputs
/// that are made a second time because a sibling is wanted are thrown away, and what outlives the
/// iteration is made again at its end. Time is that of the ops alone.
///
/// We depart where a trace says less than a log of references: a view belongs to its storage, adds
/// its time to that storage's cost and is not made again with it; constants are there from the
/// start. Where a trace says more, it is heeded: workspace is allocated with an op's outputs, and a
/// tensor is not evicted that could not be made again when it is needed.
pub struct Dtr;

/// What the policy did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlineRun {
    /// The policy's own clock at the end: all ops, and those run again.
    pub time: Nanos,
    /// Largest sum of what was there by the policy's own account.
    pub peak: Bytes,
    /// What it ran and evicted, in order.
    pub steps: Vec<Step>,
}

impl Dtr {
    /// Runs the policy over a problem's trace with `budget` bytes, in its own accounting: what is
    /// there counts byte for byte, and nothing has an address.
    ///
    /// # Errors
    ///
    /// If everything that is not locked has been evicted and an allocation still does not fit, or
    /// the policy thrashes, or takes longer than is of any use.
    pub fn run(problem: &Problem, budget: Bytes) -> Result<OnlineRun> {
        let run = runtime::Runtime::new(problem, budget).run();
        run.map_err(|cause| PlanError::from_infeasible(cause, problem.budget))
    }
}

impl Method for Dtr {
    fn about(&self) -> About {
        About {
            name: "dtr",
            summary: "recompute what an online policy evicts when memory runs out",
            source: "Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021), h_DTR^eq",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_recompute(problem)?;
        let run = Self::run(problem, target)?;
        Ok(Decided::from_steps(problem, run.steps, Policy::EARLY))
    }

    fn uses(&self) -> Allowed {
        Allowed::RERUNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_up_where_less_may_be_weighed_than_it_takes() {
        let trace = crate::families::family("random:seed=3,ops=200").expect("a family");
        let machine = scenarios::machine("titan-v").expect("a bundled machine");
        let budget = Bytes(simulator::in_core(&trace).peak.0 * 7 / 10);
        let mut problem = Problem::new(&trace, &machine, budget);
        let run = Dtr::run(&problem, budget).expect("it fits");
        problem.most_weighed = 1 << 20;
        assert_eq!(Dtr::run(&problem, budget).as_ref(), Ok(&run), "a limit that is not reached");
        problem.most_weighed = 20;
        assert!(Dtr::run(&problem, budget).is_err());
    }
}
