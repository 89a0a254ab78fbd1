//! A report: figures with captions, tables, and the page that holds them.

mod bars;
mod checks;
mod conclusion;
mod contents;
mod decisions;
mod frontier;
mod held_out;
mod hidden;
mod html;
mod lines;
mod memory;
mod methods;
mod plot;
mod printed;
mod runs;
mod searches;
mod setting;
mod sweeps;
mod table;
mod tables;
mod trainings;

use std::collections::BTreeMap;

use crate::{Checked, Explanation, Picture, Trained};
pub use frontier::frontier_figure;
pub use held_out::{Predictions, held_out};
pub use printed::PrintedNumber;
pub use runs::Run;
pub use searches::{Search, Sought};
pub use setting::Setting;
use table::Table;

/// Beyond so many settings a figure for each would bury what they say together.
const FEW_SETTINGS: usize = 4;

/// What a report is about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Whether something fits, and what would help.
    pub explanations: Vec<Explanation>,
    /// Single plans and timelines.
    pub runs: Vec<Run>,
    /// Methods side by side: comparisons, and the points of studies.
    pub settings: Vec<Setting>,
    /// Searches of studies for the largest batch or the smallest budget.
    pub searches: Vec<Search>,
    /// Plans that were run on a device.
    pub checks: Vec<Checked>,
    /// Ways in which one network was trained.
    pub trainings: Vec<Trained>,
    /// Numbers that papers print.
    pub printed: Vec<PrintedNumber>,
}

/// A figure of a report: one picture, or several that are read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// A name for files and links, unique in its report.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What one sees, and what it rests on.
    pub caption: String,
    /// The pictures, one above the other.
    pub pictures: Vec<Picture>,
    /// What they show, or what explains it, for who reads rather than looks.
    table: Option<Table>,
}

impl Figure {
    fn new(id: &str, title: &str, caption: String, pictures: Vec<Picture>) -> Self {
        Self { id: id.into(), title: title.into(), caption, pictures, table: None }
    }

    fn with_table(self, table: Table) -> Self {
        Self { table: Some(table), ..self }
    }

    /// Each picture with the stem of the name of its file.
    pub fn files(&self) -> Vec<(String, &Picture)> {
        let stem = |index: usize| match self.pictures.len() {
            1 => self.id.clone(),
            _ => format!("{}-{}", self.id, (b'a' + index as u8 % 26) as char),
        };
        self.pictures.iter().enumerate().map(|(index, picture)| (stem(index), picture)).collect()
    }
}

impl Report {
    /// All figures that the report has data for, in the page's order.
    pub fn figures(&self) -> Vec<Figure> {
        let names = self.methods();
        let mut figures = Vec::new();
        // What was asked for comes first: what a study varies, what a plan does with memory.
        figures.extend(printed::figures(&self.printed));
        figures.extend(checks::figure(&self.checks));
        figures.extend(trainings::figures(&self.trainings));
        figures.extend(sweeps::figures(&self.settings, &names));
        figures.extend(searches::figures(&self.searches, &names));
        if self.settings.len() > FEW_SETTINGS {
            figures.extend(methods::over_all(&self.settings, &names));
        } else {
            figures.extend(methods::overhead(&self.settings));
        }
        figures.extend(self.runs.iter().filter_map(runs::memory));
        figures.extend(runs::timelines(&self.runs));
        if self.settings.len() <= FEW_SETTINGS {
            figures.extend(methods::moved(&self.settings));
        }
        figures.extend(self.runs.iter().filter_map(runs::decisions));
        figures.extend(runs::hidden(&self.runs));
        number(&mut figures);
        figures
    }

    /// The page: one HTML file that needs nothing beside it, around the figures given.
    pub fn html(&self, figures: &[Figure]) -> String {
        html::page(self, figures)
    }

    /// What a report can show and this one does not, each with the reason.
    fn missing(&self, figures: &[Figure]) -> Vec<(String, String)> {
        let needs = [
            ("timeline", "Timeline", "a timeline or a plan"),
            ("memory", "What memory holds", "a plan and its trace"),
            ("overhead", "Time that each method adds", "a comparison or a study"),
            ("largest-batch", Sought::LargestBatch.title(), "a study that searches for it"),
            ("smallest-budget", Sought::SmallestBudget.title(), "a study that searches for it"),
            ("decisions", "Decisions over the network's depth", "a plan"),
            ("moved", "Bytes copied by each method", "one to four comparisons"),
            ("hidden", "Copying while the device computes", "a timeline or plan that copies"),
        ];
        let is_there = |id: &str| {
            figures.iter().any(|figure| {
                figure.id == id
                    || figure.id.strip_prefix(id).is_some_and(|rest| {
                        rest == "-over-all" || rest[1..].bytes().all(|b| b.is_ascii_digit())
                    })
            })
        };
        let missing =
            needs.into_iter().filter(|(id, ..)| !is_there(id)).map(|(_, title, needs)| {
                (
                    title.to_string(),
                    format!("the inputs hold no data, or zeros alone; it needs {needs}"),
                )
            });
        missing.chain(sweeps::missing(&self.settings, &self.methods())).collect()
    }

    /// All methods, in the order in which they first appear.
    fn methods(&self) -> Vec<String> {
        let mut names = methods_of(self.settings.iter());
        for search in &self.searches {
            if !names.contains(&search.method.method) {
                names.push(search.method.method.clone());
            }
        }
        names
    }
}

/// The methods of settings, in the order in which they first appear.
fn methods_of<'a>(settings: impl Iterator<Item = &'a Setting>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for method in settings.flat_map(|setting| &setting.methods) {
        if !names.contains(&method.method) {
            names.push(method.method.clone());
        }
    }
    names
}

/// Tells figures of one kind apart: `timeline-1`, `timeline-2`. A single one keeps its name. Of equal
/// titles each says which it is.
fn number(figures: &mut [Figure]) {
    let mut titles: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for figure in figures.iter() {
        titles.entry(figure.title.clone()).or_default().0 += 1;
    }
    for figure in figures.iter_mut() {
        let (all, seen) = titles.entry(figure.title.clone()).or_default();
        *seen += 1;
        if *all > 1 {
            figure.title += &format!(" ({seen})");
        }
    }
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for figure in figures.iter() {
        *count.entry(figure.id.clone()).or_default() += 1;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for figure in figures.iter_mut().filter(|figure| count[&figure.id] > 1) {
        let number = seen.entry(figure.id.clone()).or_default();
        *number += 1;
        figure.id = format!("{}-{number}", figure.id);
    }
}

#[cfg(test)]
mod tests;
