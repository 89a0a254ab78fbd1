//! Tables of a report.

use schema::{Lane, Nanos};

use super::hidden::Hidden;
use super::setting::{Setting, percent};
use super::{FEW_SETTINGS, Report, Run, Search, Sought};
use crate::{Difference, MethodResult, Status, differences, task_name};

/// So many actions of a plan are shown with how they differ from their prediction.
const MOST_DIFFERENT: usize = 12;

/// A table: names to the left, figures to the right.
pub(super) struct Table {
    pub title: String,
    pub header: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// How many columns are text.
    pub text_columns: usize,
}

/// A line of a table.
pub(super) enum Row {
    /// A cell for each column.
    Cells(Vec<String>),
    /// A name, and a sentence over all other columns.
    Sentence(String, String),
}

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = Vec::new();
    if report.settings.len() > FEW_SETTINGS {
        tables.push(settings(&report.settings));
    } else {
        tables.extend(report.settings.iter().map(methods));
    }
    for sought in Sought::ALL {
        let of_kind = report.searches.iter().filter(|search| search.sought == sought);
        let rows: Vec<_> = of_kind.map(search).collect();
        if !rows.is_empty() {
            tables.push(searches(sought, rows));
        }
    }
    if !report.runs.is_empty() {
        tables.push(runs(&report.runs));
    }
    if !report.checks.is_empty() {
        tables.push(super::checks::table(&report.checks));
    }
    if !report.trainings.is_empty() {
        tables.push(super::trainings::table(&report.trainings));
    }
    tables.extend(super::runs::pairs(&report.runs).into_iter().map(differing));
    tables
}

fn methods(setting: &Setting) -> Table {
    let bound = setting.methods.iter().any(|method| method.gap.is_some());
    let plans = setting.plans().into_iter();
    let mut rows: Vec<Row> =
        plans.map(|(method, overhead)| Row::Cells(plan(method, overhead, bound))).collect();
    let without = setting.methods.iter().filter(|method| method.status != Status::Ok);
    rows.extend(without.map(|method| {
        let reason = method.reason.clone().unwrap_or_else(|| "no plan".into());
        let reason = match method.status {
            Status::Timeout => format!("out of time: {reason}"),
            Status::Ok | Status::Infeasible => format!("does not fit: {reason}"),
        };
        Row::Sentence(method.method.clone(), reason)
    }));
    let mut header = vec!["method", "time", "overhead"];
    header.extend(bound.then_some("over bound"));
    header.extend(["peak", "kept", "swapped", "recomputed", "out", "in", "run again", "waits"]);
    Table { title: format!("Methods: {}", setting.title()), header, rows, text_columns: 1 }
}

fn plan(method: &MethodResult, overhead: f64, bound: bool) -> Vec<String> {
    let mut cells =
        vec![method.method.clone(), or_dash(method.iteration), format!("+{}", percent(overhead))];
    cells.extend(bound.then(|| or_dash(method.gap.map(percent))));
    cells.extend([
        or_dash(method.peak),
        or_dash(method.kept),
        or_dash(method.swapped),
        or_dash(method.recomputed),
        or_dash(method.d2h),
        or_dash(method.h2d),
        or_dash(method.recompute),
        or_dash(method.stall),
    ]);
    cells
}

fn settings(settings: &[Setting]) -> Table {
    let row = |setting: &Setting| {
        let plans = setting.plans();
        let nth = |n: usize| match plans.get(n) {
            Some((method, overhead)) => [method.method.clone(), format!("+{}", percent(*overhead))],
            None => ["no plan".into(), "-".into()],
        };
        let mut cells = vec![
            setting.network.clone(),
            or_dash(setting.batch),
            setting.machine_and_link(),
            or_dash(setting.bandwidth),
            setting.budget.to_string(),
            percent(setting.budget_share()),
        ];
        cells.extend(nth(0));
        cells.extend(nth(1));
        cells.push(format!("{} of {}", plans.len(), setting.methods.len()));
        Row::Cells(cells)
    };
    Table {
        title: "Settings, and the fastest methods in each".into(),
        header: vec![
            "network",
            "batch",
            "machine",
            "link",
            "budget",
            "of in-core",
            "fastest",
            "overhead",
            "second",
            "overhead",
            "find a plan",
        ],
        rows: settings.iter().map(row).collect(),
        text_columns: 1,
    }
}

fn searches(sought: Sought, rows: Vec<Row>) -> Table {
    let header = vec![
        "network",
        "machine",
        "method",
        sought.name(),
        "budget, of in-core",
        "time",
        "overhead",
        "samples/s",
        "peak",
    ];
    Table { title: sought.title().into(), header, rows, text_columns: 3 }
}

fn search(search: &Search) -> Row {
    let (network, machine) = search.question();
    let method = &search.method;
    let has_plan = search.found().is_some();
    let found = search.found_text().unwrap_or_else(|| "no plan".into());
    Row::Cells(vec![
        network,
        machine,
        method.method.clone(),
        found,
        or_dash(has_plan.then(|| percent(search.setting.budget_share()))),
        or_dash(method.iteration),
        or_dash(search.overhead().map(|overhead| format!("+{}", percent(overhead)))),
        or_dash(search.throughput().map(|speed| format!("{speed:.1}"))),
        or_dash(method.peak),
    ])
}

fn runs(runs: &[Run]) -> Table {
    let row = |run: &Run| {
        let timeline = &run.timeline;
        let hidden = |lane| {
            let Hidden { copying, hidden } = Hidden::of(timeline, lane);
            if copying.0 == 0 { "-".into() } else { percent(hidden.ratio(copying)) }
        };
        Row::Cells(vec![
            run.title(),
            format!("{:?}", timeline.basis).to_lowercase(),
            timeline.iteration.to_string(),
            timeline.compute_idle().to_string(),
            timeline.peak.to_string(),
            timeline.budget.to_string(),
            hidden(Lane::D2h),
            hidden(Lane::H2d),
        ])
    };
    Table {
        title: "Timelines".into(),
        header: vec![
            "plan",
            "basis",
            "iteration",
            "compute waits",
            "peak",
            "budget",
            "out hidden",
            "in hidden",
        ],
        rows: runs.iter().map(row).collect(),
        text_columns: 2,
    }
}

/// The actions of one plan that differ most from their prediction.
fn differing((predicted, measured): (&Run, &Run)) -> Table {
    let differences = differences(&predicted.timeline, &measured.timeline);
    let row = |difference: &Difference| {
        let sign = if difference.nanos() < 0 { "-" } else { "+" };
        let nanos = u64::try_from(difference.nanos().unsigned_abs()).unwrap_or(u64::MAX);
        Row::Cells(vec![
            difference.label.clone(),
            task_name(difference.task).into(),
            difference.cause.name().into(),
            difference.predicted.to_string(),
            difference.measured.to_string(),
            format!("{sign}{}", Nanos(nanos)),
        ])
    };
    Table {
        title: format!("Predicted against measured, what differs most: {}", measured.title()),
        header: vec![
            "op or tensor",
            "action",
            "likely cause",
            "predicted",
            "measured",
            "difference",
        ],
        rows: differences.iter().take(MOST_DIFFERENT).map(row).collect(),
        text_columns: 3,
    }
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_string(), |value| value.to_string())
}
