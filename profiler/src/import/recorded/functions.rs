//! Tables of op times, as NeuSight's come: one row for each function of a network's graph, with its shapes
//! and what its passes took; of all layers that are alike only one. What whole iterations took stands in a
//! JSON file beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use networks::Function;
use schema::{Nanos, Phase};
use serde::Deserialize;

use super::{Recorded, RecordedOp, dtype_of};
use crate::import::error::ImportError;

/// What iterations took, in milliseconds.
#[derive(Deserialize)]
struct Labels {
    num_layer: u32,
    e2e_latency: f64,
    fw_latency: f64,
    #[serde(default)]
    bwall_latency: f64,
}

/// A row by the names of the columns.
type Row = BTreeMap<String, String>;

pub(super) fn read(
    bytes: &[u8],
    file: &Path,
    labels: Option<&str>,
) -> Result<Recorded, ImportError> {
    let error =
        |place: String, problem: &str| ImportError::Table(file.into(), format!("{place}{problem}"));
    let text = std::str::from_utf8(bytes)
        .map_err(|why| error(String::new(), &format!("it is no text: {why}: copy it again")))?;
    let labels: Option<Labels> = labels.map(serde_json::from_str).transpose().map_err(|why| {
        error("the labels beside it: ".into(), &format!("{why}: copy them again"))
    })?;
    let mut lines = table(text).into_iter();
    let header = lines.next().unwrap_or_default();
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for (number, row) in (1..).zip(lines) {
        if row.len() != header.len() {
            let problem = format!("has {} fields for {} columns", row.len(), header.len());
            return Err(error(format!("row {number}: "), &format!("{problem}: copy it again")));
        }
        rows.push((number, header.iter().cloned().zip(row).collect()));
    }
    // Layers in a list are alike, and the table has as many of them as there are numbers.
    let numbers: BTreeSet<u64> = rows.iter().filter_map(|(_, row)| layer(row)).collect();
    let repeated =
        labels.as_ref().map_or(1, |labels| labels.num_layer) / (numbers.len().max(1) as u32);
    let widest = rows.iter().map(|(_, row)| shape(field(row, "output_shape")));
    let vocabulary =
        widest.filter_map(|shape| shape.last().copied()).filter(|rows| *rows > 8192).max();
    // What it takes to launch an op that has next to nothing to do is the host's, and part of all.
    let of = |names: &[&str]| -> Option<f64> {
        let named = rows.iter().filter(|(_, row)| {
            let function = function(row, 0, false).name;
            names.contains(&function.as_str())
        });
        let mut taken: Vec<f64> =
            named.filter_map(|(_, row)| field(row, "fw_latency").parse().ok()).collect();
        taken.sort_by(f64::total_cmp);
        taken.get(taken.len() / 2).copied()
    };
    let tiny = of(&["ones", "arange", "full", "zeros"]);
    let views = || of(&["view", "permute", "transpose"]).map(|ms| ms + VIEW_MS);
    let host = (tiny.or_else(views).unwrap_or(0.0) - KERNEL_MS).max(0.0);
    let mut ops = Vec::new();
    for (number, row) in &rows {
        let latency = |column: &str| -> Result<f64, ImportError> {
            let stated = field(row, column);
            let read = stated.parse::<f64>().ok().filter(|ms| (0.0..1e9).contains(ms));
            read.ok_or_else(|| {
                error(
                    format!("row {number}: "),
                    &format!("{column} is `{stated}`: state milliseconds"),
                )
            })
        };
        let taken = [latency("fw_latency")?, latency("bw_latency")?, latency("acc_latency")?];
        let passes = function(row, vocabulary.unwrap_or(0), taken[1] > 0.0).passes();
        let times = if layer(row).is_some() { repeated.max(1) } else { 1 };
        let all = [
            (Phase::Forward, passes.forward),
            (Phase::Backward, passes.backward),
            (Phase::Backward, passes.accumulate),
        ];
        for ((phase, works), taken) in all.into_iter().zip(taken) {
            if !works.is_empty() && taken > 0.0 {
                let recorded = Some(millis((taken - host).max(1e-3)));
                ops.push(RecordedOp { phase, works, times, recorded });
            }
        }
    }
    let time = |of: fn(&Labels) -> f64| labels.as_ref().map(of).filter(|ms| *ms > 0.0).map(millis);
    Ok(Recorded {
        kind: "op-times",
        device: None,
        dtype: dtype_of(&ops),
        ops,
        iteration: time(|labels| labels.e2e_latency),
        forward: time(|labels| labels.fw_latency),
        backward: time(|labels| labels.bwall_latency),
        peak: None,
        kernels_only: false,
    })
}

/// What a kernel takes that has nothing to do.
const KERNEL_MS: f64 = 0.003;
/// How much less a view takes than an op with a kernel.
const VIEW_MS: f64 = 0.009;

fn millis(ms: f64) -> Nanos {
    Nanos((ms * 1e6).round() as u64)
}

fn field<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).map_or("", String::as_str)
}

/// The number of the layer of a list that a row is part of: `h.0.` in its target or in the modules around it.
fn layer(row: &Row) -> Option<u64> {
    let mut found = None;
    for text in [field(row, "target"), field(row, "meta")] {
        for part in text.split(['\'', ' ', '(', ',']) {
            let numbers = part.split('.').skip(1).find_map(|part| part.parse::<u64>().ok());
            found = found.or(numbers);
        }
    }
    found
}

fn function(row: &Row, rows: u64, differentiable: bool) -> Function {
    let target = field(row, "target");
    let name = match field(row, "op") {
        // The class of the innermost module around it is its own.
        "call_module" => {
            let class = field(row, "meta").rsplit("<class '").next().unwrap_or("");
            class.split('\'').next().unwrap_or("").rsplit('.').next().unwrap_or("")
        }
        "call_function" => {
            let mut words = target.trim_matches(['<', '>']).split(' ');
            words.by_ref().find(|word| ["function", "method"].contains(word));
            words.next().unwrap_or("")
        }
        "call_method" => target,
        _ => "",
    };
    let skipped = name == "dropout" && field(row, "_kwargs").contains("'p': 0.0");
    let width = match field(row, "dtype") {
        "torch.float16" | "torch.bfloat16" => 2,
        "torch.float64" | "torch.int64" => 8,
        _ => 4,
    };
    Function {
        name: if skipped { "" } else { name }.to_string(),
        inputs: lists(field(row, "input_shapes")),
        contiguous: field(row, "input_contiguous")
            .split(',')
            .map(|of| of.contains("True"))
            .collect(),
        output: shape(field(row, "output_shape")),
        width,
        rows,
        differentiable,
    }
}

/// The first tuple of numbers in a text such as `(2, 512)`.
fn shape(text: &str) -> Vec<u64> {
    let inner = text.trim().trim_start_matches(['(', '[']).split([')', ']']).next().unwrap_or("");
    let read = inner.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::parse);
    read.collect::<Result<_, _>>().unwrap_or_default()
}

/// The shapes in a text such as `[[2, 512], [1]]`.
fn lists(text: &str) -> Vec<Vec<u64>> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    inner.split("],").map(shape).filter(|shape| !shape.is_empty()).collect()
}

/// The fields of comma-separated values: in quotes where they have commas, quotes twice in quotes.
fn table(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            character => field.push(character),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push(row);
    }
    rows
}
