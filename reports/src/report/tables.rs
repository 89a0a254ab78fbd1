//! Tables of a report.

use schema::{Lane, Nanos};

use super::hidden::Hidden;
use super::setting::Setting;
use super::table::{Row, Table};
use super::{FEW_SETTINGS, Report, Run, Search, Sought, checks, trainings};
use crate::text::{or_dash, percent, tensors};
use crate::{Difference, MethodResult, Status, differences, task_name};

/// So many actions of a plan are shown with how they differ from their prediction.
const MOST_DIFFERENT: usize = 12;

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = Vec::new();
    if report.settings.len() > FEW_SETTINGS {
        tables.push(settings(&report.settings));
    } else {
        tables.extend(report.settings.iter().map(methods));
    }
    for sought in Sought::ALL {
        let of_kind = report.searches.iter().filter(|search| search.sought == sought);
        tables.push(Table::of(sought.title(), 3, of_kind.map(search)));
    }
    tables.push(runs(&report.runs));
    tables.push(checks::table(&report.checks));
    tables.push(trainings::table(&report.trainings));
    tables.extend(super::runs::pairs(&report.runs).into_iter().map(differing));
    tables.retain(|table| !table.rows.is_empty());
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
    header.extend([
        "peak",
        "kept",
        "swapped",
        "recomputed",
        "copied out",
        "copied in",
        "recomputing",
        "waiting",
    ]);
    Table { title: format!("Methods: {}", setting.title()), header, rows, text_columns: 1 }
}

fn plan(method: &MethodResult, overhead: f64, bound: bool) -> Vec<String> {
    let mut cells =
        vec![method.method.clone(), or_dash(method.iteration), format!("+{}", percent(overhead))];
    cells.extend(bound.then(|| or_dash(method.gap.map(percent))));
    cells.push(or_dash(method.peak));
    cells.extend(method.fates()[..3].iter().map(|(_, count, bytes)| tensors(*count, *bytes)));
    cells.extend([
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
            Some((method, overhead)) => (method.method.clone(), format!("+{}", percent(*overhead))),
            None => ("no plan".into(), "-".into()),
        };
        let (first, second) = (nth(0), nth(1));
        vec![
            ("network", setting.network.clone()),
            ("batch", or_dash(setting.batch)),
            ("machine", setting.machine_and_link()),
            ("link", or_dash(setting.bandwidth)),
            ("budget", setting.budget.to_string()),
            ("of in-core", percent(setting.budget_share())),
            ("fastest", first.0),
            ("overhead", first.1),
            ("second", second.0),
            ("overhead", second.1),
            ("find a plan", format!("{} of {}", plans.len(), setting.methods.len())),
        ]
    };
    Table::of("Settings, and the fastest methods in each", 1, settings.iter().map(row))
}

fn search(search: &Search) -> Vec<(&'static str, String)> {
    let (network, machine) = search.question();
    let method = &search.method;
    let share = search.found().map(|_| percent(search.setting.budget_share()));
    vec![
        ("network", network),
        ("machine", machine),
        ("method", method.method.clone()),
        (search.sought.name(), search.found_text().unwrap_or_else(|| "no plan".into())),
        ("budget, of in-core", or_dash(share)),
        ("time", or_dash(method.iteration)),
        ("overhead", or_dash(search.overhead().map(|overhead| format!("+{}", percent(overhead))))),
        ("samples/s", or_dash(search.throughput().map(|speed| format!("{speed:.1}")))),
        ("peak", or_dash(method.peak)),
    ]
}

fn runs(runs: &[Run]) -> Table {
    let row = |run: &Run| {
        let timeline = &run.timeline;
        let hidden = |lane| {
            let Hidden { copying, hidden } = Hidden::of(timeline, lane);
            if copying.0 == 0 { "-".into() } else { percent(hidden.ratio(copying)) }
        };
        vec![
            ("plan", run.title()),
            ("basis", format!("{:?}", timeline.basis).to_lowercase()),
            ("iteration", timeline.iteration.to_string()),
            ("compute waits", timeline.compute_idle().to_string()),
            ("peak", timeline.peak.to_string()),
            ("budget", timeline.budget.to_string()),
            ("copies out beside compute", hidden(Lane::D2h)),
            ("copies in beside compute", hidden(Lane::H2d)),
        ]
    };
    Table::of("Timelines", 2, runs.iter().map(row))
}

/// The actions of one plan that differ most from their prediction.
fn differing((predicted, measured): (&Run, &Run)) -> Table {
    let differences = differences(&predicted.timeline, &measured.timeline);
    let row = |difference: &Difference| {
        let sign = if difference.nanos() < 0 { "-" } else { "+" };
        let nanos = u64::try_from(difference.nanos().unsigned_abs()).unwrap_or(u64::MAX);
        vec![
            ("op or tensor", difference.label.clone()),
            ("action", task_name(difference.task).into()),
            ("likely cause", difference.cause.name().into()),
            ("predicted", difference.predicted.to_string()),
            ("measured", difference.measured.to_string()),
            ("difference", format!("{sign}{}", Nanos(nanos))),
        ]
    };
    let title = format!("Predicted against measured, what differs most: {}", measured.title());
    Table::of(title, 3, differences.iter().take(MOST_DIFFERENT).map(row))
}
