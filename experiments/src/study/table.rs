//! The results as a table: what all points have in common once, what differs in columns.

use std::collections::BTreeSet;

use crate::tables::Row;
use reports::{Status, columns, tensors};

/// What a point is, by the heading of its column.
type Label = (&'static str, fn(&Row) -> String);

const LABELS: [Label; 12] = [
    ("group", |row| row.group.clone()),
    ("network", |row| row.network.clone()),
    ("options", |row| row.options.clone()),
    ("op times", |row| row.origin.clone()),
    ("batch", |row| row.batch.map_or("-".into(), |batch| batch.to_string())),
    ("machine", |row| row.machine.clone()),
    ("link", |row| match row.link.as_str() {
        "own" => row.bandwidth.to_string(),
        link if link.ends_with("/s") => link.to_string(),
        link => format!("{link} {}", row.bandwidth),
    }),
    ("host memory", |row| row.host_budget.to_string()),
    ("budget", |row| row.budget.to_string()),
    ("allowed", |row| row.allowed.clone()),
    ("codecs", |row| row.codecs.clone().unwrap_or_default()),
    ("decided on", |row| row.decided_on.clone()),
];

pub fn table(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let (mut common, mut differing) = (String::new(), Vec::new());
    for (heading, label) in LABELS {
        let value = label(first);
        if rows.iter().any(|row| label(row) != value) {
            differing.push((heading, label));
        } else if !value.is_empty() {
            common.push_str(&format!("{heading:<11}  {value}\n"));
        }
    }
    let mut lines = Vec::with_capacity(rows.len() + 1);
    let figures = [
        "method",
        "time",
        "slowdown",
        "peak",
        "kept",
        "swapped",
        "recomputed",
        "waiting",
        "planned in",
    ];
    let headings = differing.iter().map(|(heading, _)| *heading).chain(figures);
    lines.push(headings.map(str::to_string).collect::<Vec<_>>());
    let mut reasons = BTreeSet::new();
    for row in rows {
        let mut line: Vec<String> = differing.iter().map(|(_, label)| label(row)).collect();
        line.push(row.answer.method.clone());
        match row.answer.status {
            Status::Ok => line.extend(figures_of(row)),
            Status::Infeasible | Status::Timeout => {
                line.push("no plan".into());
                match row.answer.shortfall {
                    Some(bytes) => line.push(format!("{bytes} short")),
                    None => {
                        reasons.extend(row.answer.reason.clone());
                        line.push("[*]".into());
                    }
                }
            }
        }
        lines.push(line);
    }
    let reasons: String = reasons.iter().map(|reason| format!("[*] {reason}\n")).collect();
    format!("{common}\n{}{reasons}", columns(&lines))
}

fn figures_of(row: &Row) -> Vec<String> {
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let [kept, swapped, recomputed, _] =
        row.answer.fates().map(|(_, count, bytes)| tensors(count, bytes));
    vec![
        text(row.answer.iteration.map(|time| time.to_string())),
        text(row.answer.slowdown.map(|slowdown| format!("{slowdown:.3}x"))),
        text(row.answer.peak.map(|peak| peak.to_string())),
        kept,
        swapped,
        recomputed,
        text(row.answer.stall.map(|stall| stall.to_string())),
        text(row.answer.plan_seconds.map(|seconds| format!("{seconds:.3} s"))),
    ]
}
