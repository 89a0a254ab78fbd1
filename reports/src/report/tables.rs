//! Tables of a report.

use schema::{Bytes, Lane, Nanos, Task};

use super::hidden::Hidden;
use super::inputs::{FEW_SETTINGS, Report, methods_of};
use super::runs::{FEW_RUNS, Run};
use super::searches::{Search, Sought};
use super::setting::Setting;
use super::table::{Row, Table};
use super::{checks, trainings};
use crate::text::{or_dash, percent, tensors};
use crate::{Difference, MethodResult, Status, differences, task_name};

/// So many actions of a plan are shown with how they differ from their prediction.
const MOST_DIFFERENT: usize = 12;

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = Vec::new();
    if report.settings.len() > FEW_SETTINGS {
        tables.push(settings(&report.settings));
    } else {
        tables.extend((report.settings.len() > 1).then(|| settings_beside(&report.settings)));
        tables.extend(report.settings.iter().map(methods));
    }
    for sought in Sought::ALL {
        let of_kind = report.searches.iter().filter(|search| search.sought == sought);
        tables.push(Table::of(sought.title(), 3, of_kind.map(search)));
    }
    tables.push(if report.runs.len() <= FEW_RUNS {
        runs_beside(&report.runs)
    } else {
        runs(&report.runs)
    });
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
    let mut header = vec!["method", "time", "slowdown"];
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
    let header = header.into_iter().map(String::from).collect();
    Table { title: format!("Methods: {}", setting.title()), header, rows, text_columns: 1 }
}

/// Each method's time in a few settings, a column each; of two, also the second over the first.
fn settings_beside(settings: &[Setting]) -> Table {
    let names = methods_of(settings.iter());
    let mut header = vec!["time of an iteration".to_string()];
    header.extend(settings.iter().map(Setting::title));
    header.extend((settings.len() == 2).then(|| "second over first".into()));
    let rows = names.into_iter().map(|name| {
        let time = |setting: &Setting| {
            setting.methods.iter().find(|method| method.method == name).and_then(|m| m.iteration)
        };
        let times: Vec<Option<Nanos>> = settings.iter().map(time).collect();
        let mut row = vec![name];
        row.extend(times.iter().map(|time| time.map_or("no plan".into(), |t| t.to_string())));
        if let [first, second] = times[..] {
            let ratio = first.zip(second).map(|(first, second)| second.ratio(first));
            row.push(or_dash(ratio.map(|ratio| format!("{ratio:.3}x"))));
        }
        row
    });
    Table::across("Settings side by side", header, rows.collect())
}

/// A few runs, a column each; of two, also the second over the first.
fn runs_beside(runs: &[Run]) -> Table {
    let mut header = vec![String::new()];
    header.extend(runs.iter().map(|run| run.timeline.title()));
    header.extend((runs.len() == 2).then(|| "second over first".into()));
    let copied =
        |run: &Run, lane: Lane| run.timeline.on(lane).map(|interval| interval.bytes).sum::<Bytes>();
    let recomputing = |run: &Run| run.timeline.time_of(|i| matches!(i.task, Task::Recompute(_)));
    let time = |name: &str, of: &dyn Fn(&Run) -> Nanos| {
        let times: Vec<Nanos> = runs.iter().map(of).collect();
        row(name, times.iter().map(|time| (time.0, time.to_string())).collect())
    };
    let bytes = |name: &str, of: &dyn Fn(&Run) -> Bytes| {
        let all: Vec<Bytes> = runs.iter().map(of).collect();
        row(name, all.iter().map(|bytes| (bytes.0, bytes.to_string())).collect())
    };
    let words = |name: &str, of: &dyn Fn(&Run) -> String| {
        let cells = runs.iter().map(of).chain((runs.len() == 2).then(String::new));
        std::iter::once(name.to_string()).chain(cells).collect()
    };
    let beside = |run: &Run, lane| Hidden::of(&run.timeline, lane).text();
    let rows = vec![
        words("basis", &|run| format!("{:?}", run.timeline.basis).to_lowercase()),
        time("iteration", &|run| run.timeline.iteration),
        time("recomputing", &recomputing),
        time("compute waits", &|run| run.timeline.compute_idle()),
        bytes("peak", &|run| run.timeline.peak),
        bytes("budget", &|run| run.timeline.budget),
        bytes("copied out", &|run| copied(run, Lane::D2h)),
        words("of that beside compute", &|run| beside(run, Lane::D2h)),
        bytes("copied in", &|run| copied(run, Lane::H2d)),
        words("of that beside compute", &|run| beside(run, Lane::H2d)),
    ];
    let rows = if runs.is_empty() { Vec::new() } else { rows };
    Table::across(if runs.len() > 1 { "Side by side" } else { "The plan" }, header, rows)
}

/// A row of figures; of two, also the second over the first.
fn row(name: &str, cells: Vec<(u64, String)>) -> Vec<String> {
    let ratio = match cells.as_slice() {
        [(0, _), _] => Some("-".into()),
        [(first, _), (second, _)] => Some(format!("{:.3}x", *second as f64 / *first as f64)),
        _ => None,
    };
    let cells = cells.into_iter().map(|(_, text)| text);
    std::iter::once(name.to_string()).chain(cells).chain(ratio).collect()
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
        vec![
            ("plan", timeline.title()),
            ("basis", format!("{:?}", timeline.basis).to_lowercase()),
            ("iteration", timeline.iteration.to_string()),
            ("compute waits", timeline.compute_idle().to_string()),
            ("peak", timeline.peak.to_string()),
            ("budget", timeline.budget.to_string()),
            ("copies out beside compute", Hidden::of(timeline, Lane::D2h).text()),
            ("copies in beside compute", Hidden::of(timeline, Lane::H2d).text()),
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
    let title =
        format!("Predicted against measured, what differs most: {}", measured.timeline.title());
    Table::of(title, 3, differences.iter().take(MOST_DIFFERENT).map(row))
}
