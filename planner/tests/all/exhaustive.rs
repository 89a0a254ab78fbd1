//! Small problems, of which every way to treat all tensors is tried.
//!
//! `TIDEGATE_CASES=100000 cargo test --release -p tidegate-planner --test all exhaustive` runs more;
//! `TIDEGATE_SEED=N` with `TIDEGATE_CASES=1` replays case N.

use std::cell::Cell;

use crate::common::exhaustive::{best, for_each_way, options, squeeze, ways};
use crate::common::random::{self, Random};
use crate::common::{seeds, setting};
use planner::methods::Ilp;
use planner::{Decided, Limits, NoMonitor, PlanError, Problem, bound, lower, plan};
use schema::Nanos;
use simulator::Policy;

/// Runs a check on as many random small problems as asked for, by default `default`: of at most
/// so many ways to treat all gaps, with too little memory to keep everything and enough for some
/// way. The check is told the best time of all ways.
fn for_each_problem(
    default: u64,
    most_ways: usize,
    check: impl Fn(u64, &mut Random, &Problem, Nanos),
) {
    for seed in seeds(default) {
        let mut random = Random::new(seed);
        // Drawn anew until it is small enough.
        loop {
            let trace = random::trace(&mut random, 10);
            let machine = random::machine(&mut random);
            let mut problem = random::problem(&mut random, &trace, &machine);
            let options = options(&problem);
            if options.is_empty() || options.len() > 8 || ways(&options) > most_ways {
                continue;
            }
            let permille = 700 + random.below(300);
            squeeze(&mut problem, permille);
            let Some(best) = best(&problem, Policy::EARLY_COPIES_STAY, &options) else { continue };
            check(seed, &mut random, &problem, best.0);
            break;
        }
    }
}

/// With so few gaps, tide finds the best of all ways, or one that is nearly as fast.
fn near(time: Nanos, best: Nanos) -> bool {
    time.0 <= best.0 + best.0 / 4
}

/// A way that fits byte for byte need not have addresses, and tide leaves alone what has less than
/// a thousandth of the budget. None that is much faster than a plan is possible all the same.
fn no_way_is_missed(problem: &Problem, seed: u64, time: Nanos) {
    let mut options = options(problem);
    for (options, gap) in options.iter_mut().zip(problem.model.gaps()) {
        options.truncate(if gap.bytes.0 < problem.budget.0 / 1000 { 1 } else { usize::MAX });
    }
    let policy = Policy::EARLY_COPIES_STAY;
    for_each_way(problem, policy, &options, |way, treatments| {
        let treatments = treatments.to_vec();
        let considered = Vec::new();
        let decided = Decided::new(treatments, policy, considered);
        let is_missed = !near(time, way) && lower(problem, problem.budget, &decided).is_ok();
        assert!(!is_missed, "seed {seed}: {time}, but {way} is possible: {:?}", decided.treatments);
    });
}

/// The bound is beaten by none of all ways to treat all tensors.
#[test]
fn no_way_to_treat_all_tensors_beats_the_bound() {
    let counts = [const { Cell::new(0u64) }; 2];
    let [binding, close] = &counts;
    let count = |cell: &Cell<u64>, yes: bool| cell.set(cell.get() + u64::from(yes));
    for_each_problem(2_000, 300, |seed, random, problem, early| {
        let bound = bound(problem);
        let policy = random::policy(random);
        let other = best(problem, policy, &options(problem)).map(|(time, _)| time);
        for (time, policy) in [(Some(early), Policy::EARLY_COPIES_STAY), (other, policy)] {
            let Some(time) = time else { continue };
            let least = bound.time().unwrap_or(Nanos(u64::MAX));
            assert!(
                least <= time,
                "{time} under {policy:?} beats {bound:?}, of {} ops\n\
                 replay with TIDEGATE_SEED={seed} TIDEGATE_CASES=1",
                problem.trace.ops.len()
            );
        }
        let least = bound.time().unwrap_or_default();
        let ops = problem.trace.total_time();
        count(binding, least > ops);
        count(close, least > ops && least.0 * 102 >= early.0 * 100);
    });
    let all =
        format!("{} above the time of the ops, {} of these within 2 %", binding.get(), close.get());
    eprintln!("the bound is {all} of the best");
    let cases = setting("TIDEGATE_CASES", 2_000);
    assert!(cases < 1_000 || binding.get() > cases / 4, "{all}");
}

/// The integer programme's own decisions against the best of all ways, and its plans, which take
/// those of `tide` where these are faster.
#[test]
fn integer_programmes_come_near_the_best_of_all_ways() {
    let counts = [const { Cell::new(0u64) }; 4];
    let [fits, own_best, own_near, none] = &counts;
    let count = |cell: &Cell<u64>, yes: bool| cell.set(cell.get() + u64::from(yes));
    for_each_problem(100, 600, |seed, _, problem, best| {
        let mut problem = problem.clone();
        problem.limits = Limits { evaluations: 1_000 };
        let method = Ilp::ALL;
        count(fits, true);
        match method.programmes(&problem, problem.budget, None, &NoMonitor) {
            Ok(own) => {
                let mut evaluator = problem.evaluator(own.policy, problem.budget);
                let time = evaluator.evaluate(&own.treatments).expect("it fits").iteration;
                assert!(time >= best, "seed {seed}: {time} beats the best of all ways");
                count(own_best, time == best);
                count(own_near, time.0 * 100 <= best.0 * 105);
            }
            Err(_) => count(none, true),
        }
        match plan(&method, &problem, &NoMonitor) {
            Ok(plan) => {
                let bound = plan.predicted.bound.expect("something fits");
                let time = plan.predicted.iteration;
                assert!(bound <= time, "seed {seed}: {time} beats its bound {bound}");
                let link = &problem.machine.link;
                let alone = link.both_directions == 1.0 && link.beside_copy == 1.0;
                if alone && !near(time, best) {
                    no_way_is_missed(&problem, seed, time);
                }
            }
            Err(PlanError::Fragmented { .. }) => {}
            Err(error) => panic!("seed {seed}: {best} is possible, but {error}"),
        }
    });
    let [fits, own_best, own_near, none] = [fits, own_best, own_near, none].map(Cell::get);
    let all =
        format!("of {fits}: {own_best} best, {own_near} within 5 %, {none} without decisions");
    eprintln!("{all}");
    assert!(setting("TIDEGATE_CASES", 100) < 100 || own_best * 2 > fits, "{all}");
}
