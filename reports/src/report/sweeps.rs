//! Overhead against what a study varies: the link, the batch, the budget, the host's memory.

use std::collections::BTreeMap;

use super::figure::Figure;
use super::lines::{BOUND, Lines, Point, Series};
use super::setting::Setting;
use super::table::Table;
use crate::text::{percent, short};

/// What is varied while all else stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Varied {
    Bandwidth,
    Batch,
    /// With a budget that is the same share of each batch's in-core peak.
    BatchAtShare,
    Budget,
    HostMemory,
}

impl Varied {
    fn value(self, setting: &Setting) -> Option<f64> {
        match self {
            Self::Bandwidth => setting.bandwidth.map(|bandwidth| bandwidth.as_gb_per_s()),
            Self::Batch | Self::BatchAtShare => setting.batch.map(f64::from),
            Self::Budget => Some(setting.budget_share() * 100.0),
            Self::HostMemory => setting.host_memory.map(|bytes| bytes.0 as f64 / 1e9),
        }
    }

    /// What else a setting says, in words: settings that agree on it lie in one figure.
    fn rest(self, setting: &Setting) -> String {
        let Setting { network, machine, .. } = setting;
        let batch = setting.batch.map_or_else(String::new, |batch| format!(" (batch {batch})"));
        let full = setting.machine_and_link();
        let share = percent(setting.budget_share());
        let anywhere = Setting { host_memory: None, ..setting.clone() }.machine_and_link();
        match self {
            Self::Bandwidth => format!("{network}{batch} on {machine}, {}", setting.budget_text()),
            Self::Batch => format!("{network} on {full}, budget {}", setting.budget),
            Self::BatchAtShare => {
                format!("{network} on {full}, budget {share} of the in-core peak")
            }
            Self::Budget => format!("{network}{batch} on {full}"),
            Self::HostMemory => {
                format!("{network}{batch} on {anywhere}, {}", setting.budget_text())
            }
        }
    }

    /// The end of its figures' id, its name, and its axis.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Bandwidth => ["link", "link bandwidth", "link, host to device (GB/s)"],
            Self::Batch | Self::BatchAtShare => ["batch", "batch", "batch"],
            Self::Budget => ["budget", "budget", "budget, share of the in-core peak (%)"],
            Self::HostMemory => ["host-memory", "host memory", "host memory (GB)"],
        }
    }
}

/// Figures against link bandwidth, batch, budget and host memory, for all settings that differ in
/// one of them. `names` are the methods of the whole report, so that each looks the same in all
/// figures.
pub(super) fn figures(settings: &[Setting], names: &[String]) -> Vec<Figure> {
    let all = sweeps(settings);
    let shown = all.iter().filter(|sweep| sweep.is_shown);
    shown.filter_map(|sweep| sweep.figure(names)).collect()
}

/// What there is no figure against, and sweeps that are left out, each with the reason.
pub(super) fn missing(settings: &[Setting], names: &[String]) -> Vec<(String, String)> {
    let all = sweeps(settings);
    let mut missing = Vec::new();
    for (id, title, plural) in [
        ("link", "Overhead against link bandwidth", "links"),
        ("batch", "Overhead against batch", "batches"),
        ("budget", "Overhead against budget", "budgets"),
        ("host-memory", "Overhead against host memory", "sizes of host memory"),
    ] {
        let of_kind: Vec<&Sweep> =
            all.iter().filter(|sweep| sweep.varied.words()[0] == id).collect();
        let (shown, displaced): (Vec<&Sweep>, _) = of_kind.iter().partition(|s| s.is_shown);
        let mut reasons = Vec::new();
        if of_kind.is_empty() {
            let needs = format!("comparisons or a study over two {plural} or more");
            reasons.push(format!("the inputs hold no data, it needs {needs}"));
        }
        let without = shown.iter().filter(|sweep| sweep.figure(names).is_none()).count();
        if without > 0 {
            reasons.push(format!("{} in which no method finds a plan", series(without)));
        }
        if !displaced.is_empty() {
            reasons.push(format!(
                "{} over two {plural} only, which tells less than the longer ones above; the \
                 table and the results hold the figures",
                series(displaced.len())
            ));
        }
        missing.extend(reasons.into_iter().map(|reason| (title.to_string(), reason)));
    }
    missing
}

fn series(count: usize) -> String {
    if count == 1 { "one series".into() } else { format!("{count} series") }
}

/// Settings that differ in one thing alone.
struct Sweep<'a> {
    varied: Varied,
    rest: String,
    points: Points<'a>,
    /// Two marks tell little, and what a study varies least would fill most of the page: where
    /// there are longer sweeps, these are not shown.
    is_shown: bool,
}

fn sweeps(settings: &[Setting]) -> Vec<Sweep<'_>> {
    let of = |varied| {
        let groups = groups(settings, varied).into_iter();
        groups.map(move |(rest, points)| Sweep { varied, rest, points, is_shown: true })
    };
    let mut all: Vec<_> = of(Varied::Bandwidth).collect();
    let batch: Vec<_> = of(Varied::Batch).collect();
    let at_share = batch.is_empty().then(|| of(Varied::BatchAtShare).collect());
    all.extend(at_share.unwrap_or(batch));
    all.extend(of(Varied::Budget));
    all.extend(of(Varied::HostMemory));
    let most = all.iter().map(|sweep| distinct(&sweep.points)).max().unwrap_or(0);
    for sweep in &mut all {
        sweep.is_shown = distinct(&sweep.points) >= most.min(3);
    }
    all
}

/// A value of what is varied, and the setting in which it has it.
type Points<'a> = Vec<(f64, &'a Setting)>;

/// Settings that agree on all but what is varied, where they differ in that, by what they agree on.
fn groups(settings: &[Setting], varied: Varied) -> Vec<(String, Points<'_>)> {
    let mut groups: BTreeMap<String, Points<'_>> = BTreeMap::new();
    for setting in settings {
        if let Some(value) = varied.value(setting).filter(|value| *value > 0.0) {
            groups.entry(varied.rest(setting)).or_default().push((value, setting));
        }
    }
    groups.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    groups.into_iter().filter(|(_, points)| distinct(points) > 1).collect()
}

/// How many values there are; the points are in order.
fn distinct(points: &[(f64, &Setting)]) -> usize {
    points.chunk_by(|a, b| a.0 == b.0).count()
}

impl Sweep<'_> {
    /// The figure; none where no method finds a plan.
    fn figure(&self, names: &[String]) -> Option<Figure> {
        let Self { varied, rest, points, .. } = self;
        let [id, what, axis] = varied.words();
        let mut series: Vec<Series> = names
            .iter()
            .enumerate()
            .map(|(style, name)| Series { name: name.clone(), style, points: line(name, points) })
            .collect();
        let bounds = points.iter().map(|(x, setting)| {
            let bound = setting.bound.map(|bound| setting.overhead(bound));
            Point::overhead(*x, bound, "bound", &setting.title())
        });
        series.push(Series { name: "bound".into(), style: BOUND, points: bounds.collect() });
        let name = format!("overhead against {what}: {rest}");
        let mut lines = Lines::of_overheads(name, axis, series)?;
        if *varied == Varied::Bandwidth {
            let links = points.iter().map(|(x, setting)| (*x, setting.link_name()));
            lines.names = links.collect();
            lines.names.dedup();
        }
        let table = table(&lines, what);
        let asked = |name: &&str| {
            points.iter().any(|(_, s)| s.methods.iter().any(|method| method.method == **name))
        };
        let shown = |name: &str| lines.series.iter().any(|series| series.name == name);
        let without = names.iter().map(String::as_str).filter(|name| !shown(name)).filter(asked);
        let without: Vec<&str> = without.collect();
        let without = match without.as_slice() {
            [] => String::new(),
            names => format!(" Without any plan: {}.", names.join(", ")),
        };
        Some(Figure::new(
            &format!("overhead-against-{id}"),
            &format!("Overhead against {what}: {rest}"),
            format!(
                "Each mark is a plan made anew for that {what}; lower is better, and lines that \
                 cross tell from where on another method is the better choice. A line ends where its \
                 method finds no plan.{without} No plan can lie below the bound. Predicted; {}.",
                Setting::all_op_times(points.iter().map(|(_, setting)| *setting))
            ),
            vec![lines.picture()],
        )
        .with_table(table))
    }
}

fn table(lines: &Lines, what: &str) -> Table {
    let mut xs: Vec<f64> = lines.series.iter().flat_map(|s| &s.points).map(|p| p.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let row = |x: &f64| {
        let names = lines.names.iter().filter(|(at, _)| at == x).map(|(_, name)| name.as_str());
        let names: Vec<&str> = names.collect();
        let head = match names.as_slice() {
            [] => short(*x),
            names => format!("{} ({})", names.join(", "), short(*x)),
        };
        let cells = lines.series.iter().map(|series| {
            let y = series.points.iter().filter(|point| point.x == *x).find_map(|point| point.y);
            y.map_or("no plan".into(), |y| format!("+{}", percent(y / 100.0)))
        });
        std::iter::once(head).chain(cells).collect()
    };
    let header = std::iter::once(lines.x_axis.clone());
    let header = header.chain(lines.series.iter().map(|series| series.name.clone()));
    let title = format!("Time over the iteration without a memory limit, by {what}");
    Table::across(&title, header.collect(), xs.iter().map(row).collect())
}

fn line(name: &str, points: &[(f64, &Setting)]) -> Vec<Point> {
    let mut line = Vec::new();
    for (x, setting) in points {
        for method in setting.methods.iter().filter(|method| method.method == name) {
            let plan = setting.plans().into_iter().find(|(plan, _)| *plan == method);
            let overhead = plan.map(|(_, overhead)| overhead);
            line.push(Point::overhead(*x, overhead, name, &setting.title()));
        }
    }
    line
}
