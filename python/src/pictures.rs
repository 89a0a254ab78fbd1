//! Plans as pictures: those of a report.

use reports::{Report, Run};
use schema::{Plan, Timeline, Trace};

/// Wide enough for a notebook's cell.
const WIDTH: u32 = 960;

/// Lanes by time above the memory curve.
pub fn timeline(timeline: &Timeline, trace: Option<&Trace>) -> String {
    let phase = |op: schema::OpId| Some(trace?.ops.get(op.index())?.phase);
    reports::timeline_svg(timeline, WIDTH, &phase)
}

/// What memory holds by time, and at its peak.
pub fn memory(timeline: Timeline, plan: &Plan, trace: &Trace) -> Option<String> {
    let run = Run { timeline, plan: Some(plan.clone()), trace: Some(trace.clone()) };
    let figures = Report { runs: vec![run], ..Report::default() }.figures();
    let figure = figures.into_iter().find(|figure| figure.id.starts_with("memory"))?;
    Some(figure.pictures.first()?.svg())
}
