//! The lower plot: memory by time, under the budget.

use std::cmp::max;

use schema::{Bytes, Nanos, Timeline};

use super::canvas::{Canvas, X, number};
use crate::axis::{Unit, ticks};

const HEIGHT: f64 = 150.0;

#[derive(Clone, Copy)]
struct Y {
    top: f64,
    largest: Bytes,
}

impl Y {
    fn of(self, bytes: Bytes) -> f64 {
        self.top + HEIGHT * (1.0 - bytes.0 as f64 / self.largest.0 as f64)
    }
}

/// Draws the curve from `top` and returns where it ends.
pub(super) fn draw(canvas: &mut Canvas, timeline: &Timeline, x: X, top: f64) -> f64 {
    // No part of memory is more than all of it, but a file may say so.
    let highest = timeline.memory.iter().map(|point| max(point.resident, point.in_flight)).max();
    let highest = highest.unwrap_or_default();
    // A budget far above the curve would flatten it: then its line stays out of the picture.
    let in_view = timeline.budget.0 / 3 <= highest.0;
    let largest = if in_view { max(highest, timeline.budget) } else { highest };
    let y = Y { top, largest: max(largest, Bytes(1)) };
    let bottom = top + HEIGHT;

    let unit = Unit::of_bytes(y.largest.0);
    for tick in ticks(y.largest.0, 5) {
        let at = y.of(Bytes(tick));
        canvas.behind(x.left, at, x.right, at);
        canvas.text(x.left - 10.0, at + 4.5, "t e", &unit.label(tick));
    }
    canvas.text(x.left, top - 8.0, "t", &format!("device memory ({})", unit.name));

    let end = last_moment(timeline);
    let resident = timeline.memory.iter().map(|point| (point.at, point.resident));
    let line = outline(&columns(resident, x, end), y);
    canvas.path("c", &closed(&line, bottom));
    canvas.path("cl", &line);
    let in_flight = timeline.memory.iter().map(|point| (point.at, point.in_flight));
    canvas.path("v", &closed(&outline(&columns(in_flight, x, end), y), bottom));

    let budget = if in_view {
        let at = number(y.of(timeline.budget));
        canvas.path("k", &format!("M{} {at}H{}", number(x.left), number(x.right)));
        format!("budget {}", timeline.budget)
    } else {
        format!("budget {} (beyond this plot)", timeline.budget)
    };
    canvas.text(x.right, top - 8.0, "t e", &budget);
    bottom
}

/// The last point's value lasts until the iteration ends.
pub(super) fn last_moment(timeline: &Timeline) -> Nanos {
    timeline.memory.last().map_or(timeline.iteration, |point| max(point.at, timeline.iteration))
}

/// One corner of the curve: from `x` on it stands at `largest`, and leaves at `last`.
struct Column {
    x: f64,
    largest: Bytes,
    last: Bytes,
}

/// The step function by columns of a pixel, where it changes; each has its largest and its last
/// value, so that no peak is lost.
fn columns(points: impl Iterator<Item = (Nanos, Bytes)>, x: X, end: Nanos) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (at, bytes) in points {
        let column = x.of(at).floor();
        match columns.last_mut() {
            Some(last) if last.x.floor() >= column => {
                last.largest = max(last.largest, bytes);
                last.last = bytes;
            }
            _ => columns.push(Column { x: x.of(at), largest: bytes, last: bytes }),
        }
    }
    if let Some(&Column { last, .. }) = columns.last() {
        columns.push(Column { x: x.of(end).min(x.right), largest: last, last });
    }
    columns
}

fn outline(columns: &[Column], y: Y) -> String {
    let mut data = String::new();
    for Column { x, largest, last } in columns {
        let (at, largest) = (number(*x), number(y.of(*largest)));
        match data.is_empty() {
            true => data += &format!("M{at} {largest}"),
            false => data += &format!("H{at}V{largest}"),
        }
        let last = number(y.of(*last));
        if last != largest {
            data += &format!("H{}V{last}", number(x + 1.0));
        }
    }
    data
}

/// The outline down to the ground and back to its start; nothing where there is no outline.
fn closed(outline: &str, bottom: f64) -> String {
    match outline.strip_prefix('M').and_then(|rest| rest.split_once(' ')) {
        Some((start, _)) => format!("{outline}V{}H{start}z", number(bottom)),
        None => String::new(),
    }
}
