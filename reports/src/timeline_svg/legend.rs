//! What the colours and hatches mean: only those that the picture shows.

use schema::{Lane, OpId, Phase, Timeline};

use super::boxes::Kind;
use super::canvas::{Canvas, text_width};

const LINE: f64 = 21.0;
const SWATCH: f64 = 18.0;

/// Draws the legend under `y` and returns where it ends.
pub(super) fn draw(
    canvas: &mut Canvas,
    timeline: &Timeline,
    phase_of: &dyn Fn(OpId) -> Option<Phase>,
    width: f64,
    y: f64,
) -> f64 {
    let margin = super::RIGHT;
    let (mut x, mut y) = (margin, y + 10.0);
    for (class, name) in entries(timeline, phase_of) {
        let needed = SWATCH + 6.0 + text_width(name, 13.0) + 10.0;
        if x + needed > width - margin && x > margin {
            (x, y) = (margin, y + LINE);
        }
        canvas.bar(class, x, y, SWATCH, 13.0, "");
        canvas.text(x + SWATCH + 6.0, y + 11.5, "t", name);
        x += needed;
    }
    y + LINE
}

fn entries(
    timeline: &Timeline,
    phase_of: &dyn Fn(OpId) -> Option<Phase>,
) -> Vec<(&'static str, &'static str)> {
    let mut shown = [false; Kind::COUNT];
    for interval in &timeline.intervals {
        shown[Kind::of_task(interval.task, phase_of) as usize] = true;
        if let Some(stall) = interval.stall.filter(|_| interval.lane == Lane::Compute) {
            shown[Kind::of_stall(stall.cause) as usize] = true;
        }
    }
    let kinds = Kind::ALL.into_iter().filter(|kind| shown[*kind as usize]);
    let mut entries: Vec<_> = kinds.map(|kind| (kind.class(), kind.name())).collect();
    if !timeline.memory.is_empty() {
        entries.extend([("c", "resident"), ("v", "in flight")]);
    }
    entries
}
