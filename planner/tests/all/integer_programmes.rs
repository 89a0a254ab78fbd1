//! Integer programmes on a problem small enough to be solved by hand.

use crate::common::build;
use crate::common::exhaustive::squeeze;
use crate::common::random::{self, Random};
use planner::methods::{Ilp, Method, Tide};
use planner::{Allowed, Limits, NoMonitor, PlanError, Problem, plan};
use schema::{Bytes, Choice, Machine, Nanos, Op, OpKind, Phase, Role, Task, Trace};

/// `a` (made in 100 ns) and `b` (in 300 ns), of 1024 bytes each, are made, wait while an op works
/// for 500 ns with 1024 bytes of its own, and are read for 100 ns.
fn trace() -> Trace {
    let tensors = ["a", "b"].map(|name| build::tensor(name, 1024, Role::Activation)).to_vec();
    let op = |name, time, reads: &[u32], writes: &[u32]| {
        build::op(name, (OpKind::Other, Phase::Forward), time, [reads, writes, reads])
    };
    let ops = vec![
        op("make a", 100, &[], &[0]),
        op("make b", 300, &[], &[1]),
        Op { workspace: Bytes(1024), ..op("work", 500, &[], &[]) },
        op("read", 100, &[0, 1], &[]),
    ];
    build::trace("by hand", tensors, ops)
}

/// A link that carries so many gigabytes per second, without latency.
fn machine(gigabytes: u64) -> Machine {
    build::machine(gigabytes * 1_000_000_000)
}

/// With 2048 bytes, one of the two is absent while the op works. Over a fast link, copies take
/// 10 ns, and the way back cannot begin before the work has ended. Over a slow one they take
/// 1024 ns each; making `a` again takes 100 ns.
#[test]
fn each_programme_finds_its_optimum() {
    let trace = trace();
    let cases = [
        (100, Ilp::AUTOTM, Choice::Swap, 1010),
        (100, Ilp::CHECKMATE, Choice::Recompute, 1100),
        (100, Ilp::POET, Choice::Swap, 1010),
        (100, Ilp::ALL, Choice::Swap, 1010),
        (1, Ilp::CHECKMATE, Choice::Recompute, 1100),
        (1, Ilp::POET, Choice::Recompute, 1100),
        (1, Ilp::ALL, Choice::Recompute, 1100),
    ];
    for (gigabytes, method, choice, time) in cases {
        let case = format!("{} at {gigabytes} GB/s", method.name());
        let machine = machine(gigabytes);
        let problem = Problem::new(&trace, &machine, Bytes(2048));
        let allowed = problem.allowed.and(method.uses());
        let restricted = problem.restricted_to(allowed);
        let own =
            method.programmes(&restricted, problem.budget, None, &NoMonitor).expect("it decides");
        let mut evaluator = problem.evaluator(own.policy, problem.budget);
        let outcome = evaluator.evaluate(&own.treatments).expect("it fits");
        assert_eq!(outcome.iteration, Nanos(time), "{case}: {:?}", own.treatments);
        let warm = |known| method.programmes(&restricted, problem.budget, Some(known), &NoMonitor);
        assert!(warm(Nanos(time)).is_ok(), "{case}: nothing slower is known");
        assert!(warm(Nanos(time - 2)).is_err(), "{case}: nothing is faster");
        let plan = plan(&method, &problem, &NoMonitor).expect("there is a plan");
        assert_eq!(plan.predicted.iteration, Nanos(time), "{case}");
        assert!(plan.predicted.bound.is_some_and(|bound| bound.0 <= time), "{case}");
        let does = plan.actions.iter().any(|action| match choice {
            Choice::Swap => matches!(action.task, Task::H2d(_)),
            _ => matches!(action.task, Task::Recompute(_)),
        });
        assert!(does, "{case}: {:?}", plan.actions);
        assert!(plan.settings.contains_key("solver"), "{case}");
    }
}

#[test]
fn a_programme_without_what_it_needs_says_so() {
    let (trace, machine) = (trace(), machine(1));
    let mut problem = Problem::new(&trace, &machine, Bytes(2048));
    problem.allowed = Allowed { swap: false, recompute: true, compress: false };
    let error = plan(&Ilp::AUTOTM, &problem, &NoMonitor).expect_err("it may not swap");
    assert!(matches!(error, PlanError::NotAllowed { what: "swap" }), "{error}");
}

#[test]
fn too_little_memory_is_an_error() {
    let (trace, machine) = (trace(), machine(1));
    let problem = Problem::new(&trace, &machine, Bytes(1500));
    assert!(plan(&Ilp::ALL, &problem, &NoMonitor).is_err());
}

/// Longer traces, on which memory is looked at at some ops alone and most gaps are settled
/// beforehand: the same decisions each time, and no plan slower than that of `tide`.
#[test]
fn long_traces_are_settled_in_part() {
    let (mut decided, mut planned) = (0, 0);
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let trace = random::trace(&mut random, 200);
        let machine = random::machine(&mut random);
        let mut problem = Problem::new(&trace, &machine, Bytes(1 << 40));
        problem.limits = Limits { evaluations: 500 };
        squeeze(&mut problem, 850);
        let decide = || Ilp::ALL.programmes(&problem, problem.budget, None, &NoMonitor);
        if let Ok(own) = decide() {
            let mut evaluator = problem.evaluator(own.policy, problem.budget);
            evaluator.evaluate(&own.treatments).expect("it fits");
            assert_eq!(decide(), Ok(own), "seed {seed}");
            decided += 1;
        }
        if let Ok(tide) = plan(&Tide, &problem, &NoMonitor) {
            let ilp = plan(&Ilp::ALL, &problem, &NoMonitor).expect("tide has a plan");
            assert!(ilp.predicted.iteration <= tide.predicted.iteration, "seed {seed}");
            planned += 1;
        }
        eprintln!("{} gaps of {} ops", problem.model.gaps().len(), trace.ops.len());
    }
    eprintln!("{decided} decided, {planned} planned");
    assert!(decided > 1 && planned > 2, "{decided} decided, {planned} planned");
}
