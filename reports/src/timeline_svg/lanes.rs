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
    let mut y = top;
    for lane in timeline.lanes() {
        canvas.text(x.left - 10.0, y + HEIGHT / 2.0 + 4.5, "t e", lane.name());
        canvas.ground(x.left, y, x.right - x.left, HEIGHT);
        let runs = |interval: &'_ Interval| Kind::of_task(interval.task, phase_of);
        // Copy lanes idle most of the time, and that costs nothing: only compute's waits matter.
        let bars: Vec<Bar<'_>> = match lane {
            Lane::Compute => with_waits(timeline, runs),
            _ => timeline.on(lane).map(|i| Bar::new(i, runs(i), i.start, i.end)).collect(),
        };
        for bar in merged(bars.into_iter(), x.pixel()) {
            match bar.count {
                1 => draw_one(canvas, &bar, x, y),
                _ => draw_several(canvas, &bar, x, y),
            }
        }
        y += HEIGHT + GAP;
    }
    y - GAP
}

/// Compute's intervals, and its waits before, between and after them.
pub(super) fn with_waits<'a>(
    timeline: &'a Timeline,
    kind: impl Fn(&Interval) -> Kind,
) -> Vec<Bar<'a>> {
    let mut of_compute: Vec<&Interval> = timeline.on(Lane::Compute).collect();
    of_compute.sort_by_key(|interval| (interval.start, interval.end));
    let (mut bars, mut free) = (Vec::new(), Nanos::ZERO);
    for interval in &of_compute {
        if interval.start > free {
            let cause = interval.stall.map_or(Kind::Idle, |stall| Kind::of_stall(stall.cause));
            bars.push(Bar::new(interval, cause, free, interval.start));
        }
        bars.push(Bar::new(interval, kind(interval), interval.start, interval.end));
        free = free.max(interval.end);
    }
    let last = of_compute.last().filter(|_| timeline.iteration > free);
    bars.extend(last.map(|last| Bar::new(last, Kind::StallEnd, free, timeline.iteration)));
    bars
}

fn draw_one(canvas: &mut Canvas, bar: &Bar<'_>, x: X, y: f64) {
    let (left, right, kind) = (x.of(bar.start), x.of(bar.end), bar.kind());
    // A hair of ground shows between neighbours that are wide enough to spare it.
    let width = if right - left > 3.0 { right - left - 0.5 } else { right - left };
    canvas.bar(kind.class(), left, y, width.max(THINNEST), HEIGHT, &title(bar, kind));
    let label = &bar.first.label;
    if !kind.is_stall() && text_width(label, 11.0) + 4.0 < width {
        canvas.text((left + right) / 2.0, y + HEIGHT / 2.0 + 4.0, kind.text_class(), label);
    }
}

/// A column that the kinds divide by the time that they take, stalls on top.
fn draw_several(canvas: &mut Canvas, bar: &Bar<'_>, x: X, y: f64) {
    let (left, right, most) = (x.of(bar.start), x.of(bar.end), bar.kind());
    let title =
        format!("{} boxes, mostly {}: {} at {}", bar.count, most.name(), bar.length(), bar.start);
    let mut bottom = y + HEIGHT;
    for (kind, share) in bar.shares() {
        let height = (share * HEIGHT).min(bottom - y);
        // No hatch can be told in so thin a column.
        let class = if kind.is_stall() { "ss" } else { kind.class() };
        let title = if kind == most { title.as_str() } else { "" };
        bottom -= height;
        canvas.bar(class, left, bottom, (right - left).max(THINNEST), height, title);
    }
}

fn title(bar: &Bar<'_>, kind: Kind) -> String {
    let (name, label) = (kind.name(), &bar.first.label);
    let when = format!("{} at {}", bar.length(), bar.start);
    match bar.first.task {
        _ if kind == Kind::StallEnd => format!("{name}: {when}"),
        _ if kind.is_stall() => format!("{name}, before {label}: {when}"),
        Task::D2h(_) | Task::H2d(_) | Task::Compress(_) | Task::Decompress(_) => {
            format!("{label}, {name} of {}: {when}", bar.first.bytes)
        }
        _ => format!("{label}, {name}: {when}"),
    }
}
