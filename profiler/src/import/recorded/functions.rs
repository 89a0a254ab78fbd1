//! Tables of op times, as NeuSight's come: one row for each function of a network's graph, with its shapes
//! and what its passes took; of all layers that are alike only one. What whole iterations took stands in a
//! JSON file beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use networks::Function;
use schema::{Nanos, Phase};
use serde::Deserialize;

use super::ops::{Recorded, RecordedOp, dtype_of};
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
pub(in crate::import) type Row = BTreeMap<String, String>;

pub(in crate::import) struct Table {
    file: PathBuf,
    pub rows: Vec<(usize, Row)>,
    /// How many layers those of the list stand for, each.
    pub copies: u32,
    /// Rows of the tables of embeddings, which no row says.
    vocabulary: u64,
    labels: Option<Labels>,
}

impl Table {
    pub fn read(bytes: &[u8], file: &Path, labels: Option<&str>) -> Result<Self, ImportError> {
        let error = |place: String, problem: &str| {
            ImportError::Table(file.into(), format!("{place}{problem}"))
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|why| error(String::new(), &format!("it is no text: {why}: copy it again")))?;
        let labels: Option<Labels> =
            labels.map(serde_json::from_str).transpose().map_err(|why| {
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
        let layers = labels.as_ref().map_or(1, |labels| labels.num_layer.min(MOST_LAYERS));
        let copies = (layers / (numbers.len().max(1) as u32)).max(1);
        let widest = rows.iter().map(|(_, row)| shape(field(row, "output_shape")));
        let vocabulary =
            widest.filter_map(|shape| shape.last().copied()).filter(|rows| *rows > 8192).max();
        let vocabulary = vocabulary.unwrap_or(0);
        Ok(Self { file: file.to_path_buf(), rows, copies, vocabulary, labels })
    }

    /// What the passes of a row took, and adding gradients to those that were there.
    pub fn latencies(&self, number: usize, row: &Row) -> Result<[Nanos; 3], ImportError> {
        let latency = |column: &str| {
            let stated = field(row, column);
            let read = stated.parse::<f64>().ok().filter(|ms| (0.0..1e9).contains(ms));
            read.map(millis).ok_or_else(|| {
                let problem = format!("row {number}: {column} is `{stated}`: state milliseconds");
                ImportError::Table(self.file.clone(), problem)
            })
        };
        Ok([latency("fw_latency")?, latency("bw_latency")?, latency("acc_latency")?])
    }

    pub fn function(&self, row: &Row, differentiable: bool) -> Function {
        function(row, self.vocabulary, differentiable)
    }

    /// The rows of layers in a list, and of these the last that others take.
    pub fn block(&self) -> (Range<usize>, Option<usize>) {
        let is_layer = |(_, row): &(usize, Row)| layer(row).is_some();
        let Some(first) = self.rows.iter().position(is_layer) else { return (0..0, None) };
        let end = self.rows.iter().rposition(is_layer).map_or(first, |last| last + 1);
        let after: String = self.rows[end..].iter().map(|(_, row)| field(row, "_args")).collect();
        let words: BTreeSet<&str> =
            after.split(|of: char| !of.is_alphanumeric() && of != '_').collect();
        let last = (first..end).rev().find(|row| words.contains(field(&self.rows[*row].1, "Name")));
        (first..end, last)
    }

    /// The rows in the order in which they run, each with the number of its copy.
    pub fn order(&self) -> Vec<(usize, u32)> {
        let (block, _) = self.block();
        let once = |rows: Range<usize>| rows.map(|row| (row, 0));
        let copies = (0..self.copies).flat_map(|copy| block.clone().map(move |row| (row, copy)));
        once(0..block.start).chain(copies).chain(once(block.end..self.rows.len())).collect()
    }
}

pub(super) fn read(
    bytes: &[u8],
    file: &Path,
    labels: Option<&str>,
) -> Result<Recorded, ImportError> {
    let table = Table::read(bytes, file, labels)?;
    let (rows, labels) = (&table.rows, &table.labels);
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
    let host = millis((tiny.or_else(views).unwrap_or(0.0) - KERNEL_MS).max(0.0));
    let mut ops = Vec::new();
    for (number, row) in rows {
        let taken = table.latencies(*number, row)?;
        let passes = table.function(row, taken[1] > Nanos::ZERO).passes();
        let times = if layer(row).is_some() { table.copies } else { 1 };
        let all = [
            (Phase::Forward, passes.forward),
            (Phase::Backward, passes.backward),
            (Phase::Backward, passes.accumulate),
        ];
        for ((phase, works), taken) in all.into_iter().zip(taken) {
            if !works.is_empty() && taken > Nanos::ZERO {
                let recorded = Some(Nanos(taken.0.saturating_sub(host.0).max(1000)));
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
        peak_from_nothing: false,
        kernels_only: false,
    })
}

/// More layers than any network has.
const MOST_LAYERS: u32 = 1000;
/// What a kernel takes that has nothing to do.
const KERNEL_MS: f64 = 0.003;
/// How much less a view takes than an op with a kernel.
const VIEW_MS: f64 = 0.009;

fn millis(ms: f64) -> Nanos {
    Nanos((ms * 1e6).round() as u64)
}

pub(in crate::import) fn field<'a>(row: &'a Row, column: &str) -> &'a str {
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
