//! A report: figures with captions, tables, and the page that holds them.

mod bars;
mod checks;
mod conclusion;
mod contents;
mod decisions;
mod figure;
mod frontier;
mod held_out;
mod hidden;
mod html;
mod inputs;
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

use inputs::FEW_SETTINGS;

pub use figure::Figure;
pub use frontier::frontier_figure;
pub use held_out::{Predictions, held_out};
pub use inputs::Report;
pub use printed::PrintedNumber;
pub use runs::Run;
pub use searches::{Search, Sought};
pub use setting::Setting;

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
