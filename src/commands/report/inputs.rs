//! What a report is made from.

use std::path::{Path, PathBuf};

use anyhow::Context;
use reports::{Comparison, Report, Run, Setting};
use results::read_parquet;
use schema::file::read_text;
use schema::{Bytes, BytesPerSec, Document, Plan, Timeline, Trace};
use simulator::{predict, prove};

use super::study;
use crate::commands::simulate::check_trace;
use crate::exit::{Exit, OrExit, Result, usage};
use crate::inputs::{InPlace, read_trace};
use crate::networks::is_network;
use crate::plan_trace::{own_trace, trace_of};

/// A copy as large as the largest tensors: what a link's bandwidth is called.
const LARGE_COPY: Bytes = Bytes(256 << 20);

/// Reads all inputs.
pub fn read(inputs: &[PathBuf], traces: &[String], in_place: InPlace) -> Result<Report> {
    for name in traces.iter().filter(|name| !is_network(name)) {
        read_trace(name, in_place)?;
    }
    let mut traces = Traces { names: traces, in_place, found: Vec::new() };
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
            let trace = traces.of_timeline(&timeline)?;
            report.runs.push(Run { timeline, plan: None, trace });
        }
        Kind::Plan => {
            let plan = Plan::from_json(&text, input)?;
            let name = || input.display().to_string();
            prove(&plan).with_context(name).or_exit(Exit::NotProven)?;
            let trace = traces.of_plan(&plan)?;
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
struct Traces<'a> {
    names: &'a [String],
    in_place: InPlace,
    /// Those of the plans so far: a timeline may belong to one of them.
    found: Vec<Trace>,
}

impl Traces<'_> {
    /// The trace of a plan: the one named whose times, carried over as the plan says, make it, or
    /// the plan's own.
    fn of_plan(&mut self, plan: &Plan) -> Result<Option<Trace>> {
        for name in self.names {
            // Another plan's trace may be none that this plan's settings can be applied to.
            let trace = trace_of(plan, name).ok().filter(|t| t.digest() == plan.trace.digest);
            if let Some(trace) = trace {
                self.found.push(trace.clone());
                return Ok(Some(trace));
            }
        }
        let trace = own_trace(plan);
        self.found.extend(trace.clone());
        Ok(trace)
    }

    /// The trace of a timeline: that of a plan before it, one that is named, or a bundled one.
    fn of_timeline(&mut self, timeline: &Timeline) -> Result<Option<Trace>> {
        let is_it = |trace: &Trace| trace.digest() == timeline.trace.digest;
        if let Some(trace) = self.found.iter().find(|trace| is_it(trace)) {
            return Ok(Some(trace.clone()));
        }
        for name in self.names {
            if let Some(trace) = Some(read_trace(name, self.in_place)?).filter(is_it) {
                return Ok(Some(trace));
            }
        }
        Ok(scenarios::traces().filter_map(|name| scenarios::trace(name).ok()).find(is_it))
    }
}

/// The bandwidth from host to device of a comparison's machine, where it is a bundled one that has
/// not changed since.
fn bandwidth(comparison: &Comparison) -> Option<BytesPerSec> {
    let machine = scenarios::machine(&comparison.machine.name).ok()?;
    (machine.digest() == comparison.machine.digest)
        .then(|| BytesPerSec(machine.link.h2d.at(LARGE_COPY).round() as u64))
}
