//! A study's rows as settings with their methods, and as searches.

use std::collections::{BTreeMap, BTreeSet};

use reports::{MethodResult, Report, Search, Setting, Sought};
use scenarios::Find;
use schema::{Bytes, Nanos};

use crate::tables::Row;

/// Adds the rows' settings and searches, in the rows' order.
pub fn add(rows: Vec<Row>, report: &mut Report) {
    let first = report.settings.len();
    let varied = hosts_that_vary(&rows);
    for row in rows {
        let mut setting = setting(&row);
        setting.host_memory = varied.contains(&row.machine).then_some(row.host_budget);
        let sought = sought(&row);
        let method = method(row);
        let bound = method.iteration.zip(method.gap);
        let bound = bound.map(|(time, gap)| Nanos((time.0 as f64 / (1.0 + gap)).round() as u64));
        if let Some(sought) = sought {
            report.searches.push(Search { sought, setting, method });
            continue;
        }
        let same = report.settings[first..].iter_mut().find(|other| {
            setting.methods.clone_from(&other.methods);
            setting.bound = other.bound;
            **other == setting
        });
        match same {
            Some(other) => {
                other.bound = other.bound.or(bound);
                other.methods.push(method);
            }
            None => {
                setting.bound = bound;
                setting.methods = vec![method];
                report.settings.push(setting);
            }
        }
    }
}

/// The machines whose rows differ in host memory.
fn hosts_that_vary(rows: &[Row]) -> BTreeSet<String> {
    let mut known: BTreeMap<&str, Bytes> = BTreeMap::new();
    let mut vary = BTreeSet::new();
    for row in rows {
        if *known.entry(&row.machine).or_insert(row.host_budget) != row.host_budget {
            vary.insert(row.machine.clone());
        }
    }
    vary
}

fn sought(row: &Row) -> Option<Sought> {
    match row.find.parse().ok()? {
        Find::LargestBatch => Some(Sought::LargestBatch),
        Find::SmallestBudget => Some(Sought::SmallestBudget),
    }
}

/// The setting of a row, without methods.
fn setting(row: &Row) -> Setting {
    let options = match row.options.as_str() {
        "" => String::new(),
        options => format!(", {options}"),
    };
    let op_times = match row.origin.as_str() {
        "measured" => "op times measured".into(),
        "imported" => "op times imported from a recording".into(),
        "modelled" => "op times modelled, not measured".into(),
        "scaled" => "op times scaled by a model".into(),
        other => format!("op times {other}"),
    };
    Setting {
        network: format!("{}{options}", row.network),
        batch: row.batch,
        machine: row.machine.clone(),
        link: if row.link == "own" { String::new() } else { row.link.clone() },
        bandwidth: Some(row.bandwidth),
        budget: row.budget,
        host_memory: None,
        in_core: row.in_core,
        in_core_peak: row.in_core_peak,
        bound: None,
        op_times,
        methods: Vec::new(),
    }
}

fn method(row: Row) -> MethodResult {
    MethodResult { method: row.method_name(""), ..row.answer }
}
