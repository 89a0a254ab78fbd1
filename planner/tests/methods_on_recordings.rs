//! Every method on recordings: plans are safe and compute their trace.

mod common;

use common::random::{self, Random};
use common::recordings;
use planner::methods::all;
use planner::{NoMonitor, PlanError, Problem, bound, plan};
use schema::{Bandwidth, Bytes, BytesPerSec, Machine};
use simulator::{check_contract, in_core, prove};

/// A link like PCIe 3.0 x16.
fn machine() -> Machine {
    let mut machine = random::machine(&mut Random::new(0));
    machine.link.d2h = Bandwidth::constant(BytesPerSec(12_000_000_000));
    machine.link.h2d = machine.link.d2h.clone();
    machine.link.both_directions = 1.0;
    machine.link.beside_copy = 1.0;
    machine
}

#[test]
fn plans_for_half_the_peak_are_safe() {
    if recordings::readme().is_none() {
        return;
    }
    let machine = machine();
    // The small ones: on the others, searches take longer than a test should.
    for name in ["resnet32", "unet"] {
        let trace = recordings::dtr(name);
        let base = in_core(&trace);
        let mut problem = Problem::new(&trace, &machine, Bytes(base.peak.0 / 2));
        problem.limits.evaluations = 200;
        let bound = bound(&problem).time();
        for method in all() {
            match plan(method.as_ref(), &problem, &NoMonitor) {
                Ok(plan) => {
                    prove(&plan).unwrap_or_else(|e| panic!("{name}, {}: {e}", method.name()));
                    check_contract(&plan, &trace)
                        .unwrap_or_else(|e| panic!("{name}, {}: {e}", method.name()));
                    assert!(plan.predicted.arena <= problem.budget);
                    assert!(bound.is_some_and(|bound| bound <= plan.predicted.iteration));
                    let slowdown = plan.predicted.iteration.0 as f64 / base.iteration.0 as f64;
                    println!("{name} {} {slowdown:.4}", method.name());
                }
                // No plan is an answer; a schedule that cannot be taken is a mistake.
                Err(PlanError::Impossible(cause)) => {
                    panic!("{name}, {}: {cause}", method.name())
                }
                Err(error) => println!("{name} {}: {error}", method.name()),
            }
        }
    }
}
