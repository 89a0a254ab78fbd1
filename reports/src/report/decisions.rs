//! What a plan decides for each tensor, over the network's depth.

use std::collections::BTreeMap;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use schema::{Bytes, Choice, Plan, TensorId, Trace};

use super::plot::{self, BLUE, Drawn, GREEN, GRID, Hovers, INK, ORANGE, PURPLE, WIDTH};
use crate::Picture;
use crate::axis::{Unit, ticks};

const LEFT: i32 = 72;
const HEIGHT: i32 = 190;
const STRIP: i32 = 16;
/// The least width of a column that can be told from its neighbours.
const NARROWEST: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub name: String,
    pub bytes: Bytes,
    /// For the longest time between two of its uses.
    pub choice: Choice,
    /// How many times between two uses are decided otherwise.
    pub others: usize,
}

/// The tensors in the order in which they are first used, each with its decision.
pub(super) fn decided(plan: &Plan, trace: Option<&Trace>) -> Vec<Decided> {
    let mut by_tensor: BTreeMap<TensorId, Vec<&schema::Decision>> = BTreeMap::new();
    for decision in &plan.decisions {
        by_tensor.entry(decision.tensor).or_default().push(decision);
    }
    let bytes: BTreeMap<TensorId, Bytes> =
        plan.buffers.iter().filter_map(|buffer| Some((buffer.tensor?, buffer.bytes))).collect();
    let mut tensors: Vec<_> = by_tensor.into_iter().collect();
    tensors.sort_by_key(|(tensor, gaps)| (gaps.iter().map(|gap| gap.after).min(), *tensor));
    let decided = tensors.into_iter().map(|(tensor, gaps)| {
        let length = |gap: &schema::Decision| {
            gap.before.map_or(u32::MAX, |before| before.0.saturating_sub(gap.after.0))
        };
        let longest = gaps.iter().copied().reduce(|a, b| if length(b) > length(a) { b } else { a });
        let choice = longest.map_or(Choice::Keep, |gap| gap.choice);
        let known = trace.and_then(|trace| trace.tensors.get(tensor.index()));
        Decided {
            name: known.map_or_else(|| tensor.to_string(), |known| known.name.clone()),
            bytes: known
                .map(|known| known.bytes)
                .or(bytes.get(&tensor).copied())
                .unwrap_or_default(),
            choice,
            others: gaps.iter().filter(|gap| gap.choice != choice).count(),
        }
    });
    decided.collect()
}

const CHOICES: [(Choice, &str, RGBColor); 4] = [
    (Choice::Keep, "kept", BLUE),
    (Choice::Swap, "swapped", GREEN),
    (Choice::Recompute, "recomputed", ORANGE),
    (Choice::Compress, "compressed", PURPLE),
];

pub(super) fn name(choice: Choice) -> &'static str {
    CHOICES.iter().find(|(known, ..)| *known == choice).map_or("", |(_, name, _)| name)
}

/// Draws a column per tensor, as high as it is large; under it, the decision alone, so that small
/// tensors show, too. Of many tensors, neighbours share a column.
pub(super) fn picture(method: &str, tensors: &[Decided]) -> Picture {
    // Few plans compress anything; the others need no word of it.
    let shown = |choice| choice != Choice::Compress || tensors.iter().any(|t| t.choice == choice);
    let legend: Vec<_> = CHOICES
        .into_iter()
        .filter(|(choice, ..)| shown(*choice))
        .map(|(choice, name, colour)| {
            let of_choice = tensors.iter().filter(|tensor| tensor.choice == choice);
            let bytes: u128 = of_choice.clone().map(|tensor| u128::from(tensor.bytes.0)).sum();
            let bytes = Bytes(u64::try_from(bytes).unwrap_or(u64::MAX));
            let count = match of_choice.count() {
                1 => "1 tensor".into(),
                count => format!("{count} tensors"),
            };
            (format!("{name}: {count}, {bytes}"), colour)
        })
        .collect();
    let top = plot::legend_height(&legend, 16) + 40;
    let height = top + HEIGHT + 8 + STRIP + 34;
    plot::picture(&format!("decisions of {method}"), height as u32, |area, hovers| {
        plot::legend(area, &legend, (16, 8))?;
        paint(area, hovers, tensors, top)
    })
}

fn paint(area: &plot::Area<'_>, hovers: &mut Hovers, tensors: &[Decided], top: i32) -> Drawn {
    let room = (WIDTH as i32 - 20 - LEFT) as usize;
    let shared = tensors.len().div_ceil(room / NARROWEST).max(1);
    let columns: Vec<&[Decided]> = tensors.chunks(shared).collect();
    let width = (room / columns.len().max(1)).clamp(NARROWEST, 40) as i32;
    let total = |column: &[Decided]| -> u64 {
        column.iter().fold(0, |sum, tensor| sum.saturating_add(tensor.bytes.0))
    };
    let largest = columns.iter().map(|column| total(column)).max().unwrap_or(0).max(1);
    let bottom = top + HEIGHT;
    let y =
        |bytes: u64| bottom - (bytes as f64 / largest as f64 * f64::from(HEIGHT)).round() as i32;
    let right = LEFT + width * columns.len() as i32;
    let unit = Unit::of_bytes(largest);
    for tick in ticks(largest, 5) {
        area.draw(&PathElement::new(vec![(LEFT, y(tick)), (right, y(tick))], GRID))?;
        plot::write(area, &unit.label(tick), (LEFT - 8, y(tick)), HPos::Right)?;
    }
    let title = format!("size of the tensor ({})", unit.name);
    plot::write(area, &title, (16, top - 16), HPos::Left)?;
    let gap = i32::from(width > 4);
    for (index, column) in columns.iter().enumerate() {
        let (begin, end) = (LEFT + index as i32 * width, LEFT + (index as i32 + 1) * width);
        let mut sum = 0u64;
        for (choice, _, colour) in CHOICES {
            for tensor in column.iter().filter(|tensor| tensor.choice == choice) {
                let lower = y(sum);
                sum = sum.saturating_add(tensor.bytes.0);
                let corners = [(begin, y(sum)), (end - gap, lower)];
                area.draw(&Rectangle::new(corners, colour.filled()))?;
            }
        }
        paint_choices(area, column, (begin, end - gap), bottom + 8)?;
        hovers.add((begin, top), (end, bottom + 8 + STRIP), &describe(column));
    }
    area.draw(&PathElement::new(vec![(LEFT, bottom), (right, bottom)], INK))?;
    let axis = "tensors in the order in which they are made, from the network's input on";
    plot::write(area, axis, (LEFT, bottom + 8 + STRIP + 18), HPos::Left)
}

/// The column's decisions in equal parts, one per tensor.
fn paint_choices(
    area: &plot::Area<'_>,
    column: &[Decided],
    (left, right): (i32, i32),
    top: i32,
) -> Drawn {
    let at = |index: usize| top + STRIP * index as i32 / column.len().max(1) as i32;
    for (index, tensor) in column.iter().enumerate() {
        let colour = CHOICES.iter().find(|(choice, ..)| *choice == tensor.choice);
        let colour = colour.map_or(INK, |(.., colour)| *colour);
        let corners = [(left, at(index)), (right, at(index + 1))];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
    }
    Ok(())
}

fn describe(column: &[Decided]) -> String {
    let one = |tensor: &Decided| {
        let name = name(tensor.choice);
        let others = match tensor.others {
            0 => String::new(),
            n => format!(" ({n} of its shorter waits otherwise)"),
        };
        format!("{}, {}: {name}{others}", tensor.name, tensor.bytes)
    };
    column.iter().map(one).collect::<Vec<_>>().join("; ")
}
