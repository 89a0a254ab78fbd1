//! Where the time of an iteration goes.

use schema::{Bytes, Lane, Nanos, StallCause, Task, Timeline};

use crate::columns;

/// A predicted timeline in figures: what each lane does, and what compute waits for. `arena` is the
/// plan's.
pub fn breakdown(timeline: &Timeline, arena: Bytes) -> String {
    let mut text = format!(
        "{} on {}, method {}, predicted from the times in the plan\n",
        timeline.trace.name, timeline.machine.name, timeline.method
    );
    let share = |time: Nanos| {
        format!("{:.1} %", 100.0 * time.0 as f64 / timeline.iteration.0.max(1) as f64)
    };
    let mut rows = vec![
        vec!["iteration".into(), timeline.iteration.to_string()],
        vec!["peak".into(), timeline.peak.to_string()],
        vec!["memory".into(), arena.to_string()],
        vec!["budget".into(), timeline.budget.to_string()],
    ];
    for lane in timeline.lanes() {
        let of_lane = timeline.intervals.iter().filter(|i| i.lane == lane);
        let busy: Nanos = of_lane.map(|i| i.end.saturating_sub(i.start)).sum();
        rows.push(vec![format!("{} busy", lane.name()), busy.to_string(), share(busy)]);
    }
    let again = timeline.intervals.iter().filter(|i| matches!(i.task, Task::Recompute(_)));
    let again: Nanos = again.map(|i| i.end.saturating_sub(i.start)).sum();
    rows.push(vec!["compute recomputes".into(), again.to_string(), share(again)]);
    let is_codec = |task| matches!(task, Task::Compress(_) | Task::Decompress(_));
    let on_compute = timeline.intervals.iter().filter(|i| i.lane == Lane::Compute);
    let codecs = on_compute.filter(|i| is_codec(i.task));
    let codecs: Nanos = codecs.map(|i| i.end.saturating_sub(i.start)).sum();
    if codecs > Nanos::ZERO {
        rows.push(vec!["compute runs codecs".into(), codecs.to_string(), share(codecs)]);
    }
    let mut rest = timeline.compute_idle();
    for (cause, name) in [
        (StallCause::Data, "compute waits for data"),
        (StallCause::Memory, "compute waits for memory"),
        (StallCause::Turn, "compute waits for its turn"),
    ] {
        let stalls = timeline.intervals.iter().filter(|i| i.lane == Lane::Compute);
        let stalls = stalls.filter_map(|i| i.stall).filter(|stall| stall.cause == cause);
        let idle: Nanos = stalls.map(|stall| stall.idle).sum();
        rest = rest.saturating_sub(idle);
        rows.push(vec![name.into(), idle.to_string(), share(idle)]);
    }
    rows.push(vec!["compute waits for the last copies".into(), rest.to_string(), share(rest)]);
    text.push_str(&columns(&rows));
    text
}
