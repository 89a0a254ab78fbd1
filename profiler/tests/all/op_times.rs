//! Times of ops under a plan: what copies slow them by is not theirs.

use planner::families::family;
use planner::methods::SwapAll;
use planner::{NoMonitor, Problem, plan};
use profiler::op_times::OpTimes;
use schema::Bytes;

#[test]
fn what_copies_slow_ops_by_is_taken_out() {
    let trace = family("residual:seed=3,ops=200").unwrap();
    let mut machine = scenarios::machine("titan-v").unwrap();
    machine.link.beside_copy = 0.6;
    let budget = Bytes(simulator::in_core(&trace).peak.0 / 2);
    let plan =
        plan(&SwapAll { scheduled: false }, &Problem::new(&trace, &machine, budget), &NoMonitor)
            .unwrap();
    let timeline = simulator::predict(&plan, Some(&trace));
    let times = |beside_copy| {
        OpTimes::under_plan(trace.ops.len(), std::slice::from_ref(&timeline), beside_copy).durations
    };
    let mut slowed = 0;
    for ((op, own), taken) in trace.ops.iter().zip(times(0.6)).zip(times(1.0)) {
        // The replay rounds wherever a copy starts or ends.
        let off = own.0.abs_diff(op.duration.0);
        assert!(off <= 20 + op.duration.0 / 1000, "{}: {own} in place of {}", op.name, op.duration);
        slowed += usize::from(taken.0 > op.duration.0 + op.duration.0 / 10);
    }
    assert!(slowed > 20, "{slowed} ops ran beside copies");
}
