//! Ops that say what they change, what a rerun has to do with, and what they draw from: batch norm, by
//! hand.

use crate::common::build::{op, tensor, trace};
use crate::common::random::{self, Random};
use checker::{Prepared, Wanted};
use planner::methods::by_name;
use planner::{Allowed, Bound, NoMonitor, PlanError, Problem, bound, plan};
use schema::{Bytes, Machine, Op, OpId, OpKind, Phase, Rerun, Role, Task, TensorId, Trace};
use simulator::{ProvenPlan, check_contract};

const STATISTICS: TensorId = TensorId(2);
const OUTPUT: TensorId = TensorId(3);

const KIB: u64 = 1024;

/// A sample, a weight and running statistics are normalised; another 8000 KiB come and go before
/// the 4000 that this makes, and a mean, are read again.
fn normalised(mutates: Option<Vec<TensorId>>, rerun: Option<Rerun>) -> Trace {
    let sizes = [1000, 100, 50, 4000, 100, 8000, 100, 100];
    let role = |index: usize| if index < 3 { Role::Parameter } else { Role::Activation };
    let tensors =
        sizes.iter().enumerate().map(|(i, bytes)| tensor(format!("t{i}"), *bytes * KIB, role(i)));
    let kind = |kind, phase, lists: [&[u32]; 3]| op("op", (kind, phase), 100, lists);
    let norm = kind(OpKind::Normalisation, Phase::Forward, [&[0, 1, 2], &[3, 4], &[]]);
    let ops = vec![
        Op { rerunnable: rerun.is_some(), mutates, rerun, ..norm },
        kind(OpKind::Other, Phase::Forward, [&[3], &[5], &[]]),
        kind(OpKind::Other, Phase::Backward, [&[5], &[6], &[5]]),
        kind(OpKind::Normalisation, Phase::Backward, [&[3, 4, 6], &[7], &[3, 4, 6]]),
    ];
    trace("normalised", tensors.collect(), ops)
}

fn without_statistics() -> Trace {
    let rerun = Rerun { reads: vec![TensorId(0), TensorId(1)], writes: vec![OUTPUT] };
    normalised(Some(vec![STATISTICS]), Some(rerun))
}

fn machine() -> Machine {
    random::machine(&mut Random::new(0))
}

fn problem<'a>(trace: &'a Trace, machine: &'a Machine, budget: u64) -> Problem<'a> {
    let allowed = Allowed { swap: false, recompute: true, compress: false };
    Problem::new(trace, machine, Bytes(budget)).with_allowed(allowed)
}

fn tide(trace: &Trace, budget: u64) -> Result<ProvenPlan, PlanError> {
    plan(by_name("tide").unwrap().as_ref(), &problem(trace, &machine(), budget), &NoMonitor)
}

/// All is 13,350 KiB; without what is normalised, while another op runs, 13,250.
const BUDGET: u64 = 13_300 * KIB;

#[test]
fn a_rerun_has_to_do_with_what_it_says() {
    let trace = without_statistics();
    let mut planned = tide(&trace, BUDGET).unwrap().into_plan();
    let again = planned.actions.iter().position(|action| action.task == Task::Recompute(OpId(0)));
    let again = again.expect("the norm is run again");
    let of = |buffers: &[schema::BufferId]| -> Vec<Option<TensorId>> {
        buffers.iter().map(|buffer| planned.buffers[buffer.index()].tensor).collect()
    };
    assert_eq!(of(&planned.actions[again].reads), [Some(TensorId(0)), Some(TensorId(1))]);
    assert_eq!(of(&planned.actions[again].writes), [Some(OUTPUT)]);
    Prepared::new(&planned, &Wanted::of(&trace)).and_then(|plan| plan.check()).unwrap();

    let statistics = planned.buffers.iter().position(|b| b.tensor == Some(STATISTICS)).unwrap();
    planned.actions[again].reads.push(schema::BufferId::from_index(statistics));
    let refused = check_contract(&planned, &trace).unwrap_err().to_string();
    assert!(refused.contains("does not read the tensors that op 0 reads"), "{refused}");
}

/// What a rerun would read has changed, or a rerun would change it: the op runs once.
#[test]
fn an_op_that_changes_what_it_reads_runs_once_unless_a_rerun_leaves_that_out() {
    let (all, machine) = (normalised(None, None), machine());
    assert!(tide(&all, BUDGET).is_err());
    let needed = bound(&problem(&all, &machine, BUDGET));
    assert!(matches!(needed, Bound::Infeasible { .. }), "{needed:?}");
    // A mean that only the first run makes is kept.
    let none = Rerun { reads: vec![TensorId(0)], writes: Vec::new() };
    assert!(tide(&normalised(Some(Vec::new()), Some(none)), BUDGET).is_err());
    let refused = |mutates: &[TensorId], rerun: Option<Rerun>| {
        let mut trace = without_statistics();
        (trace.ops[0].mutates, trace.ops[0].rerun) = (Some(mutates.to_vec()), rerun);
        schema::Document::check(&trace).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        [
            refused(&[STATISTICS], None),
            refused(&[OUTPUT], None),
            refused(&[TensorId(6)], None),
            refused(&[], Some(Rerun { reads: vec![TensorId(6)], writes: vec![] })),
            refused(&[], Some(Rerun { reads: vec![], writes: vec![TensorId(0)] })),
        ]
        .join("\n"),
        @r"
    ops[0].mutates names tensor 2, which a rerun would read as it is by then: leave it out of rerun.reads
    ops[0].mutates names tensor 3, which the op does not read
    ops[0].mutates names tensor 6, which the op does not read
    ops[0].rerun.reads names tensor 6, which the op's first run does not
    ops[0].rerun.writes names tensor 0, which the op's first run does not
    "
    );
}

/// The states that ops draw from are kept beside the arena.
#[test]
fn random_states_are_not_of_the_budget() {
    let mut trace = without_statistics();
    let tight = 13_250 * KIB;
    assert!(tide(&trace, tight).is_ok());
    trace.ops[0].random = Bytes(16);
    assert!(tide(&trace, tight).is_err());
    let planned = tide(&trace, tight + 16).unwrap();
    assert_eq!((planned.budget, planned.predicted.arena), (Bytes(tight), Bytes(tight)));
}
