//! `tide` where it may only recompute: no other method's plan is faster.

mod common;

use common::random::{self, Random};
use planner::methods::{Method, Tide};
use planner::{Allowed, NoMonitor, plan};
use schema::{Bytes, Nanos, Task};
use simulator::in_core;

#[test]
fn recomputing_alone_no_other_method_is_faster() {
    let recomputes = |plan: &schema::Plan| {
        plan.actions.iter().any(|action| matches!(action.task, Task::Recompute(_)))
    };
    let mut tight = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let trace = random::training(&mut random, 60);
        let machine = random::machine(&mut random);
        let mut problem = random::problem(&mut random, &trace, &machine);
        problem.allowed = Allowed { swap: false, recompute: true, compress: false };
        problem.limits.evaluations = 2000;
        let permille = 500 + random.below(450);
        problem.budget = Bytes(in_core(&trace).peak.0 * permille / 1000);
        let rivals = planner::methods::all().into_iter();
        let rivals = rivals.filter(|m| m.name() != Tide.name() && !m.only_on_request());
        let planned = |method: &dyn Method| plan(method, &problem, &NoMonitor).ok();
        let tide = planned(&Tide);
        tight += usize::from(tide.as_ref().is_some_and(|plan| recomputes(plan)));
        let time = tide.map_or(Nanos(u64::MAX), |plan| plan.predicted.iteration);
        for rival in rivals {
            let other = planned(rival.as_ref()).map(|plan| plan.predicted.iteration);
            let name = rival.name();
            assert!(
                other.is_none_or(|other| time <= other),
                "case {seed}: {name}, {time} {other:?}"
            );
        }
    }
    assert!(tight > 40, "{tight} plans recompute");
}
