//! What models say of samples that they have not seen, against what was measured.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use schema::Nanos;

use super::plot::{BLUE, Drawn, GREY, GRID, Hovers, INK, WIDTH, picture, write};
use crate::Picture;
use crate::axis::{Unit, ticks};

/// One model's predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictions {
    /// What it is called.
    pub name: String,
    /// Its error, for people.
    pub error: String,
    /// Whether it is the one that is used.
    pub is_used: bool,
    /// Measured and predicted times of samples that it has not seen.
    pub times: Vec<(Nanos, Nanos)>,
}

const TOP: i32 = 52;
const SIDE: i32 = 168;
const LEFT: i32 = 44;
const ACROSS: i32 = 4;
const ROW: i32 = TOP + SIDE + 44;

/// A panel for each model, on the same axes: a dot for each sample, on the line where the
/// prediction is what was measured.
pub fn held_out(title: &str, models: &[Predictions]) -> Picture {
    let times = || models.iter().flat_map(|model| &model.times);
    let most = times().map(|(measured, predicted)| measured.max(predicted)).max();
    let most = most.map_or(1, |time| time.0).max(1);
    let rows = models.len().div_ceil(ACROSS as usize).max(1) as i32;
    picture(title, (ROW * rows + 20) as u32, |area, hovers| {
        write(area, title, (8, 14), HPos::Left)?;
        for (index, model) in (0..).zip(models) {
            let (row, column) = (index / ACROSS, index % ACROSS);
            let corner = (LEFT + column * (WIDTH as i32 - 8) / ACROSS, TOP + row * ROW);
            panel(area, hovers, corner, model, most)?;
        }
        Ok(())
    })
}

fn panel(
    area: &super::plot::Area<'_>,
    hovers: &mut Hovers,
    (left, top): (i32, i32),
    model: &Predictions,
    most: u64,
) -> Drawn {
    let unit = Unit::of_time(most);
    let along = |time: u64| (time as f64 / most as f64 * f64::from(SIDE)).round() as i32;
    let at =
        |measured: u64, predicted: u64| (left + along(measured), top + SIDE - along(predicted));
    for tick in ticks(most, 4) {
        let ((x, bottom), (begin, y)) = (at(tick, 0), at(0, tick));
        area.draw(&PathElement::new([(x, top), (x, bottom)], GRID))?;
        area.draw(&PathElement::new([(begin, y), (left + SIDE, y)], GRID))?;
        write(area, &unit.label(tick), (x, bottom + 12), HPos::Center)?;
        write(area, &unit.label(tick), (begin - 5, y), HPos::Right)?;
    }
    area.draw(&PathElement::new([at(0, 0), at(most, most)], GREY))?;
    let used = if model.is_used { ", used" } else { "" };
    let name = format!("{}{used}: {}", model.name, model.error);
    write(area, &name, (left, top - 12), HPos::Left)?;
    let axis = format!("measured and predicted, {}", unit.name);
    write(area, &axis, (left + SIDE / 2, top + SIDE + 28), HPos::Center)?;
    let colour = if model.is_used { BLUE } else { INK };
    for (measured, predicted) in &model.times {
        let at = at(measured.0, predicted.0);
        area.draw(&Circle::new(at, 2, colour.mix(0.6).filled()))?;
        hovers.around(at, &format!("{}: {predicted} for {measured}", model.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_a_panel_and_each_sample_a_dot() {
        let times = vec![(Nanos(1000), Nanos(1100)), (Nanos(2000), Nanos(1900))];
        let model = |name: &str, is_used| Predictions {
            name: name.into(),
            error: "5.00 %".into(),
            is_used,
            times: times.clone(),
        };
        let picture = held_out("zvc compress", &[model("lines", true), model("tree <1>", false)]);
        let svg = picture.svg();
        assert!(svg.contains("lines, used: 5.00 %") && svg.contains("tree &lt;1&gt;: 5.00 %"));
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("lines: 1.100 us for 1.000 us"));
    }

    #[test]
    fn nothing_to_show_is_an_empty_picture() {
        assert!(held_out("none", &[]).svg().contains("none"));
    }
}
