//! `tidegate frontier`

use std::path::PathBuf;

use experiments::compare::methods_of;
use experiments::frontier::{Budgets, Drawing, budgets, frontier, is_drawable};
use reports::frontier_table;

use crate::exit::{Exit, Result, ended, usage};
use crate::inputs::{CountArg, ProblemArgs};
use crate::output::Format;
use experiments::percent::Percent;
use crate::progress::Bar;
use crate::signals::interrupted;

/// Plan under many budgets: time against memory, and the least memory for a slowdown
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    problem: ProblemArgs,

    #[command(flatten)]
    count: CountArg,

    /// The methods, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "METHODS")]
    methods: Vec<String>,

    /// Budgets: a list such as `80%,60%,8GB`, or a range of shares of the in-core peak such as
    /// `100%..30%` [default: from 100% down to where a bound shows that no plan fits]
    #[arg(long, value_name = "BUDGETS")]
    budgets: Option<Budgets>,

    /// Distance of the budgets in a range
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    step: Percent,

    /// Also find, to a thousandth of the in-core peak, the smallest budget with which each method
    /// is slower than in core by at most this, such as `5%`
    #[arg(long, value_name = "SHARE")]
    slowdown: Option<Percent>,

    /// Where to draw the curves: a folder for frontier.svg, .png, .txt and .json, which is made
    /// where there is none, or an .svg file
    #[arg(long, short, value_name = "DIR|FILE.svg")]
    output: Option<PathBuf>,

    /// How to print the curves
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Plans every point, shows and draws the curves. Interrupted, it shows what is finished.
pub fn run(args: &Args) -> Result {
    let methods = methods_of(&args.methods, args.problem.codecs.none())?;
    if args.output.as_deref().is_some_and(|path| !is_drawable(path)) {
        return Err(usage("--output: name a folder or an .svg file"));
    }
    let inputs = args.count.of(args.problem.read(None)?, None);
    let budgets = budgets(args.budgets.as_ref(), args.step.0, &inputs)?;
    let pending = args.output.as_deref().map(Drawing::create).transpose()?;
    let slowdown = args.slowdown.map(|percent| percent.0 / 100.0);
    let frontier = frontier(&inputs, &methods, &budgets, slowdown, &Bar::new("frontier"))?;
    let interrupted = interrupted();
    if let (Some(pending), false) = (pending, interrupted) {
        pending.draw(&frontier)?;
    }
    args.format.show(&frontier, || inputs.assumptions() + &frontier_table(&frontier))?;
    if interrupted {
        return Err(ended(Exit::Interrupted, "interrupted; what is finished is shown"));
    }
    match frontier.has_plan() {
        true => Ok(()),
        false => Err(ended(Exit::Infeasible, "no method fits any of these budgets")),
    }
}
