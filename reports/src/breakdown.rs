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
    let row = |what: &str, time: Nanos| vec![what.into(), time.to_string(), share(time)];
    let mut rows = vec![
        vec!["iteration".into(), timeline.iteration.to_string()],
        vec!["peak".into(), timeline.peak.to_string()],
        vec!["memory".into(), arena.to_string()],
        vec!["budget".into(), timeline.budget.to_string()],
    ];
    rows.extend(timeline.lanes().map(|lane| {
        row(&format!("{} busy", lane.name()), timeline.time_of(|interval| interval.lane == lane))
    }));
    let again = timeline.time_of(|interval| matches!(interval.task, Task::Recompute(_)));
    rows.push(row("compute recomputes", again));
    let is_codec = |task| matches!(task, Task::Compress(_) | Task::Decompress(_));
    let codecs = timeline.time_of(|i| i.lane == Lane::Compute && is_codec(i.task));
    rows.extend((codecs > Nanos::ZERO).then(|| row("compute runs codecs", codecs)));
    let mut rest = timeline.compute_idle();
    for (cause, name) in [
        (StallCause::Data, "compute waits for data"),
        (StallCause::Memory, "compute waits for memory"),
        (StallCause::Turn, "compute waits for its turn"),
    ] {
        let idle = timeline.compute_waits(cause);
        rest = rest.saturating_sub(idle);
        rows.push(row(name, idle));
    }
    rows.push(row("compute waits for the last copies", rest));
    text.push_str(&columns(&rows));
    text
}
