//! What the results say, in a few sentences that are worked out from the rows.

use std::collections::BTreeMap;

use reports::Status;

use crate::tables::Row;

/// The sentences, each on a line of its own.
pub fn conclusions(rows: &[Row]) -> String {
    let mut text = String::from("\n");
    if rows.iter().any(|row| row.find.is_empty()) {
        text.push_str(&fastest(rows));
    }
    let links = questions(rows, |row| Some(row.bandwidth.0));
    for (question, methods) in &links {
        text.push_str(&crossovers(question, methods));
    }
    for (question, methods) in questions(rows, |row| (!row.find.is_empty()).then_some(0)) {
        text.push_str(&found(&question, &methods));
    }
    text
}

/// Rows of each question that differ in their method, or in what `axis` gives, alone.
fn questions(
    rows: &[Row],
    axis: impl Fn(&Row) -> Option<u64>,
) -> BTreeMap<String, BTreeMap<String, Vec<&Row>>> {
    let mut questions: BTreeMap<String, BTreeMap<String, Vec<&Row>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| axis(row).is_some()) {
        let methods = questions.entry(question(row)).or_default();
        methods.entry(row.method_name(" only")).or_default().push(row);
    }
    for methods in questions.values_mut() {
        methods.values_mut().for_each(|rows| rows.sort_by_key(|row| axis(row)));
    }
    questions
}

/// What a row asks, apart from the link and the method.
fn question(row: &Row) -> String {
    let mut text = row.network.clone();
    if let (Some(batch), "" | "smallest-budget") = (row.batch, row.find.as_str()) {
        text.push_str(&format!(" at batch {batch}"));
    }
    if !row.options.is_empty() {
        text.push_str(&format!(" ({})", row.options));
    }
    text.push_str(&format!(" on {}", row.machine));
    if row.find != "smallest-budget" {
        text.push_str(&format!(" within {}", row.budget));
    }
    text
}

/// How often each method is fastest, or as fast as any.
fn fastest(rows: &[Row]) -> String {
    let mut asked: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.find.is_empty()) {
        asked.entry((question(row), row.link.clone(), row.host_budget)).or_default().push(row);
    }
    let mut wins: BTreeMap<String, usize> = BTreeMap::new();
    let mut none = 0;
    for rows in asked.values() {
        let planned = || rows.iter().filter(|row| row.answer.status == Status::Ok);
        let best = planned().map(|row| row.answer.iteration).min();
        none += usize::from(best.is_none());
        for row in planned().filter(|row| Some(row.answer.iteration) == best) {
            *wins.entry(row.method_name(" only")).or_default() += 1;
        }
    }
    let mut wins: Vec<(String, usize)> = wins.into_iter().collect();
    wins.sort_by(|(a, more), (b, less)| less.cmp(more).then(a.cmp(b)));
    let wins: Vec<String> =
        wins.into_iter().map(|(method, times)| format!("{method} {times}")).collect();
    let mut text =
        format!("Fastest, or as fast as any, of {} questions: {}", asked.len(), wins.join(", "));
    if none > 0 {
        text.push_str(&format!("; none fits {none}"));
    }
    text + ".\n"
}

/// Where, as the link gets faster, another method becomes the faster one.
fn crossovers(question: &str, methods: &BTreeMap<String, Vec<&Row>>) -> String {
    let mut lines = Vec::new();
    // The iteration without a memory limit has no copies.
    let names: Vec<&String> = methods.keys().filter(|name| *name != "in-core").collect();
    for (index, first) in names.iter().enumerate() {
        for second in &names[index + 1..] {
            lines.extend(crossover(first, &methods[*first], second, &methods[*second]));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("{question}, as the link gets faster:\n{}", lines.concat())
}

/// Whether less than this share tells two times apart.
const SAME: f64 = 0.005;

fn crossover(a: &str, rows_a: &[&Row], b: &str, rows_b: &[&Row]) -> Option<String> {
    let both: Vec<(&Row, &Row)> = rows_a
        .iter()
        .filter_map(|row| {
            let other = rows_b
                .iter()
                .find(|other| other.link == row.link && other.host_budget == row.host_budget)?;
            Some((*row, *other))
        })
        .collect();
    let bandwidths: std::collections::BTreeSet<_> = both.iter().map(|(a, _)| a.bandwidth).collect();
    if bandwidths.len() < 2 {
        return None;
    }
    let side = |(a, b): &(&Row, &Row)| Lead::of(a, b);
    let mut text = String::new();
    for pair in both.windows(2) {
        let (before, after) = (side(&pair[0]), side(&pair[1]));
        if before == after || before == Lead::Neither || after == Lead::Neither {
            continue;
        }
        let (slow, fast) = (pair[0].0, pair[1].0);
        let name = |row: &Row| match row.link.as_str() {
            link if link.ends_with("/s") => link.to_string(),
            link => format!("{link} ({})", row.bandwidth),
        };
        let near =
            crossing(pair).map_or(String::new(), |near| format!(" (equal near {near:.0} GB/s)"));
        text.push_str(&format!(
            "  {} up to {}; {} from {} on{near}\n",
            before.sentence(a, b),
            name(slow),
            after.sentence(a, b),
            name(fast),
        ));
    }
    if text.is_empty() {
        let lead = side(both.first()?);
        if lead != Lead::Neither && both.iter().all(|pair| side(pair) == lead) {
            text = format!("  on every link: {}\n", lead.sentence(a, b));
        }
    }
    Some(text)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    First,
    Second,
    Equal,
    Neither,
}

impl Lead {
    fn of(a: &Row, b: &Row) -> Self {
        match (a.answer.iteration, b.answer.iteration) {
            (Some(a), Some(b)) if a.ratio(b) < 1.0 - SAME => Self::First,
            (Some(a), Some(b)) if a.ratio(b) > 1.0 + SAME => Self::Second,
            (Some(_), Some(_)) => Self::Equal,
            (Some(_), None) => Self::First,
            (None, Some(_)) => Self::Second,
            (None, None) => Self::Neither,
        }
    }

    fn sentence(self, a: &str, b: &str) -> String {
        match self {
            Self::First => format!("{a} beats {b}"),
            Self::Second => format!("{b} beats {a}"),
            Self::Equal => format!("{a} and {b} tie"),
            Self::Neither => "neither fits".into(),
        }
    }
}

/// The bandwidth at which two methods would be level, in GB/s: their times are taken as linear in
/// one over the bandwidth, as the time of a copy is.
fn crossing(pair: &[(&Row, &Row)]) -> Option<f64> {
    let difference = |(a, b): &(&Row, &Row)| {
        Some(a.answer.iteration?.as_secs_f64() - b.answer.iteration?.as_secs_f64())
    };
    let (before, after) = (difference(&pair[0])?, difference(&pair[1])?);
    if before * after >= 0.0 {
        return None;
    }
    let slowness = |(a, _): &(&Row, &Row)| 1e9 / a.bandwidth.0 as f64;
    let (slow, fast) = (slowness(&pair[0]), slowness(&pair[1]));
    Some(1.0 / (slow + (fast - slow) * before / (before - after)))
}

fn found(question: &str, methods: &BTreeMap<String, Vec<&Row>>) -> String {
    let mut lines = String::new();
    for (method, rows) in methods {
        for row in rows {
            let slowdown = row.answer.slowdown.unwrap_or(f64::NAN);
            lines.push_str(&match (row.answer.status, row.find.as_str()) {
                (Status::Infeasible | Status::Timeout, _) => format!("  {method}: no plan\n"),
                (Status::Ok, "largest-batch") => {
                    let batch = row.batch.map_or("?".into(), |batch| batch.to_string());
                    let speed = row.throughput().unwrap_or(f64::NAN);
                    format!("  {method}: batch {batch}, {slowdown:.2}x the in-core time, {speed:.1} samples/s\n")
                }
                (Status::Ok, _) => {
                    let share = 100.0 * row.budget.0 as f64 / row.in_core_peak.0.max(1) as f64;
                    format!("  {method}: {} ({share:.1} % of the in-core peak), {slowdown:.2}x the in-core time\n", row.budget)
                }
            });
        }
    }
    format!("{question}:\n{lines}")
}
