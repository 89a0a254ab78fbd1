//! A paper's figures as a study's rows predict them.

use std::collections::BTreeMap;

use reports::Status;
use scenarios::{Figure, Of, Paper, Quantity, Study};

use super::printed::{Printed, error};
use crate::tables::Row;

/// Every number that the paper prints, then what the study's other assumptions make of them.
pub fn printed(study: &Study, paper: &Paper, rows: &[Row]) -> Vec<Printed> {
    let (mut base, mut what_ifs) = (Vec::new(), Vec::new());
    for figure in &paper.figures {
        let place = format!("{}: {}", figure.source, figure.what);
        let show = |value: f64| text(figure.quantity, value);
        let predicted = predicted(figure, rows);
        let mut others = Vec::new();
        for what_if in &study.what_ifs {
            let derived = |group: &String| study.derived(group, what_if);
            let groups: Option<Vec<String>> = figure.groups.iter().map(derived).collect();
            let over_group = figure.over_group.as_ref().and_then(derived);
            if groups.is_none() && over_group.is_none() {
                continue;
            }
            let groups = groups.unwrap_or_else(|| figure.groups.clone());
            // What is supposed otherwise may be the method.
            let planned = rows.iter().filter(|row| groups.contains(&row.group));
            let methods: Vec<&String> = planned.map(|row| &row.answer.method).collect();
            let method = match methods.first() {
                Some(other) if !methods.contains(&&figure.method) => (*other).clone(),
                _ => figure.method.clone(),
            };
            let other = Figure {
                groups,
                method,
                over_group: over_group.or_else(|| figure.over_group.clone()),
                ..figure.clone()
            };
            let value = self::predicted(&other, rows);
            others.extend(value.map(|value| (what_if.description.clone(), value)));
        }
        let missing = figure.missing.iter().map(|missing| format!("missing: {missing}"));
        let missing = missing.filter(|_| predicted.is_none());
        let stated = missing.chain(figure.contradicted.clone());
        let (place, values) = ((paper.name.as_str(), place), (figure.printed, predicted));
        let (printed, others) = Printed::with_others(place, values, others, stated, show);
        base.push(Printed { input: figure.input, ..printed });
        what_ifs.extend(others);
    }
    base.append(&mut what_ifs);
    base
}

fn text(quantity: Quantity, value: f64) -> String {
    let (digits, unit) = match quantity {
        Quantity::Throughput => (0, " /s"),
        Quantity::Degradation
        | Quantity::Gain
        | Quantity::Reduction
        | Quantity::Latency
        | Quantity::Saving
        | Quantity::Overhead => (1, " %"),
        Quantity::LessMs => (0, " ms"),
        Quantity::Ratio | Quantity::Spared => (1, "x"),
        Quantity::Speedup | Quantity::Scaling => (2, "x"),
        Quantity::MemoryGb | Quantity::PeakGb | Quantity::RawGb => (2, " GB"),
        Quantity::Unpredicted => return value.to_string(),
        Quantity::Kept
        | Quantity::Swapped
        | Quantity::Recomputed
        | Quantity::Compressed
        | Quantity::Batch => (0, ""),
        Quantity::Runs => return if value == 1.0 { "runs" } else { "fails" }.into(),
        Quantity::Faster => return if value == 1.0 { "faster" } else { "not faster" }.into(),
    };
    format!("{value:.digits$}{unit}")
}

/// What the figure's rows come to.
fn predicted(figure: &Figure, rows: &[Row]) -> Option<f64> {
    let of_rows = (rows.iter())
        .filter(|row| is_of(figure, &figure.groups, row) && row.answer.method == figure.method)
        .filter_map(|row| Some((row.network.as_str(), value(figure, row, rows)?)));
    let mut networks: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    of_rows.for_each(|(network, value)| networks.entry(network).or_default().push(value));
    let values: Vec<f64> = networks.values().flatten().copied().collect();
    let means: Vec<f64> = networks.values().map(|values| mean(values)).collect();
    let off = |value: f64| error(figure.printed, value);
    let farther = |a, b| if off(b) > off(a) { b } else { a };
    match figure.of {
        None => values.into_iter().reduce(farther),
        Some(Of::Lowest) => values.into_iter().reduce(f64::min),
        Some(Of::Highest) => values.into_iter().reduce(f64::max),
        Some(Of::Least) => means.into_iter().reduce(f64::min),
        Some(Of::Most) => means.into_iter().reduce(f64::max),
        Some(Of::Mean) => (!means.is_empty()).then(|| mean(&means)),
        Some(Of::Harmonic) => {
            let shares: Vec<f64> = means.iter().map(|mean| 1.0 / mean).collect();
            (!shares.is_empty()).then(|| 1.0 / mean(&shares))
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn is_of(figure: &Figure, groups: &[String], row: &Row) -> bool {
    // A what-if's may be varied: `pooch-x86+contended`.
    let machine = row.machine.split('+').next().unwrap_or_default();
    let is_named = |name: &String| [machine, &row.machine].contains(&name.as_str());
    groups.contains(&row.group)
        && (figure.machines.is_empty() || figure.machines.iter().any(is_named))
        && (figure.networks.is_empty() || figure.networks.contains(&row.network))
        && (figure.batches.is_empty() || row.batch.is_some_and(|b| figure.batches.contains(&b)))
}

fn value(figure: &Figure, row: &Row, rows: &[Row]) -> Option<f64> {
    match figure.quantity {
        Quantity::Throughput => row.throughput(),
        Quantity::Degradation => row.answer.slowdown.map(|slowdown| 100.0 * (1.0 - 1.0 / slowdown)),
        Quantity::Overhead => row.answer.slowdown.map(|slowdown| 100.0 * (slowdown - 1.0)),
        Quantity::Kept => row.answer.kept.map(|count| count as f64),
        Quantity::Swapped => row.answer.swapped.map(|count| count as f64),
        Quantity::Recomputed => row.answer.recomputed.map(|count| count as f64),
        Quantity::MemoryGb => Some(row.in_core_peak.0 as f64 / 1e9),
        Quantity::Runs => Some(if row.answer.status == Status::Ok { 1.0 } else { 0.0 }),
        Quantity::Compressed => row.answer.compressed.map(|count| count as f64),
        Quantity::Ratio => Some(row.compressed_raw?.0 as f64 / row.compressed_small?.0 as f64),
        Quantity::Batch => row.batch.map(f64::from).filter(|_| row.answer.status == Status::Ok),
        Quantity::PeakGb => row.answer.peak.map(|peak| peak.0 as f64 / 1e9),
        Quantity::Spared => Some(row.in_core_peak.0 as f64 / row.answer.peak?.0 as f64),
        Quantity::RawGb => Some(row.compressed_raw?.0 as f64 / 1e9),
        Quantity::Unpredicted => None,
        Quantity::Gain => Some(100.0 * (speedup(figure, row, rows)? - 1.0)),
        Quantity::Reduction => Some(100.0 * (1.0 - 1.0 / speedup(figure, row, rows)?)),
        Quantity::LessMs => {
            let [other, own] = [compared(figure, row, rows)?, row].map(|row| row.answer.iteration);
            Some((other?.0 as f64 - own?.0 as f64) / 1e6)
        }
        Quantity::Speedup => speedup(figure, row, rows),
        Quantity::Scaling => scaling(figure, row, rows),
        Quantity::Saving => Some(100.0 * (1.0 - 1.0 / scaling(figure, row, rows)?)),
        Quantity::Faster => Some(f64::from(u8::from(speedup(figure, row, rows)? > 1.0))),
        Quantity::Latency => {
            let exposed =
                |row: &Row| Some(row.answer.iteration?.0.checked_sub(row.in_core.0)? as f64);
            let other = exposed(compared(figure, row, rows)?).filter(|other| *other > 0.0)?;
            Some(100.0 * (1.0 - exposed(row)? / other))
        }
    }
}

/// The time of the method that the figure is a ratio to, over the row's.
fn speedup(figure: &Figure, row: &Row, rows: &[Row]) -> Option<f64> {
    Some(compared(figure, row, rows)?.answer.iteration?.ratio(row.answer.iteration?))
}

/// The row's throughput over that of the group that the figure is a ratio to.
fn scaling(figure: &Figure, row: &Row, rows: &[Row]) -> Option<f64> {
    Some(row.throughput()? / compared(figure, row, rows)?.throughput()?)
}

/// The row that the figure holds a row against.
fn compared<'a>(figure: &Figure, row: &Row, rows: &'a [Row]) -> Option<&'a Row> {
    let over = figure.over.as_ref().unwrap_or(&figure.method);
    let groups = figure.over_group.clone().map_or(figure.groups.clone(), |g| vec![g]);
    let same_batch = !matches!(figure.quantity, Quantity::Scaling | Quantity::Saving);
    rows.iter().find(|other| {
        is_of(figure, &groups, other)
            && other.answer.method == *over
            && (figure.over_group.is_some() || other.group == row.group)
            && (&other.network, &other.options) == (&row.network, &row.options)
            && other.machine == row.machine
            && (other.batch == row.batch || !same_batch)
    })
}

#[cfg(test)]
mod tests {
    use reports::MethodResult;
    use schema::Nanos;

    use super::*;

    fn row(group: &str, batch: u32, iteration: u64) -> Row {
        let answer = MethodResult {
            method: "in-core".into(),
            iteration: Some(Nanos(iteration)),
            ..MethodResult::default()
        };
        let (group, batch) = (group.into(), Some(batch));
        Row { group, batch, network: "resnet50".into(), answer, ..Row::default() }
    }

    #[test]
    fn batches_scale_by_the_sample_and_what_was_tried_says_to_what_it_came() {
        let methods = planner::methods::all();
        let methods: Vec<&str> = methods.iter().map(|method| method.name()).collect();
        let study = scenarios::study("comet", &methods).expect("bundled");
        let paper = study.paper.as_ref().expect("it has one");
        let of = |nearer: u64| {
            let rows = [
                row("small", 32, 32_000),
                row("large", 512, 500_000),
                row("small, from-8", 8, nearer),
            ];
            let figure = "ResNet-50, 1 GPU, throughput";
            let all = printed(&study, paper, &rows);
            all.into_iter().find(|printed| printed.figure.contains(figure)).expect("printed")
        };
        let near = of(9_000);
        assert_eq!(near.predicted, Some(512.0 / 500_000.0 * 1000.0));
        assert_eq!(near.reason.as_deref(), Some("batches from 8 on: 1.15x"));
        let far = of(7_000);
        assert_eq!(far.reason.as_deref(), Some("no nearer with batches from 8 on"));
    }
}
