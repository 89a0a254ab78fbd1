//! `tidegate report`

use std::path::PathBuf;

use experiments::page::{PendingPage, pdf};
use experiments::report::{Traces, add};
use reports::Report;

use crate::exit::Result;
use crate::inputs::{InPlace, read_trace};
use crate::networks::is_network;
use crate::output::print;

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

    /// Also print the page into `index.pdf`; needs Chromium
    #[arg(long)]
    pdf: bool,
}

pub fn run(args: &Args) -> Result {
    let page = PendingPage::create(&args.output)?;
    for name in args.trace.iter().filter(|name| !is_network(name)) {
        read_trace(name, args.in_place, None)?;
    }
    let mut traces = Traces::new(&args.trace, args.in_place.into());
    let mut report = Report::default();
    for input in &args.inputs {
        add(input, &mut traces, &mut report)?;
    }
    let (page, figures) = page.finish(&report)?;
    args.pdf.then(|| pdf(&page)).transpose()?;
    let counts: String = report.counts.iter().map(|count| format!("{count}\n")).collect();
    print(format!("{counts}{}: {figures} figures\n", page.display()))
}
