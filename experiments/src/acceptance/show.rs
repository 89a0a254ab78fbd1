//! The document for people: what any command printed as JSON, as facts and tables.

use std::path::Path;

use reports::columns;
use schema::{Bytes, Nanos};
use serde_json::{Map, Value};

use super::document::{Acceptance, StepResult};
use crate::check::CheckResult;

struct Section {
    title: String,
    facts: Vec<[String; 2]>,
    table: Vec<Vec<String>>,
}

/// What became of each step.
pub fn overview(document: &Acceptance) -> String {
    let Acceptance { device, date, version, steps } = document;
    let mut text = format!("{device}, {date}, tidegate {version}\n\n");
    for StepResult { name, status, reason, seconds, .. } in steps {
        let status = format!("{status:?}").to_lowercase();
        let reason = reason.as_deref().unwrap_or_default();
        let line = format!("{name:<12} {status:<8} {seconds:>4.0} s  {reason}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// As text.
pub fn text(document: &Acceptance) -> String {
    let mut text = overview(document);
    for (title, body) in bodies(document) {
        text.push_str(&format!("\n## {title}\n{body}"));
    }
    text
}

/// As a page, with links to what the steps wrote into the folder.
pub(super) fn html(document: &Acceptance, folder: &Path) -> String {
    let title = format!("{} and tidegate", escaped(&document.device));
    let mut links = String::new();
    for step in &document.steps {
        let page = format!("{}/index.html", step.name);
        if folder.join(&page).is_file() {
            links.push_str(&format!("<li><a href=\"{page}\">figures of {}</a>\n", step.name));
        }
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <h1>{title}</h1>\n<ul>\n{links}</ul>\n<pre>\n{}</pre>\n</html>\n",
        escaped(&text(document))
    )
}

/// What commands printed, with its title.
fn bodies(document: &Acceptance) -> Vec<(String, String)> {
    let mut bodies = Vec::new();
    for step in &document.steps {
        for (what, figures) in &step.figures {
            let title = format!("{}: {what}", step.name);
            // What has a table of its own is shown by that.
            if let Ok(checked) = serde_json::from_value::<CheckResult>(figures.clone()) {
                bodies.push((title, checked.to_string()));
                continue;
            }
            let mut sections = Vec::new();
            take_apart(&title, figures, &mut sections);
            bodies.extend(sections.iter().map(|section| (section.title.clone(), section.body())));
        }
    }
    bodies
}

impl Section {
    fn body(&self) -> String {
        let facts = self.facts.iter().map(|[name, value]| format!("{name}: {value}\n"));
        facts.collect::<String>() + &columns(&self.table)
    }
}

/// A value as a section, and those that are in it behind it.
fn take_apart(title: &str, value: &Value, sections: &mut Vec<Section>) {
    let mut section = Section { title: title.into(), facts: Vec::new(), table: Vec::new() };
    let mut within = Vec::new();
    match value {
        Value::Array(items) if items.iter().all(is_row) => section.table = rows(items),
        Value::Array(items) => within.extend(items.iter().map(|item| (name_of(item, title), item))),
        Value::Object(fields) => {
            let mut facts = Vec::new();
            flatten("", fields, &mut facts, &mut within);
            section.facts = facts.into_iter().map(|(name, value)| [label(&name), value]).collect();
            for (name, _) in &mut within {
                *name = format!("{title}, {}", label(name));
            }
        }
        other => section.facts.push([String::new(), shown("", other)]),
    }
    if !(section.facts.is_empty() && section.table.is_empty()) {
        sections.push(section);
    }
    for (title, value) in within {
        take_apart(&title, value, sections);
    }
}

fn name_of(item: &Value, title: &str) -> String {
    let of = |key: &str| item.get(key).and_then(Value::as_str);
    match ["network", "name", "codec"].into_iter().find_map(of) {
        Some(name) => format!("{title}: {name}"),
        None => title.into(),
    }
}

/// Whether it has no list of rows in it.
fn is_row(item: &Value) -> bool {
    let Some(fields) = item.as_object() else { return false };
    let mut within = Vec::new();
    flatten("", fields, &mut Vec::new(), &mut within);
    within.is_empty()
}

/// Fields that hold one value, by their path; what holds rows goes to `within`.
fn flatten<'a>(
    path: &str,
    fields: &'a Map<String, Value>,
    facts: &mut Vec<(String, String)>,
    within: &mut Vec<(String, &'a Value)>,
) {
    for (key, value) in fields {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            // Where figures of a document are from is a page of its own.
            Value::Object(_) if key == "sources" => {}
            Value::Null => {}
            Value::Object(fields) => flatten(&path, fields, facts, within),
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                within.push((path, value));
            }
            Value::Array(items) if items.is_empty() => {}
            value => facts.push((path.clone(), shown(&path, value))),
        }
    }
}

/// What comes first in a row: what it is of.
const FIRST: [&str; 8] =
    ["network", "name", "codec", "chunk_bytes", "way", "by", "budget_percent", "method"];

fn rows(items: &[Value]) -> Vec<Vec<String>> {
    let cells: Vec<Vec<(String, String)>> = items
        .iter()
        .map(|item| {
            let mut facts = Vec::new();
            if let Some(fields) = item.as_object() {
                flatten("", fields, &mut facts, &mut Vec::new());
            }
            facts
        })
        .collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in cells.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let place =
        |name: &&String| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len());
    names.sort_by_key(place);
    let mut rows = vec![names.iter().map(|name| label(name)).collect::<Vec<_>>()];
    rows.extend(cells.iter().map(|row| {
        let of = |name: &&String| row.iter().find(|(other, _)| other == *name);
        names.iter().map(|name| of(name).map_or("-".into(), |(_, value)| value.clone())).collect()
    }));
    rows
}

/// A path in words, without its unit, which its value has.
fn label(path: &str) -> String {
    let mut words = path.replace("bytes_per_second", "speed").replace("_percent", "");
    for unit in ["_ns", "_bytes"] {
        words = words.replace(&format!("{unit}."), " ");
        words = words.strip_suffix(unit).map(String::from).unwrap_or(words);
    }
    words.replace(['.', '_'], " ").replace("arena", "memory")
}

/// A value with the unit that its path names.
fn shown(path: &str, value: &Value) -> String {
    let has = |unit: &str| path.split('.').any(|part| part.ends_with(unit));
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::Array(items) => {
            items.iter().map(|item| shown(path, item)).collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) => match (number.as_u64(), number.as_f64().unwrap_or(0.0)) {
            (Some(count), _) if has("_ns") => Nanos(count).to_string(),
            (Some(count), _) if has("_per_second") || has("_per_sec") => {
                format!("{:.2} GB/s", count as f64 / 1e9)
            }
            (Some(count), _) if has("bytes") => Bytes(count).to_string(),
            (Some(count), _) => count.to_string(),
            (None, share)
                if has("error") || has("over_copy") || has("median") || has("ninetieth") =>
            {
                format!("{:+.1} %", 100.0 * share)
            }
            (None, percent) if has("_percent") => format!("{percent:.0} %"),
            (None, value) if value != 0.0 && value.abs() < 1e-3 => format!("{value:.1e}"),
            (None, value) => format!("{value:.3}"),
        },
        other => other.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_lists_become_sections_and_lists_become_tables() {
        let figures = json!({
            "device": "a <GPU>",
            "networks": [
                { "network": "net", "peak_bytes": 1000, "plans": [
                    { "method": "tide", "iteration_ns": { "measured": 2000, "predicted": 1000 }, "error": -0.5 },
                    { "method": "pooch", "reason": "no plan" },
                ] },
            ],
        });
        let mut sections = Vec::new();
        take_apart("check", &figures, &mut sections);
        let text: Vec<_> = sections.iter().map(|s| format!("{}\n{}", s.title, s.body())).collect();
        insta::assert_snapshot!(text.join("\n"));
    }
}
