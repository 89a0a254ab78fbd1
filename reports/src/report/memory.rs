//! The memory curve by what it is made of, and the peak tensor by tensor.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use schema::{Bytes, Nanos, Timeline, Trace};

use super::contents::{Content, Contents, Moment, Piece};
use super::plot::{
    self, BLUE, Drawn, GREY, GRID, Hovers, INK, ORANGE, PURPLE, SKY, VERMILLION, WIDTH, text_width,
};
use crate::Picture;
use crate::axis::{Unit, ticks};

const LEFT: i32 = 72;
const RIGHT: i32 = WIDTH as i32 - 20;
const CURVE: i32 = 230;
const STRIP: i32 = 40;
/// Width of the places over the curve that tell what is there.
const HOVER: i32 = 6;

fn colour(content: Content) -> RGBColor {
    [GREY, PURPLE, INK, SKY, BLUE, ORANGE, VERMILLION][content as usize]
}

/// The moment at which the memory is fullest, the first of several.
pub(super) fn peak(moments: &[Moment]) -> Option<Moment> {
    moments.iter().copied().reduce(|a, b| if b.total() > a.total() { b } else { a })
}

/// Draws the curve over the whole iteration, and under it the peak as one bar of tensors.
pub(super) fn picture(timeline: &Timeline, contents: &Contents, trace: &Trace) -> Picture {
    let moments = contents.moments();
    let name = format!("memory of {} by content", timeline.method);
    let entries = legend(&moments);
    let top = plot::legend_height(&entries, 16) + 40;
    let height = top + CURVE + 44 + 34 + STRIP + 16;
    plot::picture(&name, height as u32, |area, hovers| {
        plot::legend(area, &entries, (16, 8))?;
        let Some(peak) = peak(&moments) else { return Ok(()) };
        let plot = Curve { timeline, moments: &moments, peak, top };
        plot.paint(area, hovers)?;
        paint_peak(area, hovers, &contents.at(peak.at), peak, trace, top + CURVE + 78)
    })
}

/// What there is at any time, with what it takes at the peak.
fn legend(moments: &[Moment]) -> Vec<(String, RGBColor)> {
    let Some(peak) = peak(moments) else { return Vec::new() };
    let ever = |c: &Content| moments.iter().any(|moment| moment.bytes[*c as usize] > 0);
    let entry = |c: Content| {
        (format!("{}: {}", c.name(), rounded(Bytes(peak.bytes[c as usize]))), colour(c))
    };
    Content::all().filter(ever).map(entry).collect()
}

/// Bytes as a person reads them, to about three digits.
fn rounded(bytes: Bytes) -> String {
    let unit = Unit::of_bytes(bytes.0);
    let value = bytes.0 as f64 / unit.size as f64;
    let decimals = if value >= 100.0 || unit.size == 1 { 0 } else { 2 };
    format!("{value:.decimals$} {}", unit.name)
}

struct Curve<'a> {
    timeline: &'a Timeline,
    moments: &'a [Moment],
    peak: Moment,
    top: i32,
}

impl Curve<'_> {
    fn x(&self, at: Nanos) -> i32 {
        let share = at.0 as f64 / self.timeline.iteration.0.max(1) as f64;
        LEFT + (share.min(1.0) * f64::from(RIGHT - LEFT)).floor() as i32
    }

    /// A budget far above the curve would flatten it: then its line stays out of the picture.
    fn budget_in_view(&self) -> bool {
        self.timeline.budget.0 / 3 <= self.peak.total().0
    }

    fn largest(&self) -> u64 {
        let budget = if self.budget_in_view() { self.timeline.budget.0 } else { 0 };
        self.peak.total().0.max(budget).max(1)
    }

    fn y(&self, bytes: u64) -> i32 {
        let share = bytes as f64 / self.largest() as f64;
        self.top + CURVE - (share * f64::from(CURVE)).round() as i32
    }

    fn paint(&self, area: &plot::Area<'_>, hovers: &mut Hovers) -> Drawn {
        let bottom = self.top + CURVE;
        let unit = Unit::of_bytes(self.largest());
        for tick in ticks(self.largest(), 5) {
            let y = self.y(tick);
            area.draw(&PathElement::new(vec![(LEFT, y), (RIGHT, y)], GRID))?;
            plot::write(area, &unit.label(tick), (LEFT - 8, y), HPos::Right)?;
        }
        let title = format!("device memory ({})", unit.name);
        plot::write(area, &title, (16, self.top - 16), HPos::Left)?;
        let columns = self.columns();
        for content in Content::all() {
            let layer = layer(&columns, content, |bytes| self.y(bytes), RIGHT);
            if !layer.is_empty() {
                area.draw(&Polygon::new(layer, colour(content).filled()))?;
            }
        }
        self.paint_budget(area)?;
        let end = self.timeline.iteration.0;
        let unit = Unit::of_time(end);
        for tick in ticks(end, 8) {
            plot::write(area, &unit.label(tick), (self.x(Nanos(tick)), bottom + 13), HPos::Center)?;
        }
        let axis = format!("time ({})", unit.name);
        plot::write(area, &axis, ((LEFT + RIGHT) / 2, bottom + 32), HPos::Center)?;
        for place in (LEFT..RIGHT).step_by(HOVER as usize) {
            if let Some((_, moment)) = fullest(&columns, place, place + HOVER) {
                let title = describe(moment);
                hovers.add((place, self.top), (place + HOVER, bottom), &title);
            }
        }
        Ok(())
    }

    fn paint_budget(&self, area: &plot::Area<'_>) -> Drawn {
        let budget = self.timeline.budget;
        let label = if self.budget_in_view() {
            let y = self.y(budget.0);
            for x in (LEFT..RIGHT).step_by(11) {
                let line =
                    PathElement::new(vec![(x, y), ((x + 7).min(RIGHT), y)], INK.stroke_width(2));
                area.draw(&line)?;
            }
            format!("budget {budget} (dashed)")
        } else {
            format!("budget {budget} (beyond this plot)")
        };
        plot::write(area, &label, (RIGHT, self.top - 16), HPos::Right)?;
        let x = self.x(self.peak.at);
        area.draw(&PathElement::new(vec![(x, self.top - 6), (x, self.top + CURVE)], INK))
    }

    /// For each pixel in which the memory changes, its fullest moment there and its last.
    fn columns(&self) -> Vec<(i32, Moment)> {
        let mut columns: Vec<(i32, Moment)> = Vec::new();
        let mut last = None;
        for moment in self.moments {
            let x = self.x(moment.at).min(RIGHT - 1);
            match columns.last_mut() {
                Some((at, fullest)) if *at == x => {
                    if moment.total() > fullest.total() {
                        *fullest = *moment;
                    }
                }
                _ => {
                    // What was there when the last pixel ended holds until this one.
                    if let (Some(last), Some(&(at, fullest))) = (last, columns.last())
                        && last != fullest
                        && at + 1 < x
                    {
                        columns.push((at + 1, last));
                    }
                    columns.push((x, *moment));
                }
            }
            last = Some(*moment);
        }
        columns
    }
}

/// The outline of one content's layer: its upper edge to the right, its lower edge back.
fn layer(
    columns: &[(i32, Moment)],
    content: Content,
    y: impl Fn(u64) -> i32,
    right: i32,
) -> Vec<(i32, i32)> {
    if columns.iter().all(|(_, moment)| moment.bytes[content as usize] == 0) {
        return Vec::new();
    }
    let below = |moment: &Moment| moment.bytes[..content as usize].iter().sum::<u64>();
    let edge = |height: &dyn Fn(&Moment) -> u64| {
        let mut points: Vec<(i32, i32)> = Vec::new();
        for (x, moment) in columns {
            let level = y(height(moment));
            match points.last() {
                Some(&(_, before)) if before == level => {}
                Some(&(_, before)) => points.extend([(*x, before), (*x, level)]),
                None => points.push((*x, level)),
            }
        }
        points.extend(points.last().map(|&(_, level)| (right, level)));
        points
    };
    let mut outline = edge(&|moment| below(moment) + moment.bytes[content as usize]);
    outline.extend(edge(&below).into_iter().rev());
    outline
}

/// The fullest column of some pixels, or the one that reaches into them.
fn fullest(columns: &[(i32, Moment)], from: i32, until: i32) -> Option<&(i32, Moment)> {
    let first = columns.partition_point(|(x, _)| *x < from);
    let end = columns.partition_point(|(x, _)| *x < until);
    let first = if columns.get(first).is_some_and(|(x, _)| *x == from) {
        first
    } else {
        first.saturating_sub(1)
    };
    columns.get(first..end)?.iter().reduce(|a, b| if b.1.total() > a.1.total() { b } else { a })
}

fn describe(moment: &Moment) -> String {
    let parts = Content::all().map(|c| (c, moment.bytes[c as usize]));
    let parts = parts.filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<_> = parts.map(|(c, bytes)| format!("{} {}", c.name(), Bytes(bytes))).collect();
    format!("{} at {}: {}", moment.total(), moment.at, parts.join(", "))
}

/// The peak as one bar, each tensor a part as wide as its share.
fn paint_peak(
    area: &plot::Area<'_>,
    hovers: &mut Hovers,
    pieces: &[Piece],
    peak: Moment,
    trace: &Trace,
    top: i32,
) -> Drawn {
    let title = format!("the peak, tensor by tensor: {} at {}", peak.total(), peak.at);
    plot::write(area, &title, (16, top - 14), HPos::Left)?;
    let total = peak.total().0.max(1) as f64;
    let left = 16;
    let x = |bytes: u64| left + (bytes as f64 / total * f64::from(RIGHT - left)).round() as i32;
    let mut sum = 0;
    for piece in pieces {
        let (begin, end) = (x(sum), x(sum + piece.bytes.0));
        sum += piece.bytes.0;
        // A hair of ground between neighbours that are wide enough to spare it.
        let painted = if end - begin > 3 { end - 1 } else { end };
        let corners = [(begin, top), (painted, top + STRIP)];
        area.draw(&Rectangle::new(corners, colour(piece.content).filled()))?;
        let tensor = piece.tensor.and_then(|tensor| trace.tensors.get(tensor.index()));
        let name = tensor.map_or("workspace", |tensor| tensor.name.as_str());
        let title = format!("{name}, {}: {}", piece.content.name(), piece.bytes);
        hovers.add((begin, top), (end, top + STRIP), &title);
        if matches!(piece.content, Content::Activations | Content::Workspace)
            && text_width(name) + 6 < end - begin
        {
            let middle = ((begin + end) / 2, top + STRIP / 2);
            plot::write_dark(area, name, middle)?;
        }
    }
    Ok(())
}
