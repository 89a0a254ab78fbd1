//! Times from iterations that swap everything, by which PooCH decides (section 4.2).

use planner::{Monitor, PlanError, Problem, methods};
use schema::{Bandwidth, BytesPerSec, Lane, Machine, Nanos, Task, Trace};

/// A machine and a trace by such an iteration: ops take what they took in it, beside copies, the link moves what its
/// copies moved in their time, and nothing slows anything any more. Copies come back as they do before there is a
/// profile to schedule them by. The paper has a time for each copy, here they have one rate in each direction.
///
/// # Errors
/// If the iteration does not fit either.
pub fn profiled(problem: &Problem, monitor: &dyn Monitor) -> Result<(Machine, Trace), PlanError> {
    let swap_all = methods::by_name("swap-all-unscheduled").expect("it comes with the planner");
    let plan = planner::plan(swap_all.as_ref(), problem, monitor)?;
    let timeline = simulator::predict(&plan, None);
    let (mut machine, mut trace) = (problem.machine.clone(), problem.trace.clone());
    let [mut out, mut back] = [(0, Nanos::ZERO); 2];
    for interval in &timeline.intervals {
        let taken = interval.end.saturating_sub(interval.start);
        match (interval.task, interval.lane) {
            (Task::Run(op), Lane::Compute) => trace.ops[op.index()].duration = taken,
            (Task::D2h(_), _) => out = (out.0 + interval.bytes.0, out.1 + taken),
            (Task::H2d(_), _) => back = (back.0 + interval.bytes.0, back.1 + taken),
            _ => {}
        }
    }
    let link = &mut machine.link;
    for (bandwidth, (bytes, time)) in [(&mut link.d2h, out), (&mut link.h2d, back)] {
        if time > Nanos::ZERO {
            let rate = u128::from(bytes) * 1_000_000_000 / u128::from(time.0);
            *bandwidth = Bandwidth::constant(BytesPerSec(rate as u64));
        }
    }
    (link.latency, link.both_directions, link.beside_copy) = (Nanos::ZERO, 1.0, 1.0);
    Ok((machine, trace))
}

#[cfg(test)]
mod tests {
    use planner::{Allowed, Limits, NoMonitor};
    use schema::Bytes;

    use super::*;

    /// Where nothing slows anything, a profile says what the trace and the machine say.
    #[test]
    fn copies_beside_ops_show_in_a_profile_where_they_slow_them_and_nowhere_else() {
        let profile = |machine: &str| {
            let machine = scenarios::machine(machine).expect("bundled");
            let network = networks::network("resnet18", &networks::NetworkOptions::default());
            let network = network.expect("bundled");
            let trace = networks::modelled_trace(&network, &machine).expect("modelled");
            let conditions = crate::Conditions {
                host_budget: Some(machine.host.memory),
                allowed: Allowed { swap: true, recompute: true, compress: false },
                limits: Limits::default(),
                codecs: None,
            };
            let problem = conditions.problem(&trace, &machine, Bytes(1 << 34));
            let (after, profile) = profiled(&problem, &NoMonitor).expect("it fits");
            (trace, machine, profile, after)
        };
        let (trace, _, alone, _) = profile("pooch-x86");
        assert_eq!(alone.ops, trace.ops);
        let (trace, machine, beside, after) = profile("pooch-x86+contended");
        let slowed = beside.total_time().ratio(trace.total_time());
        assert!((1.001..=1.0 / 0.96 + 0.001).contains(&slowed), "{slowed}");
        let rate = |machine: &Machine| machine.link.h2d.at(Bytes(1 << 28));
        assert!(rate(&after) < rate(&machine), "{} of {}", rate(&after), rate(&machine));
    }
}
