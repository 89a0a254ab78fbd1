//! What the colours and hatches mean: only those that the picture shows.

use schema::{Nanos, OpId, Phase, Timeline};

use super::boxes::Kind;
use super::canvas::{Canvas, RIGHT, X, text_width};
use super::lanes::with_waits;

const LINE: f64 = 21.0;
const SWATCH: f64 = 18.0;

/// Draws the legend under `y` and returns where it ends.
pub(super) fn draw(
    canvas: &mut Canvas,
    timeline: &Timeline,
    phase_of: &dyn Fn(OpId) -> Option<Phase>,
    scale: X,
    y: f64,
) -> f64 {
    let (margin, right) = (RIGHT, scale.right);
    let (mut x, mut y) = (margin, y + 10.0);
    for (class, name) in entries(timeline, phase_of, scale.pixel()) {
        let needed = SWATCH + 6.0 + text_width(name, 13.0) + 10.0;
        if x + needed > right && x > margin {
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
    pixel: Nanos,
) -> Vec<(&'static str, &'static str)> {
    let mut shown = [false; Kind::COUNT];
    let mut short_stalls = false;
    for interval in &timeline.intervals {
        shown[Kind::of_task(interval.task, phase_of) as usize] = true;
    }
    for wait in with_waits(timeline, |_| Kind::Op).iter().filter(|bar| bar.kind().is_stall()) {
        shown[wait.kind() as usize] = true;
        short_stalls |= wait.length() < pixel;
    }
    let kinds = Kind::all().filter(|kind| shown[*kind as usize]);
    let mut entries: Vec<_> = kinds.map(|kind| (kind.class(), kind.name())).collect();
    entries.extend(short_stalls.then_some(("ss", "short waits")));
    if !timeline.memory.is_empty() {
        entries.extend([("c", "resident"), ("v", "in flight")]);
    }
    entries
}
