//! The example of PooCH section 4.4: eight layers, `L_O = {5, 6, 7}`, `L_I = {4, 6, 7}`.
//!
//! The paper draws the timeline (figure 11) and prints no durations. These give its two sets on a
//! link of one KiB per nanosecond: copies take as many nanoseconds as a map has KiB.

use std::cmp::Reverse;

use crate::common::build::{self, op, tensor};
use planner::methods::{Exposed, by_name};
use planner::{NoMonitor, Problem, plan};
use schema::{Bytes, Choice, Machine, Nanos, OpKind, Phase, Role, Tensor, TensorId, Trace};
use simulator::{Policy, Treatment};

/// KiB of each layer's feature map.
const MAPS: [u64; 8] = [10, 10, 10, 10, 40, 10, 20, 10];
/// Nanoseconds of each layer, forward and backward.
const FORWARD: [u64; 8] = [10, 10, 10, 10, 10, 10, 20, 25];
const BACKWARD: [u64; 8] = [20, 20, 20, 20, 20, 10, 20, 10];

fn kib(amount: u64) -> Bytes {
    Bytes(amount * 1024)
}

fn trace() -> Trace {
    let tensor = |layer: usize| tensor(format!("x{layer}"), MAPS[layer] * 1024, Role::Activation);
    let forward_op = (OpKind::Convolution, Phase::Forward);
    let forward = (0..8u32).map(|i| {
        let input: &[u32] = if i > 0 { &[i - 1] } else { &[] };
        op(format!("f{i}"), forward_op, FORWARD[i as usize], [input, &[i], &[]])
    });
    let loss = op("loss", forward_op, 0, [&[]; 3]);
    let backward = (0..8u32).rev().map(|i| {
        let kind = (OpKind::Convolution, Phase::Backward);
        op(format!("b{i}"), kind, BACKWARD[i as usize], [&[i], &[], &[i]])
    });
    // Between the last layer's two computations, its feature map can leave and come back.
    let ops = forward.chain([loss]).chain(backward).collect();
    build::trace("pooch-4.4", (0..8).map(tensor).collect(), ops)
}

fn machine() -> Machine {
    build::machine(1_024_000_000_000)
}

#[test]
fn exposed_copies_are_those_of_the_paper() {
    let (trace, machine) = (trace(), machine());
    let problem = Problem::new(&trace, &machine, kib(1000));
    let layers = |gaps: &[usize]| -> Vec<u32> {
        gaps.iter().map(|gap| problem.model.gaps()[*gap].tensor.0).collect()
    };
    assert_eq!(layers(&problem.feature_maps), [0, 1, 2, 3, 4, 5, 6, 7]);
    let mut treatments = problem.keep_all();
    problem.feature_maps.iter().for_each(|gap| treatments[*gap] = Treatment::Swap);
    let record = problem.evaluator(Policy::EARLY, problem.budget).record(&treatments);
    let record = record.expect("everything fits");
    let exposed = Exposed::of(&problem, &problem.feature_maps, &record);
    assert_eq!(layers(&exposed.outs), [5, 6, 7], "L_O");
    assert_eq!(layers(&exposed.backs), [4, 6, 7], "L_I");
}

/// Under every budget the search finds what trying all classifications of `L_O` and `L_I` finds: the
/// fastest. Of several it is the one that keeps the most maps, but where a prefix of the tree fits only
/// with more maps kept, which the search gives up.
#[test]
fn the_tree_search_finds_the_best_classification_of_the_exposed_maps() {
    let (trace, machine) = (trace(), machine());
    let mut most = 0;
    for budget in (60..=130).step_by(5) {
        let problem = Problem::new(&trace, &machine, kib(budget));
        let maps = &problem.feature_maps;
        let mut evaluator = problem.evaluator(Policy::EARLY, problem.budget);
        let mut best = None;
        // Layers 0 to 3 are swapped in any case; 5 is kept last, as in the scan of L_O \ L_I.
        for kept in 0u32..16 {
            let mut treatments = problem.keep_all();
            for (layer, gap) in maps.iter().enumerate() {
                if layer < 4 || kept & (1 << (layer - 4)) == 0 {
                    treatments[*gap] = Treatment::Swap;
                }
            }
            if let Ok(outcome) = evaluator.evaluate(&treatments) {
                let this = (outcome.iteration, Reverse(kept.count_ones() as usize));
                best = best.into_iter().chain([this]).min();
            }
        }
        let swap_opt = by_name("swap-opt").expect("it is listed");
        let found = swap_opt.decide(&problem, problem.budget, &NoMonitor).map(|decided| {
            let is_kept = |gap: &&usize| decided.treatments[**gap] == Treatment::Keep;
            let kept = maps.iter().filter(is_kept).count();
            let outcome = evaluator.evaluate(&decided.treatments).expect("it was found to fit");
            (outcome.iteration, Reverse(kept))
        });
        let time = |found: Option<(Nanos, Reverse<usize>)>| found.map(|(time, _)| time);
        let found = found.ok();
        assert_eq!(time(found), time(best), "budget {budget}");
        most += usize::from(found == best);
    }
    assert!(most >= 13, "{most} of 15");
}

/// The second step never costs time, and under some budgets it gains some.
#[test]
fn recomputation_replaces_swaps_where_it_costs_less() {
    let (trace, machine) = (trace(), machine());
    let mut gains = 0;
    for budget in (60..=130).step_by(5) {
        let problem = Problem::new(&trace, &machine, kib(budget));
        let made = |method: &str| {
            let method = by_name(method).expect("it is listed");
            plan(method.as_ref(), &problem, &NoMonitor)
        };
        let (Ok(swap_opt), Ok(pooch)) = (made("swap-opt"), made("pooch")) else { continue };
        assert!(pooch.predicted.iteration <= swap_opt.predicted.iteration, "budget {budget}");
        if pooch.predicted.iteration < swap_opt.predicted.iteration {
            assert!(pooch.decisions.iter().any(|d| d.choice == Choice::Recompute));
            gains += 1;
        }
    }
    assert!(gains > 0);
}

/// What an op saves for its backward op beside its output is none, down to where it no longer is
/// a hundredth of it; an output is one however small it is.
#[test]
fn statistics_are_no_feature_maps_and_small_outputs_are() {
    let machine = machine();
    for (statistics, maps) in [(101, 8), (102, 9)] {
        let mut trace = trace();
        trace.tensors[3].bytes = Bytes(4);
        trace.tensors.push(Tensor {
            name: "statistics".into(),
            bytes: Bytes(statistics),
            ..trace.tensors[2].clone()
        });
        let saved = TensorId(8);
        trace.ops[2].writes.push(saved);
        let backward = trace.ops.iter_mut().find(|op| op.name == "b2").expect("it is there");
        backward.reads.push(saved);
        backward.frees.push(saved);
        let problem = Problem::new(&trace, &machine, kib(1000));
        assert_eq!(problem.feature_maps.len(), maps, "{statistics} bytes beside 10 KiB");
    }
}

/// PooCH's hosts hold all maps. Where one does not, `swap-opt` keeps some and `pooch` recomputes
/// what then does not fit the device.
#[test]
fn a_small_host_has_plans_and_is_never_overfilled() {
    let (trace, machine) = (trace(), machine());
    let mut recomputed_for_the_host = 0;
    for host in (0..=120).step_by(20) {
        for budget in (60..=200).step_by(10) {
            let mut problem = Problem::new(&trace, &machine, kib(budget));
            problem.host_budget = kib(host);
            let decided = |method: &str| {
                let method = by_name(method).expect("it is listed");
                let decided = method.decide(&problem, problem.budget, &NoMonitor).ok()?;
                let mut evaluator = problem.evaluator(decided.policy, problem.budget);
                let outcome = evaluator.evaluate(&decided.treatments).expect("it is decided on");
                assert!(outcome.host_peak <= problem.host_budget);
                Some((outcome.iteration, decided.treatments))
            };
            let (swap_opt, pooch) = (decided("swap-opt"), decided("pooch"));
            let recomputes = |treatments: &[Treatment]| treatments.contains(&Treatment::Recompute);
            match (swap_opt, pooch) {
                (Some((time, treatments)), Some((pooch, _))) => {
                    assert!(pooch <= time, "host {host}, budget {budget}");
                    assert!(!recomputes(&treatments));
                }
                (Some(_), None) => panic!("host {host}, budget {budget}"),
                (None, Some((_, treatments))) => {
                    assert!(recomputes(&treatments));
                    recomputed_for_the_host += 1;
                }
                // All maps together take 120 KiB, beside which nothing takes memory.
                (None, None) => assert!(budget < 130, "host {host}, budget {budget}"),
            }
        }
    }
    assert!(recomputed_for_the_host > 0);
}

/// A leaf of the tree, and a round of r, have an evaluation for each of thousands of maps on long traces.
#[test]
fn rounds_end_with_the_evaluations_that_may_be() {
    let trace = planner::families::family("u-shaped:seed=7,ops=2000").expect("a family");
    let machine = scenarios::machine("h100-sxm").expect("a bundled machine");
    let budget = Bytes(simulator::in_core(&trace).peak.0 / 10 * 6);
    let made = |evaluations: u64| {
        let problem = Problem::new(&trace, &machine, budget).with_evaluations(evaluations);
        let pooch = by_name("pooch").expect("it is there");
        planner::decisions(pooch.as_ref(), &problem, &NoMonitor).expect("it fits");
        problem.evaluations_made()
    };
    let (few, many) = (made(4), made(4000));
    assert!(few < 100 && many > 200, "{few} and {many}");
}
