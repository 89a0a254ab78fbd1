//! What reports are made from.

mod study;

use std::path::{Path, PathBuf};

use planner::{Limits, NoMonitor};
use profiler::import::InPlaceOps;
use reports::{Comparison, Explanation, Report, Run, Setting};
use schema::file::read_text;
use schema::{Bytes, BytesPerSec, Document, Plan, Timeline, Trace};
use simulator::{check_contract, predict, prove};

use crate::explain::{Subject, explain};
use crate::plan_trace::{own_trace, trace_of};
use crate::sources::read_trace;
use crate::study::{FIGURES, Outcome, Printed, counted};
use crate::tables::read_parquet;
use crate::{Conditions, Error, Inputs, Result};

/// A copy as large as the largest tensors: what a link's bandwidth is called.
const LARGE_COPY: Bytes = Bytes(256 << 20);

/// The traces that are at hand.
pub struct Traces<'a> {
    names: &'a [String],
    in_place: InPlaceOps,
    /// Those of the plans so far: a timeline may belong to one of them.
    found: Vec<Trace>,
}

impl<'a> Traces<'a> {
    /// Those of these names, beside all that are bundled.
    pub fn new(names: &'a [String], in_place: InPlaceOps) -> Self {
        Self { names, in_place, found: Vec::new() }
    }

    /// The trace of a plan: the one named whose times, carried over as the plan says, make it, or
    /// the plan's own.
    fn of_plan(&mut self, plan: &Plan) -> Option<Trace> {
        // Another plan's trace may be none that this plan's settings can be applied to.
        let mut named = self.names.iter().filter_map(|name| trace_of(plan, name).ok());
        let trace = named.find(|t| t.digest() == plan.trace.digest).or_else(|| own_trace(plan));
        self.found.extend(trace.clone());
        trace
    }

    /// The trace of a timeline: that of a plan before it, one that is named, or a bundled one.
    fn of_timeline(&self, timeline: &Timeline) -> Option<Trace> {
        let is_it = |trace: &Trace| trace.digest() == timeline.trace.digest;
        let named = self.names.iter().filter_map(|name| read_trace(name, self.in_place, None).ok());
        let bundled = scenarios::traces().filter_map(|name| scenarios::trace(name).ok());
        self.found.iter().cloned().chain(named).chain(bundled).find(is_it)
    }
}

/// Adds what a file or folder holds: a timeline, a plan, a comparison or a study's results.
///
/// # Errors
/// If it holds none of these, or a plan does not hold.
pub fn add(input: &Path, traces: &mut Traces, report: &mut Report) -> Result<()> {
    let figures = input.join(FIGURES);
    let has_figures = figures.exists();
    if let Some(table) = study_table(input, has_figures)? {
        study::add(read_parquet(&table).map_err(Error::StudyTable)?, report);
        if !has_figures {
            return Ok(());
        }
    }
    let input = if has_figures { &figures } else { input };
    let text = read_text(input)?;
    let header: Header =
        serde_json::from_str(&text).map_err(|error| Error::NotJson(input.into(), error))?;
    match header.format.as_deref() {
        Some(Timeline::FORMAT) => {
            let timeline = Timeline::from_json(&text, input)?;
            let trace = traces.of_timeline(&timeline);
            report.runs.push(Run { timeline, plan: None, trace });
        }
        Some(Plan::FORMAT) => {
            let plan = Plan::from_json(&text, input)?;
            prove(&plan).map_err(|why| Error::UnsafePlan(input.into(), Box::new(why)))?;
            let trace = traces.of_plan(&plan);
            if let Some(trace) = &trace {
                check_contract(&plan, trace)?;
            }
            let timeline = predict(&plan, trace.as_ref());
            // With several plans the tables below are the better place.
            if report.explanations.is_empty() {
                report.explanations.extend(explained(&plan, trace.as_ref())?);
            }
            report.runs.push(Run { timeline, plan: Some(plan), trace });
        }
        None if header.explains.is_some() => {
            let explanation = serde_json::from_str(&text);
            let not = |error| Error::NoExplanation(input.into(), error);
            report.explanations.push(explanation.map_err(not)?);
        }
        None if header.figures.is_some() => {
            let outcome: Outcome =
                serde_json::from_str(&text).map_err(|error| Error::NotJson(input.into(), error))?;
            report.counts.extend(counted(&outcome.figures));
            report.printed.extend(outcome.figures.iter().filter_map(Printed::number));
        }
        None if header.in_core.is_some() && header.methods.is_some() => {
            let comparison: Comparison = serde_json::from_str(&text)
                .map_err(|error| Error::NoComparison(input.into(), error))?;
            report.settings.push(Setting::of(&comparison, bandwidth(&comparison)));
        }
        Some(Trace::FORMAT) => {
            let why = "is a trace: pass a plan or a timeline, and the trace with --trace";
            return Err(no_report(input, why));
        }
        Some(other) => {
            let made_from = "a report is made from timelines, plans, comparisons and studies";
            return Err(no_report(input, &format!("holds {other}: {made_from}")));
        }
        None => {
            let remedy = "write them with `simulate -o`, `plan -o` or `compare --format json`";
            return Err(no_report(input, &format!("is no timeline, plan or comparison: {remedy}")));
        }
    }
    Ok(())
}

fn no_report(input: &Path, why: &str) -> Error {
    Error::NoReport(input.into(), why.into())
}

/// The table of a study's results, where that is what the input names.
fn study_table(input: &Path, has_figures: bool) -> Result<Option<PathBuf>> {
    if !input.is_dir() {
        let is_table = input.extension().is_some_and(|extension| extension == "parquet");
        return Ok(is_table.then(|| input.to_path_buf()));
    }
    let table = input.join("results.parquet");
    if table.exists() || has_figures {
        return Ok(table.exists().then_some(table));
    }
    let why = "holds no results.parquet: pass the folder of a study that has ended";
    Err(no_report(input, why))
}

#[derive(serde::Deserialize)]
struct Header {
    format: Option<String>,
    in_core: Option<serde::de::IgnoredAny>,
    explains: Option<serde::de::IgnoredAny>,
    methods: Option<serde::de::IgnoredAny>,
    figures: Option<serde::de::IgnoredAny>,
}

/// What a plan's memory is made of, where its machine is a bundled one that has not changed since.
fn explained(plan: &Plan, trace: Option<&Trace>) -> Result<Option<Explanation>> {
    let machine = scenarios::machine(&plan.machine.name).ok();
    let machine = machine.filter(|machine| machine.digest() == plan.machine.digest);
    let Some((trace, machine)) = trace.cloned().zip(machine) else { return Ok(None) };
    let about = format!("planned within {}", plan.budget);
    let conditions = Conditions::new(Limits::default(), None);
    let asked = [plan.trace.name.as_str(), plan.machine.name.as_str()];
    let inputs = Inputs::new((trace, about), machine, None, conditions);
    explain(&Subject::Plan(plan), &inputs, asked, &NoMonitor).map(Some)
}

/// The bandwidth from host to device of a comparison's machine, where it is a bundled one that has
/// not changed since.
fn bandwidth(comparison: &Comparison) -> Option<BytesPerSec> {
    let machine = scenarios::machine(&comparison.machine.name).ok()?;
    (machine.digest() == comparison.machine.digest)
        .then(|| BytesPerSec(machine.link.h2d.at(LARGE_COPY).round() as u64))
}
