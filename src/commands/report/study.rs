//! A study's rows as settings with their methods.

use reports::{MethodResult, Report, Setting, Status};
use results::Row;

/// Adds the rows' settings, in the rows' order.
///
/// Rows that search for a batch or a budget have no setting of their own that others share; the
/// report says how many it leaves out.
pub fn add(rows: Vec<Row>, report: &mut Report) {
    let first = report.settings.len();
    let mut searches = 0;
    for row in rows {
        if !row.find.is_empty() {
            searches += 1;
            continue;
        }
        let mut setting = setting(&row);
        let method = method(row);
        let same = report.settings[first..].iter_mut().find(|other| {
            setting.methods.clone_from(&other.methods);
            **other == setting
        });
        match same {
            Some(other) => other.methods.push(method),
            None => {
                setting.methods = vec![method];
                report.settings.push(setting);
            }
        }
    }
    if searches > 0 {
        report.left_out.push(format!(
            "{searches} points that search for the largest batch or the smallest budget: \
             `tidegate study` prints them, and results.csv holds them"
        ));
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
        in_core: row.in_core,
        in_core_peak: row.in_core_peak,
        bound: None,
        op_times,
        methods: Vec::new(),
    }
}

/// What all methods may decide unless a study says otherwise.
const ALL_CHOICES: &str = "swap+recompute";

/// The method's name, with whatever else distinguishes rows of one setting.
fn name(row: &Row) -> String {
    let mut name = row.method.clone();
    if row.allowed != ALL_CHOICES {
        name += &format!(" ({})", row.allowed);
    }
    if !row.decided_on.is_empty() {
        name += &format!(" (decided on {})", row.decided_on);
    }
    name
}

fn method(row: Row) -> MethodResult {
    MethodResult {
        method: name(&row),
        status: match row.status {
            results::Status::Ok => Status::Ok,
            results::Status::Infeasible => Status::Infeasible,
        },
        reason: row.reason,
        shortfall: row.shortfall,
        iteration: row.iteration,
        slowdown: row.slowdown,
        peak: row.peak,
        arena: row.arena,
        gap: row.gap,
        plan_seconds: row.plan_seconds,
        kept: row.kept,
        swapped: row.swapped,
        recomputed: row.recomputed,
        compressed: row.compressed,
        d2h: row.d2h,
        h2d: row.h2d,
        recompute: row.recompute,
        codec: row.codec,
        stall: row.stall,
    }
}
