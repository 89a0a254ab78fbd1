//! No timing breaks a plan.
//!
//! `TIDEGATE_CASES=1000000 cargo test --release -p tidegate-planner --test timings` runs a million
//! cases; `TIDEGATE_SEED=N` with `TIDEGATE_CASES=1` replays case N.

mod common;

use common::check;
use common::random::{self, Random};
use planner::{Decided, PlanError, Problem, bound, lower};
use schema::{ActionId, BufferId, Bytes, Document, HostBufferId, InPlaceBuffers, Plan};
use simulator::replay::{Schedule, replay_with};
use simulator::{Evaluator, Outcome, Program, Unsafe, check_contract, prove};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Runs a check on as many cases as asked for, by default `default`, and names the seed of one
/// that fails.
fn for_each_case(default: u64, case: impl Fn(&mut Random) -> Result<(), String>) {
    let first = setting("TIDEGATE_SEED", 0);
    for seed in first..first + setting("TIDEGATE_CASES", default) {
        if let Err(problem) = case(&mut Random::new(seed)) {
            panic!("{problem}\nreplay with TIDEGATE_SEED={seed} TIDEGATE_CASES=1");
        }
    }
}

/// A random problem, lowered; none where it does not fit.
fn random_plan(random: &mut Random) -> Result<Option<(Plan, schema::Trace, Outcome)>, String> {
    let trace = random::trace(random, 24);
    let machine = random::machine(random);
    let policy = random::policy(random);
    let mut problem = Problem::new(&trace, &machine, Bytes(1 << 40));
    let treatments = random::treatments(random, &problem.model);
    let unlimited = problem.evaluator(policy, problem.budget).evaluate(&treatments);
    let peak = match unlimited {
        Ok(outcome) => outcome.peak.0,
        Err(_) => return Ok(None),
    };
    // From a little too small to more than enough.
    problem.budget = Bytes((peak as f64 * (0.5 + random.below(100) as f64 / 100.0)) as u64);
    let mut evaluator = problem.evaluator(policy, problem.budget);
    let Ok(outcome) = evaluator.evaluate(&treatments) else { return Ok(None) };
    let considered = (0..problem.model.gaps().len()).collect();
    let decided = Decided { treatments, policy, considered, as_recorded: false };
    match lower(&problem, problem.budget, &decided) {
        Ok(plan) => {
            let bound = bound(&problem);
            let beaten = bound.time().is_none_or(|time| plan.predicted.iteration < time);
            if beaten {
                return Err(format!("{} beats {bound:?}", plan.predicted.iteration));
            }
            Ok(Some((plan, trace, outcome)))
        }
        Err(PlanError::Fragmented { .. }) => Ok(None),
        Err(error) => Err(format!("evaluated, but not lowered: {error}")),
    }
}

#[test]
fn every_plan_is_safe_under_every_timing() {
    let planned = std::cell::Cell::new(0u64);
    for_each_case(10_000, |random| {
        let Some((plan, trace, outcome)) = random_plan(random)? else { return Ok(()) };
        planned.set(planned.get() + 1);
        prove(&plan).map_err(|e| e.to_string())?;
        check_contract(&plan, &trace).map_err(|e| e.to_string())?;
        let program = Program::of(&plan);
        let mut schedule = Schedule::default();
        let mut durations: Vec<u64> = plan.actions.iter().map(|a| a.duration.0).collect();
        for _ in 0..3 {
            replay_with(&program, &durations, &mut schedule, &mut ());
            check::run(&plan, &schedule.start, &schedule.end)?;
            if schedule.peak_bytes > plan.budget.0 {
                return Err(format!("{} bytes live over the budget", schedule.peak_bytes));
            }
            durations = random::jitter(random, plan.actions.iter().map(|a| a.duration));
        }
        // Where copies do not disturb each other, the plan keeps what the evaluation promised.
        let alone = plan.both_directions_permille == 1000;
        if alone && plan.predicted.iteration > outcome.iteration {
            let (plan, evaluated) = (plan.predicted.iteration, outcome.iteration);
            return Err(format!("the plan takes {plan}, its evaluation said {evaluated}"));
        }
        Ok(())
    });
    // Most random problems fit somehow; a generator that plans nothing would test nothing.
    let cases = setting("TIDEGATE_CASES", 10_000);
    assert!(cases < 100 || planned.get() > cases / 3, "only {} of {cases}", planned.get());
}

#[test]
fn a_plan_without_one_dependency_is_caught() {
    let removed = std::cell::Cell::new(0u64);
    for_each_case(2_000, |random| {
        let Some((plan, _, _)) = random_plan(random)? else { return Ok(()) };
        for (action, after) in plan.actions.iter().enumerate().map(|(i, a)| (i, &a.after)) {
            for (index, dependency) in after.iter().enumerate() {
                let mut broken = plan.clone();
                broken.actions[action].after.remove(index);
                if prove(&broken).is_ok() {
                    return Err(format!("action {action} does not need {dependency}"));
                }
                removed.set(removed.get() + 1);
            }
        }
        Ok(())
    });
    assert!(setting("TIDEGATE_CASES", 2_000) < 100 || removed.get() > 1_000);
}

#[test]
fn a_plan_with_one_address_moved_is_caught_or_as_safe() {
    let caught = std::cell::Cell::new(0u64);
    for_each_case(4_000, |random| {
        let Some((mut plan, _, _)) = random_plan(random)? else { return Ok(()) };
        if plan.buffers.len() < 2 {
            return Ok(());
        }
        let moved = random.below(plan.buffers.len() as u64) as usize;
        let to = random.below(plan.buffers.len() as u64) as usize;
        plan.buffers[moved].address = plan.buffers[to].address + random.below(100);
        match prove(&plan) {
            Err(
                Unsafe::Overlap { .. }
                | Unsafe::OverlapsKept { .. }
                | Unsafe::OverlapAtStart { .. }
                | Unsafe::OutsideArena { .. },
            ) => {
                caught.set(caught.get() + 1);
                Ok(())
            }
            Err(other) => Err(format!("an unexpected reason: {other}")),
            // A move that the proof accepts must hold under any timing.
            Ok(()) => {
                let program = Program::of(&plan);
                let mut schedule = Schedule::default();
                for _ in 0..3 {
                    let durations = random::jitter(random, plan.actions.iter().map(|a| a.duration));
                    replay_with(&program, &durations, &mut schedule, &mut ());
                    check::run(&plan, &schedule.start, &schedule.end)?;
                }
                Ok(())
            }
        }
    });
    assert!(setting("TIDEGATE_CASES", 4_000) < 100 || caught.get() > 500, "{}", caught.get());
}

#[test]
fn the_evaluator_goes_on_from_a_change_as_if_it_had_begun_anew() {
    for_each_case(1_500, |random| {
        let trace = random::trace(random, 120);
        let machine = random::machine(random);
        let policy = random::policy(random);
        let model = simulator::Model::of(&trace);
        let mut treatments = random::treatments(random, &model);
        if treatments.is_empty() {
            return Ok(());
        }
        let new = |budget| Evaluator::new(&model, &machine.link, policy, budget, Bytes(1 << 40));
        let peak = new(Bytes(1 << 40)).evaluate(&treatments).map_or(1 << 30, |o| o.peak.0);
        let budget = Bytes((peak as f64 * (0.7 + random.below(60) as f64 / 100.0)) as u64);
        let mut evaluator = new(budget);
        for step in 0..30 {
            let gap = random.below(treatments.len() as u64) as usize;
            treatments[gap] = random::treatments(random, &model)[gap];
            let (again, anew) =
                (evaluator.evaluate(&treatments), new(budget).evaluate(&treatments));
            if again != anew {
                return Err(format!("step {step}: {again:?} instead of {anew:?}"));
            }
        }
        Ok(())
    });
}

/// A plan that someone edited: whatever the proof accepts holds under any timing, and nothing
/// panics on the rest.
#[test]
fn edited_plans_are_refused_or_as_safe() {
    let accepted = std::cell::Cell::new(0u64);
    for_each_case(4_000, |random| {
        let Some((mut plan, _, _)) = random_plan(random)? else { return Ok(()) };
        for _ in 0..1 + random.below(3) {
            edit(random, &mut plan);
        }
        if plan.check().is_err() || prove(&plan).is_err() {
            return Ok(());
        }
        accepted.set(accepted.get() + 1);
        let program = Program::of(&plan);
        let mut schedule = Schedule::default();
        for _ in 0..2 {
            let durations = random::jitter(random, plan.actions.iter().map(|a| a.duration));
            replay_with(&program, &durations, &mut schedule, &mut ());
            check::run(&plan, &schedule.start, &schedule.end)?;
        }
        simulator::predict(&plan, None).check().map_err(|error| error.to_string())
    });
    assert!(setting("TIDEGATE_CASES", 4_000) < 100 || accepted.get() > 100, "{}", accepted.get());
}

fn edit(random: &mut Random, plan: &mut Plan) {
    let (actions, buffers) = (plan.actions.len() as u64, plan.buffers.len() as u64);
    let hosts = plan.host_buffers.len() as u64;
    if actions == 0 || buffers == 0 {
        return;
    }
    let buffer = |random: &mut Random| BufferId(random.below(buffers + 1) as u32);
    let pair = InPlaceBuffers { input: buffer(random), output: buffer(random) };
    let action = random.below(actions);
    let other = ActionId(random.below(action + 1) as u32);
    let target = &mut plan.actions[action as usize];
    match random.below(12) {
        0 => target.reads.push(buffer(random)),
        1 => target.writes.push(buffer(random)),
        2 => target.holds.push(buffer(random)),
        3 => drop(target.reads.pop()),
        4 => drop(target.writes.pop()),
        5 => target.after.push(other),
        6 => drop(target.after.pop()),
        7 => target.not_before.push(other),
        8 => target.in_place.push(pair),
        9 => target.host = Some(HostBufferId(random.below(hosts + 1) as u32)),
        10 => plan.buffers[random.below(buffers) as usize].at_end = random.one_in(2),
        _ => plan.buffers[random.below(buffers) as usize].bytes = Bytes(random.below(30_000)),
    }
}
