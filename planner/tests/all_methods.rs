//! Every method on random problems: its plans are safe, compute their trace and hold under any
//! timing.

mod common;

use common::check;
use common::random::{self, Random};
use planner::methods::all;
use planner::{NoWatch, PlanError, bound, plan};
use schema::Bytes;
use simulator::replay::{Schedule, replay_with};
use simulator::{Infeasible, Program, check_contract, prove};

#[test]
fn every_methods_plans_are_safe_under_every_timing() {
    let mut planned = std::collections::BTreeMap::new();
    let mut compressing = 0;
    for seed in 0..60 {
        let random = &mut Random::new(seed);
        let trace = random::trace(random, 40);
        let machine = random::machine(random);
        let peak = simulator::in_core(&trace).peak.0;
        let budget = Bytes(peak * (50 + random.below(60)) / 100);
        let mut problem = random::problem(random, &trace, &machine);
        problem.budget = budget;
        problem.limits.evaluations = 60;
        for method in all() {
            let at = || format!("seed {seed}, {}", method.name());
            let plan = match plan(method.as_ref(), &problem, &NoWatch) {
                Ok(plan) => plan,
                Err(PlanError::Impossible(Infeasible::Step(error))) => panic!("{}: {error}", at()),
                Err(_) => continue,
            };
            *planned.entry(method.name()).or_insert(0) += 1;
            compressing += usize::from(!plan.codecs.is_empty());
            prove(&plan).unwrap_or_else(|e| panic!("{}: {e}", at()));
            check_contract(&plan, &trace).unwrap_or_else(|e| panic!("{}: {e}", at()));
            let bound = bound(&problem).time();
            assert!(bound.is_some_and(|bound| bound <= plan.predicted.iteration), "{}", at());
            let durations = random::jitter(random, plan.actions.iter().map(|a| a.duration));
            let mut schedule = Schedule::default();
            replay_with(&Program::of(&plan), &durations, &mut schedule, &mut ());
            check::run(&plan, &schedule.start, &schedule.end)
                .unwrap_or_else(|e| panic!("{}: {e}", at()));
        }
    }
    assert!(compressing > 10, "only {compressing} plans compress");
    for method in all() {
        assert!(
            planned.contains_key(method.name()),
            "{} planned nothing: {planned:?}",
            method.name()
        );
    }
}
