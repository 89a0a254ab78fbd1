//! `tidegate report`

use std::path::PathBuf;

use experiments::page::PendingPage;
use experiments::report::{Traces, add};
use reports::Report;
use schema::{Document, Plan, Timeline, Trace};

use crate::exit::Result;
use crate::inputs::{InPlace, read_trace};
use crate::networks::is_network;
use crate::output::print;
use crate::plan_trace::{own_trace, trace_of};

/// Draw figures, and one page that holds and explains them
#[derive(clap::Args)]
pub struct Args {
    /// Timelines, plans, comparisons (`compare --format json`), studies' result folders or
    /// Parquet files; `-` is the standard input
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,

    /// The trace of plans and timelines, to name tensors and tell what memory holds; repeat it
    /// where they have several. Bundled traces are found without it
    #[arg(long, value_name = "TRACE")]
    trace: Vec<String>,

    /// How in-place ops are taken where TRACE is a recording
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// The folder to write `index.html` and the figures (.svg and .png) into; it is made where
    /// there is none
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
}

/// Reads, draws and writes.
pub fn run(args: &Args) -> Result {
    let page = PendingPage::create(&args.output)?;
    for name in args.trace.iter().filter(|name| !is_network(name)) {
        read_trace(name, args.in_place)?;
    }
    let mut traces = AtHand { names: &args.trace, in_place: args.in_place, found: Vec::new() };
    let mut report = Report::default();
    for input in &args.inputs {
        add(input, &mut traces, &mut report)?;
    }
    let (page, figures) = page.finish(&report)?;
    print(format!("{}: {figures} figures\n", page.display()))
}

/// The traces that are at hand.
struct AtHand<'a> {
    names: &'a [String],
    in_place: InPlace,
    /// Those of the plans so far: a timeline may belong to one of them.
    found: Vec<Trace>,
}

impl Traces for AtHand<'_> {
    /// The trace of a plan: the one named whose times, carried over as the plan says, make it, or
    /// the plan's own.
    fn of_plan(&mut self, plan: &Plan) -> Option<Trace> {
        for name in self.names {
            // Another plan's trace may be none that this plan's settings can be applied to.
            let trace = trace_of(plan, name).ok().filter(|t| t.digest() == plan.trace.digest);
            if let Some(trace) = trace {
                self.found.push(trace.clone());
                return Some(trace);
            }
        }
        let trace = own_trace(plan);
        self.found.extend(trace.clone());
        trace
    }

    /// The trace of a timeline: that of a plan before it, one that is named, or a bundled one.
    fn of_timeline(&mut self, timeline: &Timeline) -> Option<Trace> {
        let is_it = |trace: &Trace| trace.digest() == timeline.trace.digest;
        if let Some(trace) = self.found.iter().find(|trace| is_it(trace)) {
            return Some(trace.clone());
        }
        let named = self.names.iter().filter_map(|name| read_trace(name, self.in_place).ok());
        let bundled = scenarios::traces().filter_map(|name| scenarios::trace(name).ok());
        named.chain(bundled).find(is_it)
    }
}
