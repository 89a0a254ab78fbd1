//! What a report is about.

use super::printed::PrintedNumber;
use super::runs::Run;
use super::searches::Search;
use super::setting::Setting;
use crate::{Checked, Explanation, Trained};

/// Beyond so many settings a figure for each would bury what they say together.
pub(super) const FEW_SETTINGS: usize = 4;

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
    /// How many of each paper's are near what is predicted.
    pub counts: Vec<String>,
}

impl Report {
    /// All methods, in the order in which they first appear.
    pub(super) fn methods(&self) -> Vec<String> {
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
pub(super) fn methods_of<'a>(settings: impl Iterator<Item = &'a Setting>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for method in settings.flat_map(|setting| &setting.methods) {
        if !names.contains(&method.method) {
            names.push(method.method.clone());
        }
    }
    names
}
