//! `tide` where it may only recompute, copy, or compress as well: no other method's plan is faster.

use crate::common::random::{self, Random};
use planner::methods::{Method, Tide};
use planner::{Allowed, NoMonitor, plan};
use schema::{Bytes, Nanos, Plan, Task};
use simulator::in_core;

/// Plans so many random problems with every method that takes no longer than a search; returns how
/// many of `tide`'s plans are of a kind.
fn hold(cases: u64, allowed: Allowed, is_of_kind: fn(&Plan) -> bool) -> usize {
    let mut of_kind = 0;
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let trace = random::training(&mut random, 60);
        let machine = random::machine(&mut random);
        let mut problem = random::problem(&mut random, &trace, &machine);
        problem.allowed = allowed;
        problem.limits.evaluations = 2000;
        let permille = 500 + random.below(450);
        problem.budget = Bytes(in_core(&trace).peak.0 * permille / 1000);
        let rivals = planner::methods::all().into_iter();
        let rivals = rivals.filter(|m| m.name() != Tide.name() && !m.only_on_request());
        let planned = |method: &dyn Method| plan(method, &problem, &NoMonitor).ok();
        let tide = planned(&Tide);
        of_kind += usize::from(tide.as_ref().is_some_and(|plan| is_of_kind(plan)));
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
    of_kind
}

#[test]
fn recomputing_alone_no_other_method_is_faster() {
    let allowed = Allowed { swap: false, recompute: true, compress: false };
    let recomputes =
        |plan: &Plan| plan.actions.iter().any(|action| matches!(action.task, Task::Recompute(_)));
    let tight = hold(200, allowed, recomputes);
    assert!(tight > 20, "{tight} plans recompute");
}

#[test]
fn with_copies_no_other_method_is_faster() {
    let allowed = Allowed { swap: true, recompute: true, compress: false };
    let copies = |plan: &Plan| plan.actions.iter().any(|action| action.host.is_some());
    let tight = hold(50, allowed, copies);
    assert!(tight > 8, "{tight} plans copy");
}

#[test]
fn with_codecs_no_other_method_is_faster() {
    let allowed = Allowed { swap: true, recompute: true, compress: true };
    let tight = hold(40, allowed, |plan: &Plan| !plan.codecs.is_empty());
    assert!(tight > 2, "{tight} plans compress");
}
