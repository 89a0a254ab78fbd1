//! What the caller holds: no plan gives its memory up, and no bound counts on that.

use crate::common::build::{link, op, tensor, trace};
use crate::common::random::{self, Random};
use planner::methods::{all, by_name};
use planner::{Bound, NoMonitor, PlanError, Problem, bound, least_budget, plan};
use schema::{Bytes, Document, Machine, OpId, OpKind, Phase, Plan, Role, TensorId, Trace};
use simulator::{ContractError, Infeasible, Policy, Step, StepProblem, check_contract};

/// Four layers of 1000 bytes of parameters, of which each makes 4000 bytes and later a gradient of
/// 1000 that outlives the iteration.
fn trained(held: bool) -> Trace {
    let layers = 4u32;
    let (parameter, map, gradient) = (|l| l, |l| layers + l, |l| 2 * layers + l);
    let of = |role, bytes, held| {
        move |l: u32| schema::Tensor { held, ..tensor(format!("{role:?} {l}"), bytes, role) }
    };
    let parameters = (0..layers).map(of(Role::Parameter, 1000, held));
    let maps = (0..layers).map(of(Role::Activation, 4000, false));
    let gradients = (0..layers).map(of(Role::Gradient, 1000, held));
    let forward = (0..layers).map(|l| {
        let before = l.checked_sub(1).map(map);
        let reads: Vec<u32> = [parameter(l)].into_iter().chain(before).collect();
        let about = (OpKind::MatrixProduct, Phase::Forward);
        op(format!("forward {l}"), about, 1000, [&reads, &[map(l)], &[]])
    });
    let backward = (0..layers).rev().map(|l| {
        let about = (OpKind::MatrixProduct, Phase::Backward);
        let lists: [&[u32]; 3] = [&[parameter(l), map(l)], &[gradient(l)], &[map(l)]];
        op(format!("backward {l}"), about, 2000, lists)
    });
    let tensors = parameters.chain(maps).chain(gradients).collect();
    trace("trained", tensors, forward.chain(backward).collect())
}

fn machine() -> Machine {
    let mut machine = random::machine(&mut Random::new(0));
    machine.link = link(8_000_000_000);
    machine
}

/// With copies allowed, parameters and gradients could wait on the host; what is held cannot.
#[test]
fn the_bound_counts_what_is_held() {
    let machine = machine();
    let least = |held| {
        let trace = trained(held);
        least_budget(&Problem::new(&trace, &machine, Bytes(1 << 30))).0.0
    };
    // A layer reads its parameter and the map before, and makes its own; at the end there are all
    // parameters and gradients.
    assert_eq!((least(false), least(true)), (9000, 4000 + 8000));
    let trace = trained(true);
    let problem = Problem::new(&trace, &machine, Bytes(11_999));
    assert!(matches!(bound(&problem), Bound::Infeasible { needed: Bytes(12_000), .. }));
    let short = plan(by_name("tide").unwrap().as_ref(), &problem, &NoMonitor).unwrap_err();
    assert!(short.short_by().is_some(), "{short}");
    // Before the first backward op, where a gradient is there no more than another map.
    let loads = |op| problem.model.held_bytes(OpId(op)).0;
    assert_eq!([0, 3, 4, 7].map(loads), [4000, 4000, 5000, 8000]);
}

/// Whatever a method decides, what is held has one buffer for all its time.
#[test]
fn every_method_leaves_what_is_held_where_it_is() {
    let (trace, machine) = (trained(true), machine());
    let mut fits = 0;
    for method in all() {
        let problem = Problem::new(&trace, &machine, Bytes(17_000));
        let Ok(plan) = plan(method.as_ref(), &problem, &NoMonitor) else { continue };
        fits += 1;
        for id in (0..trace.tensors.len()).filter(|id| trace.tensors[*id].held) {
            let of = plan.buffers.iter().filter(|b| b.tensor == Some(TensorId(id as u32)));
            let ends: Vec<bool> = of.map(|buffer| buffer.at_end).collect();
            assert_eq!(ends, [true], "{}: tensor {id}", method.name());
        }
    }
    assert!(fits > 5, "only {fits} methods fit");
}

/// A plan that the trace allows until the caller holds what it moves.
#[test]
fn a_plan_that_moves_what_is_held_is_refused() {
    let (free, held, machine) = (trained(false), trained(true), machine());
    let problem = Problem::new(&free, &machine, Bytes(11_500));
    let allowed = plan(by_name("tide").unwrap().as_ref(), &problem, &NoMonitor).unwrap();
    let mut moved: Plan = allowed.into_plan();
    assert_eq!(check_contract(&moved, &free), Ok(()));
    moved.trace.digest = held.digest();
    let refused = check_contract(&moved, &held);
    assert!(matches!(refused, Err(ContractError::NotHeld { .. })), "{refused:?}");

    let problem = Problem::new(&held, &machine, Bytes(1 << 30));
    let steps = [Step::Run(OpId(0)), Step::SwapOut(TensorId(0))];
    let refused = problem.evaluator(Policy::EARLY, problem.budget).evaluate_steps(&steps);
    let Err(Infeasible::Step(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.problem, StepProblem::Held { tensor: TensorId(0) });
    let error = PlanError::from_infeasible(Infeasible::Step(error), problem.budget).to_string();
    assert!(error.contains("which the caller holds"), "{error}");
}
