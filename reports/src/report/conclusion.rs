//! The sentences on top of a report.

use std::collections::BTreeMap;

use super::inputs::Report;
use super::runs::{Run, stalls};
use super::searches::{Search, Sought};
use super::setting::Setting;
use crate::Explanation;
use crate::text::percent;

/// What the report shows, one sentence for each kind of input.
pub(super) fn conclusion(report: &Report) -> Vec<String> {
    let mut sentences: Vec<String> =
        report.explanations.iter().flat_map(Explanation::sentences).collect();
    sentences.extend(report.counts.iter().map(|count| format!("{count}.")));
    match report.settings.as_slice() {
        [] => {}
        [setting] => sentences.push(one(setting)),
        settings => sentences.push(many(settings)),
    }
    for sought in Sought::ALL {
        sentences.extend(searches(sought, &report.searches));
    }
    sentences.extend(report.trainings.iter().flat_map(|way| way.notes.iter().cloned()));
    // With many plans the table is the better place.
    if report.runs.len() <= 3 {
        sentences.extend(report.runs.iter().map(run));
    }
    if sentences.is_empty() {
        sentences.push(match report.runs.len() {
            0 => "The inputs hold nothing that can be shown.".into(),
            n => format!("{n} timelines, side by side."),
        });
    }
    sentences.iter().map(|sentence| begun(sentence)).collect()
}

/// A sentence with a large letter at its beginning, but for a name's.
fn begun(sentence: &str) -> String {
    match sentence.strip_prefix("the ") {
        Some(rest) => format!("The {rest}"),
        None => sentence.into(),
    }
}

fn one(setting: &Setting) -> String {
    let plans = setting.plans();
    let without = setting.methods.len() - plans.len();
    let Some((first, overhead)) = plans.first() else {
        let nearest = setting.methods.iter().filter_map(|m| Some((m.shortfall?, &m.method)));
        let nearest = nearest.min().map_or_else(String::new, |(lacks, method)| {
            format!("; {method} comes nearest and lacks {lacks}")
        });
        return format!("{}: no method finds a plan{nearest}.", setting.title());
    };
    let mut text = format!(
        "{}: {} is fastest, {} slower than without a memory limit",
        setting.title(),
        first.method,
        percent(*overhead)
    );
    if let Some((second, overhead)) = plans.iter().find(|(m, _)| m.iteration > first.iteration) {
        text += &format!("; next is {} at {}", second.method, percent(*overhead));
    }
    if without > 0 {
        text += &format!("; {without} of {} methods find no plan", setting.methods.len());
    }
    text + "."
}

fn many(settings: &[Setting]) -> String {
    let mut wins: BTreeMap<&str, usize> = BTreeMap::new();
    let mut best: Vec<f64> = Vec::new();
    for setting in settings {
        let plans = setting.plans();
        let Some((fastest, overhead)) = plans.first() else { continue };
        best.push(*overhead);
        for (method, _) in plans.iter().filter(|(m, _)| m.iteration == fastest.iteration) {
            *wins.entry(&method.method).or_default() += 1;
        }
    }
    best.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (best.first(), best.last()) else {
        return format!("No method finds a plan in any of the {} settings.", settings.len());
    };
    let most_wins = wins.values().copied().max().unwrap_or(0);
    let winners: Vec<_> = wins.iter().filter(|(_, n)| **n == most_wins).map(|(m, _)| *m).collect();
    let none = settings.len() - best.len();
    let none = match none {
        0 => String::new(),
        n => format!(" In {n} settings no method finds a plan."),
    };
    format!(
        "Over {} settings, {} is fastest, or as fast as any, in {most_wins}; the fastest plan costs \
         between {} and {} over the time without a memory limit.{none}",
        settings.len(),
        winners.join(" and "),
        percent(*least),
        percent(*most)
    )
}

/// Which method gets furthest, over the questions of one kind.
fn searches(sought: Sought, searches: &[Search]) -> Option<String> {
    let mut questions: BTreeMap<_, Vec<(&str, u64)>> = BTreeMap::new();
    for search in searches.iter().filter(|search| search.sought == sought) {
        let found = search.found().map(|found| (search.method.method.as_str(), found));
        questions.entry(search.question()).or_default().extend(found);
    }
    let mut wins: BTreeMap<&str, usize> = BTreeMap::new();
    for found in questions.values() {
        let all = found.iter().map(|(_, found)| *found);
        let best = match sought {
            Sought::LargestBatch => all.max(),
            Sought::SmallestBudget => all.min(),
        };
        for (method, _) in found.iter().filter(|(_, found)| Some(*found) == best) {
            *wins.entry(method).or_default() += 1;
        }
    }
    let most = wins.values().copied().max()?;
    let winners: Vec<_> = wins.iter().filter(|(_, n)| **n == most).map(|(m, _)| *m).collect();
    let (winners, reaches) = match winners.as_slice() {
        [one] => (one.to_string(), "reaches"),
        several => (several.join(" and "), "each reach"),
    };
    Some(format!(
        "{winners} {reaches} the {}, or one as good as any, in {most} of {}.",
        sought.name(),
        match questions.len() {
            1 => "one search".to_string(),
            n => format!("{n} searches"),
        }
    ))
}

fn run(run: &Run) -> String {
    let timeline = &run.timeline;
    format!(
        "{}: an iteration takes {} with a peak of {} under a budget of {}. {}",
        run.timeline.title(),
        timeline.iteration,
        timeline.peak,
        timeline.budget,
        stalls(timeline)
    )
}
