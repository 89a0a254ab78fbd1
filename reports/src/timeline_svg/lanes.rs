//! The upper plot: a row of boxes per lane.

use schema::{Interval, Lane, Nanos, OpId, Phase, Task, Timeline};

use super::boxes::{Bar, Kind, merged};
use super::canvas::{Canvas, X, text_width};

const HEIGHT: f64 = 34.0;
const GAP: f64 = 8.0;
/// The least that is drawn of a box, so that none vanishes.
const THINNEST: f64 = 0.7;

/// Draws the lanes from `top` and returns where they end.
pub(super) fn draw(
    canvas: &mut Canvas,
    timeline: &Timeline,
    phase_of: &dyn Fn(OpId) -> Option<Phase>,
    x: X,
    top: f64,
) -> f64 {
    let pixel = Nanos((x.end.0 as f64 / (x.right - x.left)) as u64);
    let mut y = top;
    for lane in Lane::ALL {
        canvas.text(x.left - 10.0, y + HEIGHT / 2.0 + 4.5, "t e", lane.name());
        canvas.ground(x.left, y, x.right - x.left, HEIGHT);
        let intervals = || timeline.intervals.iter().filter(move |i| i.lane == lane);
        // Copy lanes idle most of the time, and that costs nothing: only compute's stalls matter.
        if lane == Lane::Compute {
            let stalls = merged(intervals().filter_map(stall), pixel);
            stalls.iter().for_each(|bar| draw_bar(canvas, bar, x, y));
        }
        let bars = intervals().map(|interval| {
            let kind = Kind::of_task(interval.task, phase_of);
            Bar::new(interval, kind, interval.start, interval.end)
        });
        merged(bars, pixel).iter().for_each(|bar| draw_bar(canvas, bar, x, y));
        y += HEIGHT + GAP;
    }
    y - GAP
}

/// The idle time before an interval.
fn stall(interval: &Interval) -> Option<Bar<'_>> {
    let stall = interval.stall?;
    let start = interval.start.saturating_sub(stall.idle);
    Some(Bar::new(interval, Kind::of_stall(stall.cause), start, interval.start))
}

fn draw_bar(canvas: &mut Canvas, bar: &Bar<'_>, x: X, y: f64) {
    let (left, right, kind) = (x.of(bar.start), x.of(bar.end), bar.kind());
    // A hair of ground shows between neighbours that are wide enough to spare it.
    let width = if right - left > 3.0 { right - left - 0.5 } else { right - left };
    canvas.bar(kind.class(), left, y, width.max(THINNEST), HEIGHT, &title(bar, kind));
    let label = match kind {
        Kind::StallData | Kind::StallMemory | Kind::StallTurn => return,
        _ if bar.count > 1 => return,
        _ => &bar.first.label,
    };
    if text_width(label, 11.0) + 4.0 < width {
        canvas.text((left + right) / 2.0, y + HEIGHT / 2.0 + 4.0, kind.text_class(), label);
    }
}

fn title(bar: &Bar<'_>, kind: Kind) -> String {
    let (kind, label, start) = (kind.name(), &bar.first.label, bar.start);
    let length = bar.end.saturating_sub(bar.start);
    if bar.count > 1 {
        return format!("{}, mostly {kind}: {length} at {start}", bar.count);
    }
    match bar.first.task {
        Task::CopyOut(_) | Task::CopyIn(_) => {
            format!("{label}, {kind} of {}: {length} at {start}", bar.first.bytes)
        }
        _ if kind.starts_with("stall") => format!("{kind}, before {label}: {length} at {start}"),
        _ => format!("{label}, {kind}: {length} at {start}"),
    }
}
