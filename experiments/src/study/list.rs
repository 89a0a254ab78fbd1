//! The points of a study before anything is planned.

use reports::columns;
use scenarios::{Budget, Find, Point, Study};
use schema::Bytes;
use serde::Serialize;

use super::case::{decided_on_text, options_of, options_text};

/// What one point asks.
#[derive(Debug, Serialize)]
pub struct Asked {
    /// Its number, from 0.
    point: usize,
    group: String,
    network: String,
    batch: Option<u32>,
    options: String,
    machine: String,
    link: String,
    host_memory_bytes: Option<Bytes>,
    budget: Option<String>,
    allowed: &'static str,
    codecs: String,
    decided_on: Option<String>,
    find: Option<&'static str>,
    method: String,
}

/// Every point, in the study's order.
pub fn list(study: &Study) -> Vec<Asked> {
    study.points().enumerate().map(|(number, point)| Asked::new(number, &point)).collect()
}

/// A line for each, with the columns that say something.
pub fn list_text(points: &[Asked]) -> String {
    let cells = |asked: &Asked| {
        let optional = |text: Option<String>| text.unwrap_or_default();
        [
            ("point", asked.point.to_string()),
            ("group", asked.group.clone()),
            ("network", asked.network.clone()),
            ("batch", optional(asked.batch.map(|batch| batch.to_string()))),
            ("options", asked.options.clone()),
            ("machine", asked.machine.clone()),
            ("link", asked.link.clone()),
            ("host memory", optional(asked.host_memory_bytes.map(|bytes| bytes.to_string()))),
            ("budget", optional(asked.budget.clone())),
            ("allowed", asked.allowed.to_string()),
            ("codecs", asked.codecs.clone()),
            ("decided on", optional(asked.decided_on.clone())),
            ("find", asked.find.unwrap_or_default().to_string()),
            ("method", asked.method.clone()),
        ]
    };
    let rows: Vec<_> = points.iter().map(cells).collect();
    let says = |column: &usize| rows.iter().any(|row| !row[*column].1.is_empty());
    let shown: Vec<usize> = (0..rows.first().map_or(0, |row| row.len())).filter(says).collect();
    let headings = rows.first().map(|row| shown.iter().map(|&at| row[at].0.to_string()).collect());
    let lines = rows.iter().map(|row| shown.iter().map(|&at| row[at].1.clone()).collect());
    columns(&headings.into_iter().chain(lines).collect::<Vec<Vec<String>>>())
}

impl Asked {
    fn new(number: usize, point: &Point) -> Self {
        let group = point.group;
        Self {
            point: number,
            group: group.name.clone(),
            network: point.subject.name.clone(),
            batch: point.batch,
            options: options_text(&options_of(point), point),
            machine: point.machine.0.clone(),
            link: point.link.to_string(),
            host_memory_bytes: point.host_memory,
            budget: point.budget.map(|budget| match budget {
                Budget::Bytes(bytes) => bytes.to_string(),
                Budget::Percent(percent) => format!("{percent}%"),
            }),
            allowed: point.allow.name(),
            codecs: group.codecs.text(),
            decided_on: Some(decided_on_text(group)).filter(|text| !text.is_empty()),
            find: group.find.map(Find::name),
            method: point.method.to_string(),
        }
    }
}
