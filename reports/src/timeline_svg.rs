//! A timeline as a picture: lanes by time above the memory curve, in one self-contained SVG.

mod boxes;
mod canvas;
mod lanes;
mod legend;
mod memory;

use std::cmp::max;

use schema::{Basis, Nanos, OpId, Phase, Timeline};

use crate::Picture;
use crate::axis::{Unit, ticks};
use canvas::{Canvas, RIGHT, X, wrapped};

/// Space left of the plots, for their labels.
const LEFT: f64 = 84.0;
/// Narrower pictures have no room for their labels.
const LEAST_WIDTH: u32 = 480;

/// The timeline as an SVG of `width` pixels (at least 480) that needs nothing beside it.
///
/// Above: a row of boxes per lane, where the compute lane's stalls are hatched by their cause.
/// Below: the bytes that are resident and in flight, under the budget. Resting the pointer on a
/// box says what it is. `phase_of` tells forward from backward ops, as the trace does; ops of
/// which it knows nothing are drawn alike.
///
/// Boxes that would be thinner than a pixel are drawn as one column, which their colours share by
/// the time that each takes; a pixel of the memory curve shows the largest value within it. So the
/// picture's size depends on its width and hardly on the number of ops.
pub fn timeline_svg(
    timeline: &Timeline,
    width: u32,
    phase_of: &dyn Fn(OpId) -> Option<Phase>,
) -> String {
    timeline_picture(timeline, width, Nanos::ZERO, phase_of).svg()
}

/// The same before it is framed, with a time axis that reaches to `until` at least: timelines
/// that are to be compared share one scale.
pub(crate) fn timeline_picture(
    timeline: &Timeline,
    width: u32,
    until: Nanos,
    phase_of: &dyn Fn(OpId) -> Option<Phase>,
) -> Picture {
    let width = f64::from(width.max(LEAST_WIDTH));
    let last = timeline.intervals.iter().map(|interval| interval.end).max();
    let end = max(until, max(memory::last_moment(timeline), last.unwrap_or_default()));
    let x = X { left: LEFT, right: width - RIGHT, end };

    let mut canvas = Canvas::default();
    let mut y = title(&mut canvas, timeline, width);
    y = legend::draw(&mut canvas, timeline, phase_of, x, y);
    let top = y + 8.0;
    let lanes_end = lanes::draw(&mut canvas, timeline, phase_of, x, top);
    let bottom = memory::draw(&mut canvas, timeline, x, lanes_end + 32.0);
    time_axis(&mut canvas, x, top, bottom);
    canvas.finish(width, bottom + 40.0, &timeline.title())
}

/// Returns where the title ends.
fn title(canvas: &mut Canvas, timeline: &Timeline, width: f64) -> f64 {
    let basis = match timeline.basis {
        Basis::Predicted => "predicted",
        Basis::Measured => "measured",
    };
    let Timeline { iteration, peak, budget, .. } = timeline;
    let figures = format!(
        "{basis} iteration {iteration}, compute idle {}; peak {peak} of a budget of {budget}",
        timeline.compute_idle(),
    );
    let mut y = 8.0;
    for (text, class, size) in [(timeline.title(), "h", 17.0), (figures, "t", 13.0)] {
        for line in wrapped(&text, size, width - 2.0 * RIGHT) {
            y += size + 6.0;
            canvas.text(RIGHT, y, class, &line);
        }
    }
    y
}

/// Lines through both plots, and the times under them.
fn time_axis(canvas: &mut Canvas, x: X, top: f64, bottom: f64) {
    let unit = Unit::of_time(x.end.0);
    let room = ((x.right - x.left) / 75.0) as u64;
    for tick in ticks(x.end.0, room.max(2)) {
        let at = x.of(Nanos(tick));
        canvas.behind(at, top, at, bottom);
        let label = unit.label(tick);
        canvas.text(at, bottom + 16.0, "t m", &label);
    }
    let axis = format!("time ({})", unit.name);
    canvas.text((x.left + x.right) / 2.0, bottom + 33.0, "t m", &axis);
}

#[cfg(test)]
mod tests;
