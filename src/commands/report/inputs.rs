//! What a report is made from.

use std::path::{Path, PathBuf};

use anyhow::Context;
use reports::{Comparison, Report, Run, Setting};
use results::read_parquet;
use schema::file::read_text;
use schema::{Bytes, BytesPerSec, Digest, Document, Plan, Timeline, Trace};
use simulator::{predict, prove};

use super::study;
use crate::commands::simulate::check_trace;
use crate::exit::{Exit, OrExit, Result, usage};
use crate::inputs::{InPlace, read_trace};

/// A copy as large as the largest tensors: what a link's bandwidth is called.
const LARGE_COPY: Bytes = Bytes(256 << 20);

/// Reads all inputs.
pub fn read(inputs: &[PathBuf], traces: &[String], in_place: InPlace) -> Result<Report> {
    let traces = traces.iter().map(|name| read_trace(name, in_place)).collect::<Result<_>>()?;
    let mut traces = Traces { given: traces };
    let mut report = Report::default();
    for input in inputs {
        read_one(input, &mut traces, &mut report)?;
    }
    Ok(report)
}

fn read_one(input: &Path, traces: &mut Traces, report: &mut Report) -> Result {
    if let Some(table) = study_table(input)? {
        study::add(read_parquet(&table).or_exit(Exit::Usage)?, report);
        return Ok(());
    }
    let text = read_text(input)?;
    match Kind::of(&text, input)? {
        Kind::Timeline => {
            let timeline = Timeline::from_json(&text, input)?;
            let trace = traces.of(&timeline.trace.digest);
            report.runs.push(Run { timeline, plan: None, trace });
        }
        Kind::Plan => {
            let plan = Plan::from_json(&text, input)?;
            let name = || input.display().to_string();
            prove(&plan).with_context(name).or_exit(Exit::NotProven)?;
            let trace = traces.of(&plan.trace.digest);
            if let Some(trace) = &trace {
                check_trace(&plan, trace)?;
            }
            report.runs.push(Run {
                timeline: predict(&plan, trace.as_ref()),
                plan: Some(plan),
                trace,
            });
        }
        Kind::Comparison => {
            let comparison: Comparison = serde_json::from_str(&text)
                .with_context(|| format!("{} is not a comparison", input.display()))
                .or_exit(Exit::Usage)?;
            report.settings.push(Setting::of(&comparison, bandwidth(&comparison)));
        }
    }
    Ok(())
}

/// The table of a study's results, where that is what the input names.
fn study_table(input: &Path) -> Result<Option<PathBuf>> {
    if !input.is_dir() {
        let is_table = input.extension().is_some_and(|extension| extension == "parquet");
        return Ok(is_table.then(|| input.to_path_buf()));
    }
    let table = input.join("results.parquet");
    if table.exists() {
        return Ok(Some(table));
    }
    Err(usage(format!(
        "{} holds no results.parquet: pass the folder of a study that has ended",
        input.display()
    )))
}

/// What an input's JSON holds.
enum Kind {
    Timeline,
    Plan,
    Comparison,
}

/// The part of an input that tells what it is.
#[derive(serde::Deserialize)]
struct Header {
    format: Option<String>,
    in_core: Option<serde::de::IgnoredAny>,
    methods: Option<serde::de::IgnoredAny>,
}

impl Kind {
    fn of(text: &str, input: &Path) -> Result<Self> {
        let name = input.display();
        let header: Header = serde_json::from_str(text)
            .with_context(|| format!("{name} is not JSON that a report can be made from"))
            .or_exit(Exit::Usage)?;
        match header.format.as_deref() {
            Some(Timeline::FORMAT) => Ok(Self::Timeline),
            Some(Plan::FORMAT) => Ok(Self::Plan),
            Some(Trace::FORMAT) => Err(usage(format!(
                "{name} is a trace: pass a plan or a timeline, and the trace with --trace"
            ))),
            Some(other) => Err(usage(format!(
                "{name} holds {other}: a report is made from timelines, plans, comparisons and \
                 studies"
            ))),
            None if header.in_core.is_some() && header.methods.is_some() => Ok(Self::Comparison),
            None => Err(usage(format!(
                "{name} is no timeline, plan or comparison: write them with `simulate -o`, \
                 `plan -o` or `compare --format json`"
            ))),
        }
    }
}

/// The traces that are at hand.
struct Traces {
    given: Vec<Trace>,
}

impl Traces {
    /// The trace of a digest: of those given or, where none of them is it, of those bundled.
    fn of(&mut self, digest: &Digest) -> Option<Trace> {
        let bundled = || scenarios::traces().filter_map(|name| scenarios::trace(name).ok());
        let given = self.given.iter().find(|trace| trace.digest() == *digest).cloned();
        given.or_else(|| bundled().find(|trace| trace.digest() == *digest))
    }
}

/// The bandwidth from host to device of a comparison's machine, where it is a bundled one that has
/// not changed since.
fn bandwidth(comparison: &Comparison) -> Option<BytesPerSec> {
    let machine = scenarios::machine(&comparison.machine.name).ok()?;
    (machine.digest() == comparison.machine.digest)
        .then(|| BytesPerSec(machine.link.h2d.at(LARGE_COPY).round() as u64))
}
