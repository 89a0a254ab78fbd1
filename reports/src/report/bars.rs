//! Horizontal bars, each made of parts.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::figure::Figure;
use super::plot::{self, Drawn, GRID, Hovers, INK, WIDTH, legend_height, step, text_width};
use crate::Picture;
use crate::text::short;

const ROW: i32 = 30;
/// The line above a group of bars.
const HEADING: i32 = 34;
const BAR: i32 = 20;

pub(super) struct Bars {
    pub name: String,
    /// What the axis measures, with its unit.
    pub axis: String,
    /// What parts are made of, by the index that parts give.
    pub kinds: Vec<(String, RGBColor)>,
    pub bars: Vec<Bar>,
    pub line: Option<(f64, String)>,
}

pub(super) struct Bar {
    /// Stands above the bar, where a group of bars begins with it.
    pub heading: Option<String>,
    pub name: String,
    pub parts: Vec<Part>,
    /// Stands at the bar's end.
    pub label: String,
}

pub(super) struct Part {
    pub kind: usize,
    /// Negative values are drawn as zero.
    pub value: f64,
    /// Shows when the pointer rests on it.
    pub title: String,
}

impl Bars {
    /// A figure of them; none without a bar that is longer than nothing.
    pub fn figure(self, id: &str, title: &str, caption: String) -> Option<Figure> {
        let is_long = |bar: &Bar| bar.parts.iter().any(|part| part.value > 0.0);
        let picture = self.bars.iter().any(is_long).then(|| self.picture())?;
        Some(Figure::new(id, title, caption, vec![picture]))
    }

    pub fn picture(&self) -> Picture {
        let legend = legend_height(&self.shown(), 16);
        let line = if self.line.is_some() { 20 } else { 0 };
        let height = 16 + legend + line + self.groups().last().map_or(0, |(_, end)| *end) + 52;
        plot::picture(&self.name, height as u32, |area, hovers| self.paint(area, hovers, legend))
    }

    /// Where each group of bars begins and ends, from the top; bars that no heading parts are one.
    fn groups(&self) -> Vec<(i32, i32)> {
        let mut groups: Vec<(i32, i32)> = Vec::new();
        for bar in &self.bars {
            let end = groups.last().map_or(0, |(_, end)| *end);
            match groups.last_mut() {
                Some(group) if bar.heading.is_none() => group.1 += ROW,
                _ => {
                    let begin = end + if bar.heading.is_some() { HEADING } else { 0 };
                    groups.push((begin, begin + ROW));
                }
            }
        }
        groups
    }

    /// The kinds of parts that there are: one alone needs no legend, nor do bars that are named
    /// as their kinds are.
    fn shown(&self) -> Vec<(String, RGBColor)> {
        let named = |bar: &Bar| bar.parts.iter().all(|part| self.kinds[part.kind].0 == bar.name);
        if self.kinds.len() < 2 || self.bars.iter().all(named) {
            return Vec::new();
        }
        let is_there = |kind: usize| {
            let mut parts = self.bars.iter().flat_map(|bar| &bar.parts);
            parts.any(|part| part.kind == kind && part.value > 0.0)
        };
        let kinds = self.kinds.iter().enumerate().filter(|(index, _)| is_there(*index));
        kinds.map(|(_, kind)| kind.clone()).collect()
    }

    fn paint(&self, area: &plot::Area<'_>, hovers: &mut Hovers, legend: i32) -> Drawn {
        plot::legend(area, &self.shown(), (16, 8))?;
        let names = self.bars.iter().map(|bar| text_width(&bar.name)).max().unwrap_or(0);
        let left = names.min(WIDTH as i32 / 3) + 24;
        let top = 12 + legend + if self.line.is_some() { 20 } else { 0 };
        let groups: Vec<_> = self.groups().iter().map(|(a, b)| (top + a, top + b)).collect();
        let bottom = groups.last().map_or(top, |(_, end)| *end);
        let length = |bar: &Bar| bar.parts.iter().map(|p| p.value.max(0.0)).sum::<f64>();
        let longest = self.bars.iter().map(length).fold(0.0, f64::max);
        let largest = self.line.iter().map(|(at, _)| *at).fold(longest, f64::max).max(1e-9);
        // Labels stand right of their bars: the longest bar leaves them room.
        let labels = self.bars.iter().filter(|bar| length(bar) > largest * 0.3);
        let labels = labels.map(|bar| text_width(&bar.label)).max().unwrap_or(0);
        let room = (WIDTH as i32 - left - labels.clamp(16, 400) - 24).max(100);
        let x = |value: f64| left + (value.max(0.0) / largest * f64::from(room)).round() as i32;

        let step = step(largest, 6);
        for tick in (0..=(largest / step) as usize).map(|i| i as f64 * step) {
            let at = x(tick);
            for (begin, end) in &groups {
                area.draw(&PathElement::new(vec![(at, *begin), (at, *end)], GRID))?;
            }
            plot::write(area, &short(tick), (at, bottom + 13), HPos::Center)?;
        }
        plot::write(area, &self.axis, (left + room / 2, bottom + 34), HPos::Center)?;
        let rows = groups.iter().flat_map(|(begin, end)| (*begin..*end).step_by(ROW as usize));
        for (bar, row) in self.bars.iter().zip(rows) {
            let middle = row + ROW / 2;
            if let Some(heading) = &bar.heading {
                plot::write(area, heading, (16, row - HEADING / 2 + 4), HPos::Left)?;
            }
            plot::write(area, &bar.name, (left - 10, middle), HPos::Right)?;
            let (upper, lower) = (middle - BAR / 2, middle + BAR / 2);
            let mut sum = 0.0;
            for part in bar.parts.iter().filter(|part| part.value > 0.0) {
                let (begin, end) = (x(sum), x(sum + part.value));
                sum += part.value;
                let colour = self.kinds[part.kind].1;
                area.draw(&Rectangle::new([(begin, upper), (end, lower)], colour.filled()))?;
                hovers.add((begin, upper), (end, lower), &part.title);
            }
            plot::write(area, &bar.label, (x(sum) + 8, middle), HPos::Left)?;
        }
        for (begin, end) in groups {
            area.draw(&PathElement::new(vec![(left, begin), (left, end)], INK))?;
        }
        if let Some((value, name)) = &self.line {
            let at = x(*value);
            area.draw(&PathElement::new(vec![(at, top - 4), (at, bottom)], INK.stroke_width(2)))?;
            let side = if at > WIDTH as i32 / 2 { HPos::Right } else { HPos::Left };
            plot::write(area, name, (at, top - 14), side)?;
        }
        Ok(())
    }
}
