//! A paper's figures beside those that a study predicts.

use std::collections::BTreeMap;

use crate::tables::Row;
use reports::{Status, columns};
use scenarios::{Figure, Of, Paper, Quantity};

/// Figures that differ by more than this share are marked.
const TOLERANCE: f64 = 0.15;

/// The table, and under it what is known of the figures that differ.
pub fn side_by_side(paper: &Paper, rows: &[Row]) -> String {
    let mut lines = vec![["figure", "paper", "predicted", ""].map(String::from).to_vec()];
    let (mut notes, mut differ): (Vec<(&str, Vec<usize>)>, usize) = (Vec::new(), 0);
    for (number, figure) in (1..).zip(&paper.figures) {
        let verdict = Verdict::of(figure, rows);
        let mark = match verdict {
            Verdict::Holds(_) if figure.conditions_not_printed => {
                "overlaps; the paper does not print the conditions".into()
            }
            Verdict::Holds(_) => String::new(),
            Verdict::Differs(_) | Verdict::NoPlan => {
                differ += 1;
                let reason = figure.reason.as_deref().unwrap_or("the reason is not known");
                match notes.iter_mut().find(|(other, _)| *other == reason) {
                    Some((_, numbers)) => numbers.push(number),
                    None => notes.push((reason, vec![number])),
                }
                format!("differs [{number}]")
            }
        };
        lines.push(vec![figure.what.clone(), figure.paper.clone(), verdict.text(figure), mark]);
    }
    let count = paper.figures.len();
    let percent = TOLERANCE * 100.0;
    let mut text =
        format!("\n{}, beside what is predicted here:\n\n{}", paper.title, columns(&lines));
    text.push_str(&format!(
        "\n{differ} of {count} figures differ by more than {percent:.0} %, or have no plan\n"
    ));
    for (reason, numbers) in &notes {
        let numbers: Vec<String> = numbers.iter().map(|number| format!("[{number}]")).collect();
        text.push_str(&format!("  {} {reason}\n", numbers.join(" ")));
    }
    text
}

/// The least and the greatest predicted value, and whether the paper's agree.
enum Verdict {
    Holds((f64, f64)),
    Differs((f64, f64)),
    /// There is nothing to compare, since the method has no plan.
    NoPlan,
}

impl Verdict {
    fn of(figure: &Figure, rows: &[Row]) -> Self {
        let values = values(figure, rows);
        let least = values.iter().copied().reduce(f64::min);
        let greatest = values.iter().copied().reduce(f64::max);
        let (Some(least), Some(greatest)) = (least, greatest) else { return Self::NoPlan };
        let off = |predicted: f64, paper: f64| (predicted - paper).abs() > TOLERANCE * paper.abs();
        let differs = match (figure.low, figure.high) {
            (Some(low), Some(high)) if figure.conditions_not_printed => {
                least > high * (1.0 + TOLERANCE) || greatest < low * (1.0 - TOLERANCE)
            }
            (Some(low), Some(high)) => off(least, low) || off(greatest, high),
            (Some(low), None) => least < low && off(least, low),
            (None, Some(high)) => greatest > high && off(greatest, high),
            (None, None) => false,
        };
        if differs { Self::Differs((least, greatest)) } else { Self::Holds((least, greatest)) }
    }

    fn text(&self, figure: &Figure) -> String {
        let (Self::Holds((least, greatest)) | Self::Differs((least, greatest))) = *self else {
            return "no plan".into();
        };
        let (digits, unit) = match figure.quantity {
            Quantity::Throughput => (0, " /s"),
            Quantity::Degradation | Quantity::Gain | Quantity::Reduction => (1, " %"),
            Quantity::Ratio => (1, "x"),
            Quantity::Speedup => (2, "x"),
            Quantity::Kept
            | Quantity::Swapped
            | Quantity::Recomputed
            | Quantity::Compressed
            | Quantity::Batch
            | Quantity::FeatureMaps => (0, ""),
            Quantity::MemoryGb | Quantity::PeakGb => (2, " GB"),
            Quantity::PlanSeconds => (2, " s"),
            Quantity::Runs => {
                let all = |wanted: f64| least == wanted && greatest == wanted;
                return match (all(1.0), all(0.0)) {
                    (true, _) => "runs".into(),
                    (_, true) => "fails".into(),
                    _ => "runs or fails".into(),
                };
            }
        };
        let (least, greatest) = (format!("{least:.digits$}"), format!("{greatest:.digits$}"));
        match least == greatest {
            true => format!("{least}{unit}"),
            false => format!("{least} to {greatest}{unit}"),
        }
    }
}

/// What the figure's rows predict: a value each, or what is to be made of them.
fn values(figure: &Figure, rows: &[Row]) -> Vec<f64> {
    let of_rows = (rows.iter())
        .filter(|row| is_of(figure, &figure.groups, row) && row.answer.method == figure.method)
        .filter_map(|row| Some((row.network.as_str(), value(figure, row, rows)?)));
    let Some(of) = figure.of else { return of_rows.map(|(_, value)| value).collect() };
    let mut networks: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    of_rows.for_each(|(network, value)| networks.entry(network).or_default().push(value));
    let means = networks.values().map(|values| mean(values));
    match of {
        Of::Most => means.reduce(f64::max).into_iter().collect(),
        Of::Mean => {
            let means: Vec<f64> = means.collect();
            (!means.is_empty()).then(|| mean(&means)).into_iter().collect()
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn is_of(figure: &Figure, groups: &[String], row: &Row) -> bool {
    groups.contains(&row.group)
        && (figure.machines.is_empty() || figure.machines.contains(&row.machine))
        && (figure.networks.is_empty() || figure.networks.contains(&row.network))
        && (figure.batches.is_empty() || row.batch.is_some_and(|b| figure.batches.contains(&b)))
}

fn value(figure: &Figure, row: &Row, rows: &[Row]) -> Option<f64> {
    let sum = || Some((row.answer.kept? + row.answer.swapped? + row.answer.recomputed?) as f64);
    match figure.quantity {
        Quantity::Throughput => row.throughput(),
        Quantity::Degradation => row.answer.slowdown.map(|slowdown| 100.0 * (1.0 - 1.0 / slowdown)),
        Quantity::Kept => row.answer.kept.map(|count| count as f64),
        Quantity::Swapped => row.answer.swapped.map(|count| count as f64),
        Quantity::Recomputed => row.answer.recomputed.map(|count| count as f64),
        Quantity::FeatureMaps => sum(),
        Quantity::MemoryGb => Some(row.in_core_peak.0 as f64 / 1e9),
        Quantity::Runs => Some(if row.answer.status == Status::Ok { 1.0 } else { 0.0 }),
        Quantity::PlanSeconds => row.answer.plan_seconds,
        Quantity::Compressed => row.answer.compressed.map(|count| count as f64),
        Quantity::Ratio => Some(row.compressed_raw?.0 as f64 / row.compressed_small?.0 as f64),
        Quantity::Batch => row.batch.map(f64::from).filter(|_| row.answer.status == Status::Ok),
        Quantity::PeakGb => row.answer.peak.map(|peak| peak.0 as f64 / 1e9),
        Quantity::Gain => Some(100.0 * (speedup(figure, row, rows)? - 1.0)),
        Quantity::Reduction => Some(100.0 * (1.0 - 1.0 / speedup(figure, row, rows)?)),
        Quantity::Speedup => speedup(figure, row, rows),
    }
}

/// The time of the method that the figure is a ratio to, over the row's.
fn speedup(figure: &Figure, row: &Row, rows: &[Row]) -> Option<f64> {
    let over = figure.over.as_ref().unwrap_or(&figure.method);
    let groups = figure.over_group.clone().map_or(figure.groups.clone(), |g| vec![g]);
    let other = rows.iter().find(|other| {
        is_of(figure, &groups, other)
            && other.answer.method == *over
            && (figure.over_group.is_some() || other.group == row.group)
            && (&other.network, &other.options) == (&row.network, &row.options)
            && (&other.machine, other.batch) == (&row.machine, row.batch)
    })?;
    Some(other.answer.iteration?.ratio(row.answer.iteration?))
}
