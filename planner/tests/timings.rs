//! No timing breaks a plan.
//!
//! `TIDEGATE_CASES=1000000 cargo test --release -p tidegate-planner --test timings` runs a million
//! cases; `TIDEGATE_SEED=N` with `TIDEGATE_CASES=1` replays case N.

mod common;

use common::check;
use common::random::{self, Random};
use planner::{Decided, PlanError, bound, lower};
use schema::{
    ActionId, BufferId, Bytes, CodecId, Document, HostBufferId, InPlaceBuffers, Plan, Task,
};
use simulator::replay::{Schedule, replay_with};
use simulator::{Outcome, Program, Treatment, Unsafe, check_contract, prove};

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
    let mut problem = random::problem(random, &trace, &machine);
    let treatments = random::treatments(random, &problem);
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
    let decided = Decided { treatments, policy, considered, steps: None, as_recorded: false };
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
    let codec_lanes = std::cell::Cell::new(0u64);
    for_each_case(10_000, |random| {
        let Some((plan, trace, outcome)) = random_plan(random)? else { return Ok(()) };
        planned.set(planned.get() + 1);
        codec_lanes.set(codec_lanes.get() + u64::from(plan.codec_lane));
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
        if plan.predicted.peak > outcome.peak && !plan.codec_lane {
            let (plan, evaluated) = (plan.predicted.peak, outcome.peak);
            return Err(format!("the plan's peak is {plan}, its evaluation said {evaluated}"));
        }
        let codec_time: u64 = (plan.actions.iter())
            .filter(|a| matches!(a.task, Task::Compress(_) | Task::Decompress(_)))
            .map(|a| a.duration.0)
            .sum();
        if codec_time != outcome.codec.0 {
            return Err(format!("codecs take {codec_time}, evaluated {}", outcome.codec));
        }
        // Where lanes do not disturb each other, the plan keeps what the evaluation promised.
        let speeds =
            [plan.both_directions_permille, plan.beside_codec_permille, plan.beside_copy_permille];
        let alone = speeds == [1000; 3];
        if alone && plan.predicted.iteration > outcome.iteration {
            let (plan, evaluated) = (plan.predicted.iteration, outcome.iteration);
            return Err(format!("the plan takes {plan}, its evaluation said {evaluated}"));
        }
        Ok(())
    });
    // Most random problems fit somehow; a generator that plans nothing would test nothing.
    let cases = setting("TIDEGATE_CASES", 10_000);
    assert!(cases < 100 || planned.get() > cases / 3, "only {} of {cases}", planned.get());
    assert!(cases < 100 || codec_lanes.get() > cases / 20, "only {} with", codec_lanes.get());
}

#[test]
fn a_plan_without_one_dependency_is_caught() {
    let removed = std::cell::Cell::new(0u64);
    for_each_case(2_000, |random| {
        let Some((plan, trace, _)) = random_plan(random)? else { return Ok(()) };
        for (action, after) in plan.actions.iter().enumerate().map(|(i, a)| (i, &a.after)) {
            for (index, dependency) in after.iter().enumerate() {
                let mut broken = plan.clone();
                broken.actions[action].after.remove(index);
                if prove(&broken).is_ok() && check_contract(&broken, &trace).is_ok() {
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
                | Unsafe::OutsideArena { .. }
                | Unsafe::InPlace { .. },
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
    match random.below(15) {
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
        10 => target.task = Task::Compress(schema::TensorId(random.below(6) as u32)),
        11 => target.task = Task::Decompress(schema::TensorId(random.below(6) as u32)),
        12 => {
            let codec = random.below(plan.codecs.len() as u64 + 1) as u32;
            let codec = (codec > 0).then(|| CodecId(codec - 1));
            plan.buffers[random.below(buffers) as usize].compressed = codec;
        }
        13 => plan.buffers[random.below(buffers) as usize].at_end = random.one_in(2),
        _ => plan.buffers[random.below(buffers) as usize].bytes = Bytes(random.below(30_000)),
    }
}

/// The data of some tensors does worse than was reserved for: their compression copies them to
/// the host itself, copies of the compressed form have nothing to do, and the decompression copies them
/// back. Nothing but times differs.
#[test]
fn a_plan_is_as_safe_where_data_does_worse_than_was_reserved_for() {
    let fell_back = std::cell::Cell::new(0u64);
    for_each_case(2_000, |random| {
        let Some((plan, _, _)) = random_plan(random)? else { return Ok(()) };
        let worse: Vec<bool> = plan.host_buffers.iter().map(|_| random.one_in(2)).collect();
        let mut durations: Vec<u64> = plan.actions.iter().map(|a| a.duration.0).collect();
        for (duration, action) in durations.iter_mut().zip(&plan.actions) {
            let Some(host) = action.host.filter(|host| worse[host.index()]) else { continue };
            match action.task {
                Task::Compress(_) | Task::Decompress(_) => {
                    *duration = 1 + plan.host_buffers[host.index()].bytes.0 / 7;
                    fell_back.set(fell_back.get() + 1);
                }
                _ if plan.host_buffers[host.index()].compressed.is_some() => *duration = 0,
                _ => {}
            }
        }
        let program = Program::of(&plan);
        let mut schedule = Schedule::default();
        replay_with(&program, &durations, &mut schedule, &mut ());
        check::run(&plan, &schedule.start, &schedule.end)?;
        if schedule.peak_bytes > plan.budget.0 {
            return Err(format!("{} bytes live over the budget", schedule.peak_bytes));
        }
        Ok(())
    });
    assert!(setting("TIDEGATE_CASES", 2_000) < 100 || fell_back.get() > 1_000);
}

/// Plans in which a form of a tensor is taken for another are refused, each for its reason.
#[test]
fn forms_that_are_mixed_up_are_refused() {
    let refused = std::cell::RefCell::new([0u32; 6]);
    for_each_case(2_000, |random| {
        let Some((plan, trace, _)) = random_plan(random)? else { return Ok(()) };
        let codecs: Vec<usize> = (0..plan.actions.len())
            .filter(|i| matches!(plan.actions[*i].task, Task::Compress(_) | Task::Decompress(_)))
            .collect();
        if codecs.is_empty() {
            return Ok(());
        }
        let chosen = random.of(&codecs);
        for kind in 0..6 {
            let mut broken = plan.clone();
            if !mix_up(kind, &mut broken, chosen) {
                continue;
            }
            if prove(&broken).is_ok() && check_contract(&broken, &trace).is_ok() {
                let action = &plan.actions[chosen];
                return Err(format!("way {kind} to mix up {action:?} is not noticed"));
            }
            refused.borrow_mut()[kind] += 1;
        }
        Ok(())
    });
    let refused = refused.into_inner();
    assert!(
        setting("TIDEGATE_CASES", 2_000) < 1000 || refused.iter().all(|n| *n > 20),
        "{refused:?}"
    );
}

/// What no op makes may change in place: a copy of it from before that is no good.
#[test]
fn copies_that_are_out_of_date_are_refused() {
    let refused = std::cell::Cell::new(0u64);
    for_each_case(4_000, |random| {
        let Some((mut plan, trace, _)) = random_plan(random)? else { return Ok(()) };
        let mut changed = vec![None; trace.tensors.len()];
        for index in 0..plan.actions.len() {
            match plan.actions[index].task {
                Task::Run(op) if !trace.ops[op.index()].rerunnable => {
                    trace.ops[op.index()]
                        .reads
                        .iter()
                        .for_each(|t| changed[t.index()] = Some(index));
                }
                Task::H2d(tensor) => {
                    let is_copy = |a: &schema::Action| a.task == Task::D2h(tensor);
                    let before = changed[tensor.index()].unwrap_or(0);
                    let old = plan.actions[..before].iter().find(|a| is_copy(a));
                    let made = trace.ops.iter().any(|op| op.writes.contains(&tensor));
                    let Some(host) = old.and_then(|copy| copy.host).filter(|_| !made) else {
                        continue;
                    };
                    plan.actions[index].host = Some(host);
                    if prove(&plan).is_ok() && check_contract(&plan, &trace).is_ok() {
                        return Err(format!("action {index} brings back what has changed"));
                    }
                    refused.set(refused.get() + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        Ok(())
    });
    assert!(setting("TIDEGATE_CASES", 4_000) < 1_000 || refused.get() > 20, "{}", refused.get());
}

/// What no op makes is what the next iteration goes on from: no codec that changes values makes it smaller,
/// on the device or on the host.
#[test]
fn codecs_that_change_parameters_are_refused() {
    let refused = std::cell::Cell::new(0u64);
    for_each_case(4_000, |random| {
        let Some((mut plan, trace, _)) = random_plan(random)? else { return Ok(()) };
        let made = |tensor| trace.ops.iter().any(|op| op.writes.contains(&tensor));
        let codec = plan.actions.iter().find_map(|action| match action.task {
            Task::Compress(tensor) if !made(tensor) => {
                plan.buffers[action.writes[0].index()].compressed
            }
            Task::D2h(tensor) if !made(tensor) => plan.packed_by_host(action),
            _ => None,
        });
        let Some(codec) = codec else { return Ok(()) };
        plan.codecs[codec.index()].fidelity = schema::Fidelity::ErrorBounded;
        if prove(&plan).is_ok() && check_contract(&plan, &trace).is_ok() {
            return Err(format!("{codec} changes the values of a parameter"));
        }
        refused.set(refused.get() + 1);
        Ok(())
    });
    assert!(setting("TIDEGATE_CASES", 4_000) < 1_000 || refused.get() > 20, "{}", refused.get());
}

/// Mixes up forms around a codec's action in one of six ways; false where there is none.
fn mix_up(kind: usize, plan: &mut Plan, chosen: usize) -> bool {
    let action = plan.actions[chosen].clone();
    let (Task::Compress(tensor) | Task::Decompress(tensor)) = action.task else { return false };
    let buffers = || action.reads.iter().chain(&action.writes).copied();
    let small = buffers().find(|b| plan.buffers[b.index()].compressed.is_some());
    let small = small.expect("a codec has a compressed form");
    match kind {
        // An op reads the compressed form in place of the tensor.
        0 => {
            let buffers = &plan.buffers;
            let reads = plan.actions[chosen..].iter_mut().filter_map(|action| {
                let of_tensor = |b: &&mut BufferId| {
                    let buffer = &buffers[b.index()];
                    buffer.tensor == Some(tensor) && buffer.compressed.is_none()
                };
                let is_op = matches!(action.task, Task::Run(_) | Task::Recompute(_));
                action.reads.iter_mut().filter(|_| is_op).find(of_tensor)
            });
            let Some(read) = reads.last() else { return false };
            *read = small;
        }
        // The compressed form is said to be the tensor.
        1 => plan.buffers[small.index()].compressed = None,
        // The compressed form is of another codec than its host buffer.
        2 => {
            let other = plan.buffers[small.index()].compressed.map_or(0, |codec| codec.0 + 1);
            if action.host.is_none() || plan.codecs.len() < 2 {
                return false;
            }
            plan.buffers[small.index()].compressed =
                Some(CodecId(other % plan.codecs.len() as u32));
        }
        // Nowhere to go for data that does worse.
        3 => return plan.actions[chosen].host.take().is_some(),
        // Another host buffer.
        4 => {
            let mut hosts = (0..plan.host_buffers.len()).map(HostBufferId::from_index);
            let other = hosts.rfind(|host| action.host.is_some_and(|mine| mine != *host));
            let Some(other) = other else { return false };
            plan.actions[chosen].host = Some(other);
        }
        // No room for the tensor itself.
        _ => {
            let Some(host) = action.host else { return false };
            plan.host_buffers[host.index()].bytes = plan.buffers[small.index()].bytes;
        }
    }
    true
}

/// What codecs do to a plan is tested only where plans have them.
#[test]
fn random_decisions_hold_all_treatments() {
    let mut seen = [0u32; 8];
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let trace = random::trace(&mut random, 24);
        let machine = random::machine(&mut random);
        let problem = random::problem(&mut random, &trace, &machine);
        for treatment in random::treatments(&mut random, &problem) {
            let kind = match treatment {
                Treatment::Keep => 0,
                Treatment::Swap | Treatment::SwapAtNoCost => 1,
                Treatment::Recompute => 2,
                Treatment::RecomputeEachTime => 3,
                Treatment::SwapCompressed(_) => 4,
                Treatment::Compress(_) => 5,
                Treatment::SwapCompressedOnHost(_) => 6,
                Treatment::SwapEachTime => 7,
            };
            seen[kind] += 1;
        }
    }
    assert!(seen.iter().all(|n| *n > 50), "{seen:?}");
}
