//! The largest batch and the smallest budget that each method can plan.

use schema::Bytes;

use super::bars::{Bar, Bars, Part};
use super::figure::Figure;
use super::plot::of_style;
use super::setting::Setting;
use crate::text::percent;
use crate::{MethodResult, Picture, Status};

/// What a search looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sought {
    /// The largest batch within a budget.
    LargestBatch,
    /// The smallest budget for a batch.
    SmallestBudget,
}

/// One method's search, and where it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// What it looked for.
    pub sought: Sought,
    /// The setting in which it ended, without methods: its batch or its budget is the answer where
    /// the method has a plan.
    pub setting: Setting,
    /// The method and its plan there.
    pub method: MethodResult,
}

impl Sought {
    pub(super) const ALL: [Self; 2] = [Self::LargestBatch, Self::SmallestBudget];

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::LargestBatch => "largest-batch",
            Self::SmallestBudget => "smallest-budget",
        }
    }

    /// In a sentence, after "the".
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LargestBatch => "largest batch",
            Self::SmallestBudget => "smallest budget",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LargestBatch => "Largest batch by method",
            Self::SmallestBudget => "Smallest budget by method",
        }
    }

    fn axis(self) -> &'static str {
        match self {
            Self::LargestBatch => "samples per iteration",
            Self::SmallestBudget => "device memory that a plan needs (GB)",
        }
    }

    fn caption(self) -> &'static str {
        match self {
            Self::LargestBatch => {
                "The largest batch for which each method finds a plan within the memory stated, \
                 by bisection; longer is better. Each network has an axis of its own."
            }
            Self::SmallestBudget => {
                "The least device memory, to a thousandth of the in-core peak, under which each \
                 method finds a plan, by bisection; shorter is better."
            }
        }
    }
}

impl Search {
    /// What was found, as a number that compares with that of other methods; none without a plan.
    pub(super) fn found(&self) -> Option<u64> {
        (self.method.status == Status::Ok).then_some(())?;
        match self.sought {
            Sought::LargestBatch => self.setting.batch.map(u64::from),
            Sought::SmallestBudget => Some(self.setting.budget.0),
        }
    }

    pub(super) fn found_text(&self) -> Option<String> {
        let found = self.found()?;
        Some(match self.sought {
            Sought::LargestBatch => found.to_string(),
            Sought::SmallestBudget => Bytes(found).to_string(),
        })
    }

    /// How much longer an iteration of the plan takes than without a memory limit.
    pub(super) fn overhead(&self) -> Option<f64> {
        Some(self.setting.overhead(self.method.iteration?))
    }

    /// Samples per second, where there is a plan and the batch is known.
    pub(super) fn throughput(&self) -> Option<f64> {
        Some(f64::from(self.setting.batch?) / self.method.iteration?.as_secs_f64())
    }

    /// What was asked, apart from the method: the network, and the rest of the question.
    pub(super) fn question(&self) -> (String, String) {
        let Setting { network, batch, budget, .. } = &self.setting;
        let machine = self.setting.machine_and_link();
        match (self.sought, batch) {
            (Sought::LargestBatch, _) => (network.clone(), format!("{machine}, within {budget}")),
            (Sought::SmallestBudget, Some(batch)) => {
                (format!("{network} (batch {batch})"), machine)
            }
            (Sought::SmallestBudget, None) => (network.clone(), machine),
        }
    }

    fn question_text(&self) -> String {
        let (network, rest) = self.question();
        format!("{network} on {rest}")
    }

    fn bar(&self, heading: Option<String>, names: &[String]) -> Bar {
        let MethodResult { method, shortfall, .. } = &self.method;
        let overhead = self.overhead().map_or("-".into(), |o| format!("+{}", percent(o)));
        let (value, label) = match (self.found(), self.found_text()) {
            (Some(found), Some(text)) => match self.sought {
                Sought::LargestBatch => (found as f64, format!("{text} ({overhead})")),
                Sought::SmallestBudget => {
                    let share = percent(self.setting.budget_share());
                    (
                        found as f64 / 1e9,
                        format!("{text}, {share} of the in-core peak ({overhead})"),
                    )
                }
            },
            _ => {
                (0.0, shortfall.map_or("no plan".into(), |lacks| format!("no plan: {lacks} short")))
            }
        };
        let part = Part {
            kind: names.iter().position(|name| name == method).unwrap_or_default(),
            value,
            title: self.title(),
        };
        Bar { heading, name: method.clone(), parts: vec![part], label }
    }

    /// What shows when the pointer rests on its bar.
    fn title(&self) -> String {
        let MethodResult { method, iteration, peak, kept, swapped, recomputed, .. } = &self.method;
        let mut text = format!("{method}: {}", self.question_text());
        if let Some(found) = self.found_text() {
            text += &format!("; {} {found}", self.sought.name());
        }
        if let (Some(time), Some(overhead)) = (iteration, self.overhead()) {
            text += &format!("; iteration {time}, +{}", percent(overhead));
        }
        if let Some(speed) = self.throughput() {
            text += &format!(", {speed:.1} samples/s");
        }
        if let Some(peak) = peak {
            text += &format!("; peak {peak}");
        }
        for (count, what) in [(kept, "kept"), (swapped, "swapped"), (recomputed, "recomputed")] {
            if let Some(count) = count {
                text += &format!(", {count} {what}");
            }
        }
        text
    }
}

/// A figure for each kind of search that there is. `names` are the methods of the whole report, so
/// that each has the same colour in all figures.
pub(super) fn figures(searches: &[Search], names: &[String]) -> Vec<Figure> {
    Sought::ALL.into_iter().filter_map(|sought| figure(sought, searches, names)).collect()
}

fn figure(sought: Sought, searches: &[Search], names: &[String]) -> Option<Figure> {
    let searches: Vec<&Search> = searches.iter().filter(|search| search.sought == sought).collect();
    if searches.is_empty() {
        return None;
    }
    let pictures = match sought {
        // Batches of different networks have nothing to do with one another.
        Sought::LargestBatch => grouped(&searches, |search| search.question().0),
        Sought::SmallestBudget => vec![("all networks".into(), searches.clone())],
    };
    let pictures =
        pictures.into_iter().map(|(name, searches)| picture(sought, &name, &searches, names));
    Some(Figure::new(
        sought.id(),
        sought.title(),
        format!(
            "{} In brackets, how much longer an iteration takes under that plan than without a \
             memory limit: at the edge of what fits it may be slow. Predicted; {}.",
            sought.caption(),
            Setting::all_op_times(searches.iter().map(|search| &search.setting))
        ),
        pictures.collect(),
    ))
}

type Groups<'a> = Vec<(String, Vec<&'a Search>)>;

/// Searches that agree on something, in the order in which they first appear.
fn grouped<'a>(searches: &[&'a Search], by: impl Fn(&Search) -> String) -> Groups<'a> {
    let mut groups: Groups<'a> = Vec::new();
    for search in searches {
        let key = by(search);
        match groups.iter_mut().find(|(name, _)| *name == key) {
            Some((_, group)) => group.push(search),
            None => groups.push((key, vec![search])),
        }
    }
    groups
}

fn picture(sought: Sought, name: &str, searches: &[&Search], names: &[String]) -> Picture {
    let mut bars = Vec::new();
    for (question, group) in grouped(searches, Search::question_text) {
        let mut heading = Some(question);
        bars.extend(group.into_iter().map(|search| search.bar(heading.take(), names)));
    }
    let kinds = names.iter().enumerate().map(|(style, name)| (name.clone(), of_style(style)));
    Bars {
        name: format!("{}: {name}", sought.name()),
        axis: sought.axis().into(),
        kinds: kinds.collect(),
        bars,
        line: None,
    }
    .picture()
}
