//! Plans of random decisions: no timing breaks them, and they keep what their evaluation promised.
//!
//! `TIDEGATE_CASES=1000000 cargo test --release -p tidegate-planner --test all timings` runs a million
//! cases; `TIDEGATE_SEED=N` with `TIDEGATE_CASES=1` replays case N.

use std::collections::BTreeMap;

use crate::common::random::{self, Random};
use crate::common::{for_each_case, judge};
use checker::{Fallback, Prepared, Wanted};
use schema::{Bytes, Plan, Processor, Task, Trace};
use simulator::{Outcome, ProvenPlan, check_contract, prove};

#[test]
fn every_plan_is_safe_under_every_timing() {
    // Most random problems fit somehow, and some have a lane for codecs.
    for_each_case(10_000, [3_300, 500], |random, [planned, codec_lanes]| {
        let Some((plan, trace, outcome)) = random::plan(random)? else { return Ok(()) };
        *planned += 1;
        *codec_lanes += u64::from(plan.codec_lane);
        check(plan, &trace, outcome, random)
    });
}

/// No reader finds what was changed since, and no change is lost, where what outlives the iteration
/// begins and ends it on the host.
#[test]
fn state_that_moves_is_neither_stale_nor_lost_under_any_timing() {
    for_each_case(
        10_000,
        [2_500, 500, 1_000, 200],
        |random, [planned, written_back, back_again, there]| {
            let Some((plan, trace, outcome)) = random::moving_plan(random)? else { return Ok(()) };
            *planned += 1;
            *there += u64::from(plan.actions.iter().any(|action| action.on == Processor::Host));
            let homes = plan.host_buffers.iter().filter(|host| host.at_start || host.at_end);
            *written_back += u64::from(homes.clone().any(|host| !host.at_start));
            *back_again += u64::from(homes.clone().any(|host| host.at_start && host.at_end));
            check(plan, &trace, outcome, random)
        },
    );
}

/// Cases of that which one in 30,000 is like: an update on the host reads what the device then changes and copies
/// home; what it hands over leaves with a codec's run on another lane; a tensor comes back for a rerun after its
/// last use.
#[test]
fn rare_cases_of_state_that_moves() {
    for seed in [43_454, 59_323, 108_441, 111_911, 148_511] {
        let random = &mut Random::new(seed);
        let planned = random::moving_plan(random).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let (plan, trace, outcome) = planned.unwrap_or_else(|| panic!("{seed} has no plan"));
        assert!(plan.actions.iter().any(|action| action.on == Processor::Host), "{seed}");
        check(plan, &trace, outcome, random).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

/// Ops on the net run beside those of the device, and no reader of either finds anything else than what
/// the trace's order has it read.
#[test]
fn ops_on_the_net_run_beside_the_others_under_every_timing() {
    for_each_case(4_000, [1_000, 200], |random, [planned, sooner]| {
        let Some((plan, trace, outcome)) = random::net_plan(random)? else { return Ok(()) };
        *planned += 1;
        *sooner += u64::from(plan.predicted.iteration < outcome.iteration);
        check(plan, &trace, outcome, random)
    });
}

fn check(plan: Plan, trace: &Trace, outcome: Outcome, random: &mut Random) -> Result<(), String> {
    let plan = ProvenPlan::check(plan, trace).map_err(|e| e.to_string())?;
    let wanted = Wanted::of(trace);
    let prepared = Prepared::new(&plan, &wanted).map_err(|e| e.to_string())?;
    judge::run(&prepared, 3, Fallback::Drawn, random).map_err(|e| e.to_string())?;
    let predicted = &plan.predicted;
    // What starts earlier than evaluated, where its addresses are free, may raise the peak.
    let waits = plan.codec_lane
        || plan.actions.iter().any(|a| a.on != Processor::Device || a.host.is_some());
    if predicted.peak > if waits { plan.budget } else { outcome.peak } {
        let (plan, evaluated) = (predicted.peak, outcome.peak);
        return Err(format!("the plan's peak is {plan}, its evaluation said {evaluated}"));
    }
    let is_codec = |task| matches!(task, Task::Compress(_) | Task::Decompress(_));
    let codecs = plan.actions.iter().filter(|action| is_codec(action.task));
    let codec_time: u64 = codecs.map(|action| action.duration.0).sum();
    if codec_time != outcome.codec.0 {
        return Err(format!("codecs take {codec_time}, evaluated {}", outcome.codec));
    }
    // Where lanes do not disturb each other, the plan keeps what the evaluation promised.
    let speeds =
        [plan.both_directions_permille, plan.beside_codec_permille, plan.beside_copy_permille];
    if speeds == [1000; 3] && predicted.iteration > outcome.iteration {
        let (plan, evaluated) = (predicted.iteration, outcome.iteration);
        return Err(format!("the plan takes {plan}, its evaluation said {evaluated}"));
    }
    Ok(())
}

/// So none follows from the others: plans state the transitive reduction of what they need.
#[test]
fn a_plan_without_one_dependency_is_caught() {
    for_each_case(2_000, [1_000], |random, [removed]| {
        let Some((plan, trace, _)) = random::plan(random)? else { return Ok(()) };
        for (action, after) in plan.actions.iter().enumerate().map(|(i, a)| (i, &a.after)) {
            for (index, dependency) in after.iter().enumerate() {
                let mut broken = plan.clone();
                broken.actions[action].after.remove(index);
                if prove(&broken).is_ok() && check_contract(&broken, &trace).is_ok() {
                    return Err(format!("action {action} does not need {dependency}"));
                }
                *removed += 1;
            }
        }
        Ok(())
    });
}

#[test]
fn the_evaluator_goes_on_from_a_change_as_if_it_had_begun_anew() {
    for_each_case(1_500, [], |random, []| {
        let trace = random::trace(random, 120);
        let machine = random::machine(random);
        let policy = random::policy(random);
        let problem = random::problem(random, &trace, &machine);
        let mut treatments = random::treatments(random, &problem);
        if treatments.is_empty() {
            return Ok(());
        }
        let new = |budget| problem.evaluator(policy, budget);
        let peak = new(Bytes(1 << 40)).evaluate(&treatments).map_or(1 << 30, |o| o.peak.0);
        let budget = Bytes((peak as f64 * (0.7 + random.below(60) as f64 / 100.0)) as u64);
        let mut evaluator = new(budget);
        for step in 0..30 {
            let gap = random.below(treatments.len() as u64) as usize;
            treatments[gap] = random::treatments(random, &problem)[gap];
            let (again, anew) =
                (evaluator.evaluate(&treatments), new(budget).evaluate(&treatments));
            if again != anew {
                return Err(format!("step {step}: {again:?} instead of {anew:?}"));
            }
        }
        Ok(())
    });
}

/// What codecs do to a plan is tested only where plans have them.
#[test]
fn random_decisions_hold_all_treatments() {
    let mut seen = BTreeMap::new();
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let trace = random::trace(&mut random, 24);
        let machine = random::machine(&mut random);
        let problem = random::problem(&mut random, &trace, &machine);
        for treatment in random::treatments(&mut random, &problem) {
            let name = format!("{treatment:?}");
            *seen.entry(name.split('(').next().map(str::to_string)).or_insert(0) += 1;
        }
    }
    assert!(seen.len() == 8 && seen.values().all(|n| *n > 50), "{seen:?}");
}
