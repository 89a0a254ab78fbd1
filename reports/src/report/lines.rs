//! Lines over a quantity that a study varies.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::plot::{self, COLOURS, Drawn, GRID, Hovers, INK, WIDTH, of_style, text_width};
use crate::Picture;
use crate::text::{percent, short};

const HEIGHT: i32 = 380;
const TOP: i32 = 30;
const BOTTOM: i32 = HEIGHT - 56;
const LEFT: i32 = 72;

/// A chart of lines, each named at its end.
pub(super) struct Lines {
    pub name: String,
    pub x_axis: String,
    pub y_axis: String,
    /// Whether x may be shown on a logarithmic scale, where it spans much.
    pub may_be_log: bool,
    /// What values of x are called, under them; those without a name are not.
    pub names: Vec<(f64, String)>,
    pub series: Vec<Series>,
}

/// How the bound looks, in whatever figure: as no method does.
pub(super) const BOUND: usize = 3 * COLOURS.len() - 1;

/// Lines under the axis for the names of what stands there, at most.
const NAME_LINES: usize = 3;

pub(super) struct Series {
    pub name: String,
    /// Position among all names of the report, so that it looks the same in all its figures.
    pub style: usize,
    /// In order of x, which is positive. Without y there is a gap in the line.
    pub points: Vec<Point>,
}

pub(super) struct Point {
    pub x: f64,
    pub y: Option<f64>,
    /// Shows when the pointer rests on it.
    pub title: String,
}

impl Point {
    /// An overhead at x, where there is a plan; its title says of what, and where.
    pub fn overhead(x: f64, overhead: Option<f64>, name: &str, at: &str) -> Self {
        let text = overhead.map_or_else(|| "no plan".into(), |o| format!("+{}", percent(o)));
        Self { x, y: overhead.map(|o| o * 100.0), title: format!("{name}: {text}; {at}") }
    }
}

impl Series {
    fn colour(&self) -> RGBColor {
        of_style(self.style)
    }

    /// Where colours run out, marks tell lines apart.
    fn mark(&self, area: &plot::Area<'_>, at: (i32, i32)) -> Drawn {
        let colour = self.colour();
        match self.style / COLOURS.len() % 3 {
            0 => area.draw(&Circle::new(at, 4, colour.filled())),
            1 => area.draw(&TriangleMarker::new(at, 6, colour.filled())),
            _ => area.draw(&Cross::new(at, 5, colour.stroke_width(2))),
        }
    }

    fn last(&self) -> Option<(f64, f64)> {
        self.points.iter().rev().find_map(|point| Some((point.x, point.y?)))
    }
}

impl Lines {
    /// Overheads against something; none where no method has a plan.
    pub fn of_overheads(name: String, x_axis: &str, mut series: Vec<Series>) -> Option<Self> {
        series.retain(|series| series.points.iter().any(|point| point.y.is_some()));
        let y_axis = "time over the iteration without a memory limit (%, square-root scale)".into();
        let names = Vec::new();
        let lines = Self { name, x_axis: x_axis.into(), y_axis, may_be_log: true, names, series };
        (!lines.series.is_empty()).then_some(lines)
    }

    pub fn picture(&self) -> Picture {
        plot::picture(&self.name, self.height() as u32, |area, hovers| self.paint(area, hovers))
    }

    fn height(&self) -> i32 {
        let lines = self.placed_names(&self.scale()).map(|(_, line, _)| line + 1).max();
        HEIGHT + 16 * lines.unwrap_or(0)
    }

    /// Each name with its place: the first line on which it covers no other.
    fn placed_names(&self, scale: &Scale) -> impl Iterator<Item = (i32, i32, &str)> {
        let mut ends = [i32::MIN; NAME_LINES];
        let names = self.names.iter().map(|(value, name)| (scale.at(*value, 0.0).0, name.as_str()));
        let names: Vec<_> = names.collect();
        names.into_iter().filter_map(move |(x, name)| {
            let half = text_width(name) / 2 + 4;
            let line = ends.iter().position(|end| x - half > *end)?;
            ends[line] = x + half;
            Some((x, line as i32, name))
        })
    }

    fn paint(&self, area: &plot::Area<'_>, hovers: &mut Hovers) -> Drawn {
        let scale = self.scale();
        self.paint_axes(area, &scale)?;
        let mut ends = Vec::new();
        for series in &self.series {
            for run in series.points.split(|point| point.y.is_none()) {
                let run: Vec<_> = run.iter().map(|p| scale.at(p.x, p.y.unwrap_or(0.0))).collect();
                area.draw(&PathElement::new(run.clone(), series.colour().stroke_width(2)))?;
                for at in run {
                    series.mark(area, at)?;
                }
            }
            for point in &series.points {
                if let Some(y) = point.y {
                    hovers.around(scale.at(point.x, y), &point.title);
                }
            }
            if let Some((x, y)) = series.last() {
                ends.push((scale.at(x, y), series));
            }
        }
        name_ends(area, ends, scale.right)
    }

    fn scale(&self) -> Scale {
        let mut xs: Vec<f64> = self.series.iter().flat_map(|s| &s.points).map(|p| p.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (first, last) = (xs.first().copied().unwrap_or(0.0), xs.last().copied().unwrap_or(1.0));
        let names = self.series.iter().map(|series| text_width(&series.name)).max().unwrap_or(0);
        let right = WIDTH as i32 - names.min(260) - 44;
        let ys = self.series.iter().flat_map(|s| &s.points).filter_map(|p| p.y);
        let top = ys.fold(0.0, f64::max).max(1e-3) * 1.05;
        let log = self.may_be_log && first > 0.0 && last / first >= 8.0;
        Scale { xs, first, last, log, top, right }
    }

    fn paint_axes(&self, area: &plot::Area<'_>, scale: &Scale) -> Drawn {
        let mut lowest = i32::MAX;
        for tick in y_ticks(scale.top) {
            let (_, y) = scale.at(scale.first, tick);
            if lowest.saturating_sub(y) < 18 {
                continue;
            }
            lowest = y;
            area.draw(&PathElement::new(vec![(LEFT, y), (scale.right, y)], GRID))?;
            plot::write(area, &short(tick), (LEFT - 8, y), HPos::Right)?;
        }
        let mut free = i32::MIN;
        for &value in &scale.xs {
            let (x, _) = scale.at(value, 0.0);
            area.draw(&PathElement::new(vec![(x, BOTTOM), (x, BOTTOM + 5)], INK))?;
            let label = short(value);
            let half = text_width(&label) / 2 + 3;
            if x - half > free {
                plot::write(area, &label, (x, BOTTOM + 15), HPos::Center)?;
                free = x + half;
            }
        }
        for (x, line, name) in self.placed_names(scale) {
            plot::write(area, name, (x, BOTTOM + 31 + 16 * line), HPos::Center)?;
        }
        area.draw(&PathElement::new(vec![(LEFT, BOTTOM), (scale.right, BOTTOM)], INK))?;
        let middle = (LEFT + scale.right) / 2;
        let log = if scale.log { ", logarithmic" } else { "" };
        plot::write(
            area,
            &format!("{}{log}", self.x_axis),
            (middle, self.height() - 18),
            HPos::Center,
        )?;
        plot::write(area, &self.y_axis, (LEFT - 40, 12), HPos::Left)
    }
}

/// From values to pixels. The vertical scale goes with the square root: overheads of a percent
/// and of a multiple of the whole iteration stay apart, and zero is at the bottom.
struct Scale {
    xs: Vec<f64>,
    first: f64,
    last: f64,
    log: bool,
    top: f64,
    right: i32,
}

impl Scale {
    fn at(&self, x: f64, y: f64) -> (i32, i32) {
        let share = if self.last <= self.first {
            0.5
        } else if self.log {
            (x / self.first).ln() / (self.last / self.first).ln()
        } else {
            (x - self.first) / (self.last - self.first)
        };
        let inner = f64::from(self.right - LEFT - 40);
        let height = (y.max(0.0) / self.top).sqrt() * f64::from(BOTTOM - TOP);
        (LEFT + 20 + (share * inner).round() as i32, BOTTOM - height.round() as i32)
    }
}

/// Ticks that a square-root scale spreads well: 0, 1, 2, 5, 10 and so on, from a thousandth.
fn y_ticks(top: f64) -> Vec<f64> {
    let powers = (-3..9).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
    let all = std::iter::once(0.0).chain(powers);
    // Those below a hundredth of the top would all lie in the lowest tenth.
    all.filter(|tick| *tick <= top && (*tick == 0.0 || *tick >= top / 100.0)).collect()
}

/// Names right of the lines' ends, moved apart where they would cover each other.
fn name_ends(area: &plot::Area<'_>, mut ends: Vec<((i32, i32), &Series)>, right: i32) -> Drawn {
    const LINE: i32 = 16;
    ends.sort_by_key(|((x, y), _)| (*y, *x));
    // From the lowest up, so that what does not fit goes where there is room.
    let mut below = BOTTOM + LINE;
    let mut heights: Vec<i32> = vec![0; ends.len()];
    for (index, ((_, y), _)) in ends.iter().enumerate().rev() {
        heights[index] = (*y).min(below - LINE);
        below = heights[index];
    }
    let mut above = 8 - LINE;
    for height in &mut heights {
        *height = (*height).max(above + LINE);
        above = *height;
    }
    for ((at, series), y) in ends.into_iter().zip(heights) {
        area.draw(&PathElement::new(vec![at, (right + 8, y)], GRID))?;
        series.mark(area, (right + 14, y))?;
        plot::write(area, &series.name, (right + 24, y), HPos::Left)?;
    }
    Ok(())
}
