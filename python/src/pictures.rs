//! Plans as pictures: those of a report.

use pyo3::prelude::*;
use reports::{Comparison, Report, Run, Setting};
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
    figure("memory", Report { runs: vec![run], ..Report::default() })
}

/// Methods side by side: what each adds to the iteration.
pub fn overhead(comparison: &Comparison) -> Option<String> {
    let setting = Setting::of(comparison, None);
    figure("overhead", Report { settings: vec![setting], ..Report::default() })
}

/// A picture as a notebook shows it: apart from the page, whose other pictures its styles would change.
pub fn image(py: Python<'_>, svg: &str) -> PyResult<String> {
    let quoted = py.import("urllib.parse")?.call_method1("quote", (svg,))?;
    Ok(format!("<img src=\"data:image/svg+xml,{quoted}\">\n"))
}

/// The first picture of a report's figure of a kind, where there is something to show.
fn figure(kind: &str, report: Report) -> Option<String> {
    let figures = report.figures();
    let figure = figures.iter().find(|figure| figure.id.starts_with(kind))?;
    Some(figure.pictures.first()?.svg())
}
