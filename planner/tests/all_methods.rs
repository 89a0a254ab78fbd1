//! Every method on random problems: its plans are safe, compute their trace and hold under any
//! timing, and none beats the bound.
//!
//! `TIDEGATE_CASES=100000 cargo test --release -p tidegate-planner --test all_methods -- --nocapture`
//! plans as many problems with all methods. Most of that time goes into integer programmes:
//! `TIDEGATE_SLOW_EVERY=100` solves them for every hundredth problem alone. `TIDEGATE_SEED=N` with
//! `TIDEGATE_CASES=1` replays one.

mod common;

use common::check;
use common::random::{self, Random};
use planner::methods::all;
use planner::{NoMonitor, PlanError, bound, plan};
use rayon::prelude::*;
use schema::Bytes;
use simulator::replay::{Schedule, replay_with};
use simulator::{Infeasible, Program, check_contract, prove};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Plans one random problem with all methods. Returns those that had a plan, and whether it
/// compresses.
fn planned(seed: u64) -> Vec<(&'static str, bool)> {
    let random = &mut Random::new(seed);
    let trace = random::trace(random, 40);
    let machine = random::machine(random);
    let peak = simulator::in_core(&trace).peak.0;
    let budget = Bytes(peak * (50 + random.below(60)) / 100);
    let mut problem = random::problem(random, &trace, &machine);
    problem.budget = budget;
    problem.limits.evaluations = 60;
    let bound = bound(&problem).time();
    let mut planned = Vec::new();
    let slow = seed.is_multiple_of(setting("TIDEGATE_SLOW_EVERY", 1).max(1));
    for method in all().into_iter().filter(|method| slow || !method.only_on_request()) {
        let at = || format!("seed {seed}, {}", method.name());
        let plan = match plan(method.as_ref(), &problem, &NoMonitor) {
            Ok(plan) => plan,
            Err(PlanError::Impossible(Infeasible::Step(error))) => panic!("{}: {error}", at()),
            Err(_) => continue,
        };
        planned.push((method.name(), !plan.codecs.is_empty()));
        prove(&plan).unwrap_or_else(|e| panic!("{}: {e}", at()));
        check_contract(&plan, &trace).unwrap_or_else(|e| panic!("{}: {e}", at()));
        let time = plan.predicted.iteration;
        assert!(bound.is_some_and(|bound| bound <= time), "{}: {time} beats {bound:?}", at());
        let durations = random::jitter(random, plan.actions.iter().map(|a| a.duration));
        let mut schedule = Schedule::default();
        replay_with(&Program::of(&plan), &durations, &mut schedule, &mut ());
        check::run(&plan, &schedule.start, &schedule.end)
            .unwrap_or_else(|e| panic!("{}: {e}", at()));
    }
    planned
}

#[test]
fn every_methods_plans_are_safe_under_every_timing() {
    let (first, cases) = (setting("TIDEGATE_SEED", 0), setting("TIDEGATE_CASES", 60));
    // A part of the seeds at a time, so that who waits for many sees that it goes on.
    let mut planned_by = std::collections::BTreeMap::new();
    let mut compressing = 0;
    for part in (first..first + cases).step_by(1000) {
        let seeds = part..(part + 1000).min(first + cases);
        let found: Vec<_> = seeds.into_par_iter().flat_map_iter(planned).collect();
        for (method, compresses) in found {
            *planned_by.entry(method).or_insert(0) += 1;
            compressing += usize::from(compresses);
        }
        println!("up to {part}: {planned_by:?}");
    }
    if cases < 60 {
        return;
    }
    assert!(compressing > 10, "only {compressing} plans compress");
    for method in all() {
        assert!(
            planned_by.contains_key(method.name()),
            "{} planned nothing: {planned_by:?}",
            method.name()
        );
    }
}
