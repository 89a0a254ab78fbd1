//! Methods on chains of stages, where the best plan is known.

use crate::common::build;
use crate::common::chain::{Chain, trace};
use crate::common::random::Random;
use planner::methods::by_name;
use planner::{NoMonitor, PlanError, Problem, ProvenPlan, plan};
use schema::{Bytes, Choice, Machine, Plan, Task, Trace};
use simulator::{Policy, Treatment};

/// A link that carries so many bytes per nanosecond.
fn machine(bytes_per_ns: u64) -> Machine {
    build::machine(bytes_per_ns * 1_000_000_000)
}

fn planned(method: &str, trace: &Trace, machine: &Machine, budget: u64) -> Result<Plan, PlanError> {
    let problem = Problem::new(trace, machine, Bytes(budget));
    let method = by_name(method).expect("it is listed");
    plan(method.as_ref(), &problem, &NoMonitor).map(ProvenPlan::into_plan)
}

fn extra(plan: &Plan, trace: &Trace) -> u64 {
    plan.predicted.iteration.0 - trace.total_time().0
}

/// Addresses are multiples of this; budgets in these tests leave room for it.
const KIB: u64 = 1024;

fn in_kib(mut chain: Chain) -> Chain {
    chain.outputs.iter_mut().chain(&mut chain.saved).for_each(|bytes| *bytes *= KIB);
    chain.gradient *= KIB;
    chain
}

#[test]
fn revolve_runs_forward_as_often_as_binomial_checkpointing_needs() {
    let trace = trace(&in_kib(Chain::uniform(8)));
    let machine = machine(1);
    let full = 8 * 40 + 40;
    // t(8, c) for c checkpoints, the input included.
    let known = [28, 14, 11, 10, 9];
    let mut seen = Vec::new();
    for budget in (40..=full).step_by(5) {
        let Ok(plan) = planned("revolve", &trace, &machine, budget * KIB) else { continue };
        let runs = extra(&plan, &trace) / 10;
        assert!(seen.last().is_none_or(|last| *last >= runs), "more memory, more time");
        if seen.last() != Some(&runs) {
            seen.push(runs);
        }
    }
    assert_eq!(seen[..known.len()], known);
}

/// What square-root checkpointing keeps leaves the device, so that less memory will do.
#[test]
fn checkpoints_on_the_host_take_no_room() {
    let trace = trace(&in_kib(Chain::uniform(16)));
    let machine = machine(1);
    let full = 16 * 40 + 40;
    let least = |method| {
        let fits = |budget: &u64| planned(method, &trace, &machine, budget * KIB).is_ok();
        (40..=full).step_by(5).find(fits).expect("all of it is enough")
    };
    let (kept, offloaded) = (least("sqrt-n"), least("checkpoint-offload"));
    assert!(offloaded < kept, "{offloaded} and {kept}");
    let plan = planned("checkpoint-offload", &trace, &machine, offloaded * KIB).expect("it fits");
    let count = |is: fn(&Task) -> bool| plan.actions.iter().filter(|a| is(&a.task)).count();
    let (out, back) =
        (count(|task| matches!(task, Task::D2h(_))), count(|task| matches!(task, Task::H2d(_))));
    assert!(out > 0 && out == back && count(|task| matches!(task, Task::Recompute(_))) > 0);
    let mut problem = Problem::new(&trace, &machine, Bytes(full * KIB));
    problem.allowed.swap = false;
    let method = by_name("checkpoint-offload").expect("it is listed");
    let refused = planner::plan(method.as_ref(), &problem, &NoMonitor).err();
    assert_eq!(refused, Some(PlanError::NotAllowed { what: "swap" }));
}

/// What both can do, the optimal programme does at least as well.
#[test]
fn rotor_is_never_slower_than_revolve() {
    let mut faster = 0;
    for seed in 0..40 {
        let random = &mut Random::new(seed);
        let stages = 3 + random.below(6) as usize;
        let mut some =
            |most: u64| -> Vec<u64> { (0..stages).map(|_| 1 + random.below(most)).collect() };
        let chain = Chain {
            forward: some(50),
            backward: some(50),
            outputs: some(20),
            saved: some(40),
            gradient: 5,
        };
        let trace = trace(&in_kib(chain));
        let machine = machine(1);
        let peak = simulator::in_core(&trace).peak.0;
        for percent in [40, 55, 70, 85, 100] {
            let budget = peak * percent / 100;
            let revolve = planned("revolve", &trace, &machine, budget);
            let rotor = planned("rotor", &trace, &machine, budget);
            let Ok(revolve) = revolve else { continue };
            let rotor = rotor.unwrap_or_else(|e| panic!("seed {seed}, {percent}%: {e}"));
            let (rotor, revolve) = (extra(&rotor, &trace), extra(&revolve, &trace));
            assert!(rotor <= revolve, "seed {seed}, {percent}%: {rotor}, revolve {revolve}");
            faster += u32::from(rotor < revolve);
        }
    }
    assert!(faster > 20, "only {faster} times faster");
}

/// With a link on which every copy is hidden, methods that swap reach the time in core.
#[test]
fn hidden_swaps_cost_nothing() {
    let trace = trace(&in_kib(Chain::uniform(12)));
    let machine = machine(100 * KIB);
    let peak = simulator::in_core(&trace).peak.0;
    for method in ["capuchin", "swapadvisor", "budget-split", "rotor-offload"] {
        let plan = planned(method, &trace, &machine, peak * 6 / 10).expect(method);
        assert!(extra(&plan, &trace) <= 20, "{method}: {} ns", extra(&plan, &trace));
        assert!(plan.actions.iter().any(|a| matches!(a.task, Task::D2h(_))), "{method}");
    }
}

/// With a link that is of no use, Capuchin recomputes what the hybrid finds cheaper.
#[test]
fn capuchin_recomputes_where_swapping_is_slow() {
    let trace = trace(&in_kib(Chain::uniform(12)));
    let peak = simulator::in_core(&trace).peak.0;
    let plan = planned("capuchin", &trace, &machine(1), peak * 7 / 10).expect("it fits");
    assert!(plan.decisions.iter().any(|d| d.choice == Choice::Recompute));
}

/// With eight maps the genetic search finds what trying all sets finds.
#[test]
fn swapadvisor_finds_the_best_set_of_a_small_problem() {
    let mut chain = Chain::uniform(4);
    chain.forward = vec![10, 40, 5, 20];
    chain.saved = vec![30, 10, 50, 20];
    let trace = trace(&in_kib(chain));
    let machine = machine(KIB);
    let peak = simulator::in_core(&trace).peak.0;
    for percent in [55, 65, 75, 85] {
        let problem = Problem::new(&trace, &machine, Bytes(peak * percent / 100));
        let mut evaluator = problem.evaluator(Policy::EARLY, problem.budget);
        let maps = &problem.feature_maps;
        assert!(maps.len() <= 8, "few enough to try all sets");
        let best = (0u32..1 << maps.len()).filter_map(|set| {
            let mut treatments = problem.keep_all();
            for (_, gap) in maps.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1) {
                treatments[*gap] = Treatment::Swap;
            }
            evaluator.evaluate(&treatments).ok().map(|outcome| outcome.iteration)
        });
        let best = best.min();
        let method = by_name("swapadvisor").expect("it is listed");
        let found = method.decide(&problem, problem.budget, &NoMonitor).map(|decided| {
            evaluator.evaluate(&decided.treatments).expect("it was found to fit").iteration
        });
        assert_eq!(found.ok(), best, "{percent}%");
    }
}

/// One stage is a hundred times as dear as the others: the knapsack saves what it makes, and DTR
/// does not evict it.
#[test]
fn what_is_dear_to_compute_stays() {
    let mut chain = Chain::uniform(8);
    chain.forward[3] = 1000;
    let trace = trace(&in_kib(chain));
    let peak = simulator::in_core(&trace).peak.0;
    for method in ["selective", "dtr", "rotor"] {
        let plan = planned(method, &trace, &machine(1), peak * 7 / 10).expect(method);
        assert!((1..1000).contains(&extra(&plan, &trace)), "{method}: {}", extra(&plan, &trace));
    }
}

/// In a uniform chain that lacks the room of a single tensor, DTR evicts one of those unused for
/// longest and runs the op that makes it once more.
#[test]
fn dtr_evicts_what_is_stale() {
    let trace = trace(&in_kib(Chain::uniform(8)));
    let unlimited = planned("dtr", &trace, &machine(1), 10_000 * KIB).expect("all fits");
    assert_eq!(extra(&unlimited, &trace), 0);
    let budget = unlimited.predicted.peak.0 - 1;
    let plan = planned("dtr", &trace, &machine(1), budget).expect("it nearly fits");
    let again: Vec<u32> = plan
        .actions
        .iter()
        .filter_map(|a| match a.task {
            Task::Recompute(op) => Some(op.0),
            _ => None,
        })
        .collect();
    assert_eq!(again, [0], "the first stage is the stalest");
    assert_eq!(extra(&plan, &trace), 10);
}

/// Shares of a uniform chain: with no link to use, the split that recomputes as few layers as make
/// the rest fit.
#[test]
fn budget_split_recomputes_no_more_layers_than_needed() {
    let trace = trace(&in_kib(Chain::uniform(8)));
    let machine = machine(1);
    let mut last = u64::MAX;
    let peak = simulator::in_core(&trace).peak.0;
    for percent in [50, 60, 70, 80, 90, 100] {
        let mut problem = Problem::new(&trace, &machine, Bytes(peak * percent / 100));
        problem.allowed.swap = false;
        let method = by_name("budget-split").expect("it is listed");
        let Ok(plan) = plan(method.as_ref(), &problem, &NoMonitor) else { continue };
        assert_eq!(extra(&plan, &trace) % 10, 0, "whole layers run again");
        assert!(extra(&plan, &trace) <= last);
        last = extra(&plan, &trace);
    }
    assert_eq!(last, 0);
}

#[test]
fn a_trace_that_is_no_chain_is_refused_by_name() {
    let mut chain = trace(&Chain::uniform(1));
    chain.ops.retain(|op| op.phase == schema::Phase::Forward);
    for method in ["revolve", "rotor", "rotor-offload", "budget-split"] {
        let error = planned(method, &chain, &machine(1), 1000 * KIB).expect_err(method);
        assert!(matches!(error, PlanError::NotApplicable { .. }), "{method}: {error}");
    }
}
