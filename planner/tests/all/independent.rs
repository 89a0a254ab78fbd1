//! The independent checker beside the proof and the contract: what one accepts the other does, and
//! plans of all methods compute their trace under every timing that is drawn.
//!
//! What the simulator refuses and the checker finds nothing wrong with is counted as a false alarm.
//! Those are of these kinds:
//!
//! - *More than the documents ask.* A buffer is exactly as large as its tensor, and begins at a
//!   multiple of its elements' size; both ends of a copy are alike; a compressed form is smaller
//!   than its tensor; a fallback buffer names the codec; an op names its operands and no buffer
//!   beside them; workspace and compressed forms are not there at the start or the end, and no
//!   tensor is twice; no parameter passes a codec that changes values, even if only reads follow.
//! - *A hold, or a read beside an op's operands, of what is not there yet*: nothing depends on it.
//! - *A peak* that is misstated by less than the order of actions tells: the checker has bounds for
//!   it, and the simulator the figure.
//!
//! `TIDEGATE_CASES=1000 TIDEGATE_TIMINGS=50 cargo test --release -p tidegate-planner --test
//! independent plans_compute -- --nocapture` draws so many traces, plans each with every method,
//! and runs each plan under so many timings. `TIDEGATE_MUTANTS=1000 ... mutants_ -- --nocapture`
//! makes so many mutants of each plan. `TIDEGATE_SEED=N` with `TIDEGATE_CASES=1` replays one trace,
//! and `TIDEGATE_SLOW_EVERY=100` leaves integer programmes to every hundredth.

use std::collections::BTreeMap;

use crate::common::judge::{self, Tally};
use crate::common::random::{self, Random};
use crate::common::{seeds, setting};
use checker::{Fallback, Mutation, Prepared, Wanted};
use networks::{NetworkOptions, Optimizer, modelled_trace, network};
use planner::methods::{Method, all, by_name};
use planner::{CodecOptions, NoMonitor, PlanError, Problem, bound, moving_bound, plan};
use rayon::prelude::*;
use scenarios::{codec_models, host_codec_models, machine};
use schema::{Bytes, Plan, Trace};
use simulator::Infeasible;

/// The plans of all methods for a random trace that trains.
fn random_plans(seed: u64) -> (Trace, Vec<(&'static str, Plan)>) {
    let random = &mut Random::new(seed);
    let trace = random::training(random, 30);
    let machine = random::machine(random);
    let peak = simulator::in_core(&trace).peak.0;
    let mut problem = random::problem(random, &trace, &machine);
    problem.budget = Bytes(peak * (50 + random.below(80)) / 100);
    problem.limits.evaluations = 60;
    let slow = seed.is_multiple_of(setting("TIDEGATE_SLOW_EVERY", 8).max(1));
    let is_quick = |m: &dyn Method| !m.only_on_request() || m.offloads().is_some();
    let methods = all().into_iter().filter(|method| slow || is_quick(method.as_ref()));
    let bound = bound(&problem).time();
    let planned = |method: Box<dyn Method>| {
        let at = || format!("seed {seed}, {}", method.name());
        let plan = match plan(method.as_ref(), &problem, &NoMonitor) {
            Ok(plan) => plan.into_plan(),
            // No plan is an answer; one that cannot be carried out is a mistake.
            Err(
                error @ (PlanError::Unproven { .. } | PlanError::Impossible(Infeasible::Step(_))),
            ) => {
                panic!("{}: {error}", at())
            }
            Err(_) => return None,
        };
        let time = plan.predicted.iteration;
        // Of plans whose state moves there is another bound.
        let moves = plan.host_buffers.iter().any(|host| host.at_start);
        let bound = if moves { moving_bound(&problem).time() } else { bound };
        assert!(bound.is_some_and(|bound| bound <= time), "{}: {time} beats {bound:?}", at());
        Some((method.name(), plan))
    };
    let plans = methods.filter_map(planned).collect();
    (trace, plans)
}

#[test]
fn plans_compute_their_trace_under_every_timing() {
    let seeds = seeds(60);
    let cases = seeds.end - seeds.start;
    let timings = setting("TIDEGATE_TIMINGS", 40);
    let run = |seed: u64| {
        let (trace, plans) = random_plans(seed);
        let wanted = Wanted::of(&trace);
        let mut random = Random::new(!seed);
        let changes = trace.ops.iter().any(|op| !op.rerunnable && !op.reads.is_empty());
        let mut ran = Vec::new();
        for (method, plan) in plans {
            let fails = |wrong| format!("seed {seed}, {method}: {wrong}");
            let actions = Prepared::new(&plan, &wanted)
                .and_then(|prepared| {
                    prepared.check()?;
                    prepared.check_predicted()?;
                    judge::run(&prepared, timings, Fallback::Drawn, &mut random)
                })
                .map_err(fails)?;
            ran.push((method, actions, changes));
        }
        Ok(ran)
    };
    let ran: Vec<Result<Vec<_>, String>> = seeds.into_par_iter().map(run).collect();
    let failed: Vec<&String> = ran.iter().filter_map(|ran| ran.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {cases}: {failed:#?}", failed.len());
    let ran = ran.into_iter().flatten().flatten();
    let (mut by_method, mut changing, mut steps) = (BTreeMap::new(), 0, 0);
    for (method, actions, changes) in ran {
        *by_method.entry(method).or_insert(0) += timings;
        changing += if changes { timings } else { 0 };
        steps += actions;
    }
    let all_timings: u64 = by_method.values().sum();
    println!("{all_timings} timings, {changing} with updates, {steps} actions: {by_method:?}");
    if cases >= 60 {
        for method in all() {
            assert!(by_method.contains_key(method.name()), "{} planned nothing", method.name());
        }
    }
}

/// Makes mutants of a plan, of each kind that applies in turn.
fn mutants(plan: &Plan, trace: &Trace, count: u64, random: &mut Random, name: &str) -> Tally {
    let wanted = Wanted::of(trace);
    let mut tally = Tally::default();
    let from = random.below(Mutation::all().count() as u64) as usize;
    let mut kinds = Mutation::all().cycle().skip(from);
    for _ in 0..4 * count {
        if tally.count() == count {
            break;
        }
        let kind = kinds.next().expect("they go on for ever");
        tally.mutate(kind, plan, (trace, &wanted), random, &|| name.to_string());
    }
    tally
}

fn conclude(tally: &Tally) {
    println!("{tally}");
    let some: Vec<&String> = tally.holes.iter().take(20).collect();
    assert!(some.is_empty(), "{} holes: {some:#?}", tally.holes.len());
}

#[test]
fn mutants_of_random_plans_are_refused_or_as_good() {
    let seeds = seeds(100);
    let cases = seeds.end - seeds.start;
    let mutants_of = |seed: u64| {
        let (trace, plans) = random_plans(seed);
        let mut random = Random::new(!seed);
        let mut all = Tally::default();
        for (method, plan) in plans {
            let name = format!("seed {seed}, {method}");
            // Few plans compress, and what is particular to them is to be seen, too.
            let often = if plan.codecs.is_empty() { 1 } else { 4 };
            let count = often * setting("TIDEGATE_MUTANTS", 8);
            all.add(mutants(&plan, &trace, count, &mut random, &name));
        }
        if let Ok(Some((plan, trace, _))) = random::plan(&mut Random::new(seed)) {
            let name = format!("seed {seed}, random decisions");
            let count = 4 * setting("TIDEGATE_MUTANTS", 8);
            all.add(mutants(&plan, &trace, count, &mut random, &name));
        }
        if let Ok(Some((plan, trace, _))) = random::moving_plan(&mut Random::new(seed)) {
            let name = format!("seed {seed}, state that moves");
            let count = 4 * setting("TIDEGATE_MUTANTS", 8);
            all.add(mutants(&plan, &trace, count, &mut random, &name));
        }
        all
    };
    let tallies: Vec<Tally> = seeds.into_par_iter().map(mutants_of).collect();
    let mut all = Tally::default();
    tallies.into_iter().for_each(|tally| all.add(tally));
    conclude(&all);
    if cases >= 100 {
        let never = Mutation::all().find(|kind| all.count_of(*kind) == 0);
        assert_eq!(never.map(Mutation::name), None, "a kind of mutation that is never made");
    }
}

/// Networks of all families, small enough to be planned in a test.
const NETWORKS: [&str; 12] = [
    "alexnet-cifar10",
    "bert-tiny",
    "gpt2-characters",
    "mobilenet-v1-cifar10",
    "plain20-cifar10",
    "resnet18-cifar10",
    "resnet32",
    "squeezenet-cifar10",
    "stories260k",
    "unet",
    "vgg16-cifar10",
    "vit-ti16",
];

#[test]
fn mutants_of_plans_for_networks_are_refused_or_as_good() {
    let methods =
        ["swap-all", "dtr", "superneurons", "cswap+", "comet", "vdnn++", "capuchin", "tide"];
    let optimizers = [Optimizer::Momentum, Optimizer::Adam, Optimizer::Sgd];
    // A few methods for each network; all of them where more mutants are asked for.
    let count = setting("TIDEGATE_MUTANTS", 0);
    let each = if count > 0 { methods.len() } else { 2 };
    let mutants_of = |index: usize| {
        let options = NetworkOptions {
            batch: 8,
            optimizer: Some(optimizers[index % optimizers.len()]),
            ..NetworkOptions::default()
        };
        let network = network(NETWORKS[index], &options).expect("it is listed");
        let mut machine = machine("titan-v").expect("it is bundled");
        machine.device.compute.codec_lane = index % 2 == 1;
        let trace = modelled_trace(&network, &machine).expect("a modelled trace");
        let peak = simulator::in_core(&trace).peak.0;
        let codecs = CodecOptions { sparsity: Some(0.6), lossy: true };
        let mut problem = Problem::new(&trace, &machine, Bytes(peak))
            .with_codecs(&codec_models(&machine), codecs)
            .with_host_codecs(&host_codec_models(), codecs);
        problem.limits.evaluations = 60;
        let mut all = Tally::default();
        for method in (0..each).map(|i| methods[(index + i * 3) % methods.len()]) {
            let name = format!("{}, {method}", NETWORKS[index]);
            let method = by_name(method).expect("it is a method");
            // The smallest of some budgets that it has a plan for.
            let planned = [60, 75, 90, 105, 125].into_iter().find_map(|percent| {
                problem.budget = Bytes(peak * percent / 100);
                plan(method.as_ref(), &problem, &NoMonitor).ok()
            });
            let Some(plan) = planned else { continue };
            let mut random = Random::new(setting("TIDEGATE_SEED", 0) << 32 | index as u64);
            let count = if count > 0 { count } else { 200 };
            all.add(mutants(&plan, &trace, count, &mut random, &name));
        }
        (NETWORKS[index], all)
    };
    let tallies: Vec<(&str, Tally)> = (0..NETWORKS.len()).into_par_iter().map(mutants_of).collect();
    let mut all = Tally::default();
    for (network, tally) in tallies {
        println!("{network}: {} mutants", tally.count());
        assert!(tally.count() > 0, "{network}: no plan");
        all.add(tally);
    }
    conclude(&all);
}
