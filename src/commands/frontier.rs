//! `tidegate frontier`

mod budgets;
mod curves;

use std::path::{Path, PathBuf};

use reports::{Frontier, frontier_figure, frontier_table, png};
use schema::{Document, PendingFile, Reference};

use crate::commands::compare::methods_of;
use crate::exit::{Exit, OrExit, Result, WithExit, usage};
use crate::inputs::{CountArg, Inputs, ProblemArgs};
use crate::output::{Format, print, print_json};
use crate::page::make_folder;
use crate::scatter::Percent;
use crate::signals::interrupted;
use budgets::Budgets;
use curves::Curves;

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
    let is_folder = |path: &Path| path.extension().is_none() || path.is_dir();
    if args.output.as_deref().is_some_and(|path| !is_folder(path) && !is_svg(path)) {
        return Err(usage("--output: name a folder or an .svg file"));
    }
    let inputs = args.problem.read(None)?.counting(args.count.count, None);
    let budgets = budgets::of(args.budgets.as_ref(), args.step, &inputs)?;
    let pending = args.output.as_deref().map(Pending::create).transpose()?;
    let curves = Curves { inputs: &inputs, methods: &methods };
    let points = curves.points(&budgets)?;
    let slowdown = args.slowdown.map(|percent| percent.0 / 100.0);
    let smallest = match slowdown {
        Some(slowdown) => curves.smallest(slowdown, &points)?,
        None => Vec::new(),
    };
    let names = methods.iter().map(|method| method.name().to_string()).collect();
    let frontier = Frontier {
        trace: Reference { name: inputs.trace.title(), digest: inputs.trace.digest() },
        provenance: inputs.trace.provenance.clone(),
        machine: Reference { name: inputs.machine.name.clone(), digest: inputs.machine.digest() },
        in_core: reports::InCore {
            iteration: inputs.in_core.iteration,
            peak: inputs.in_core.peak,
            fixed: inputs.in_core.fixed,
        },
        methods: names,
        points,
        slowdown,
        smallest,
    };
    let interrupted = interrupted();
    if let (Some(pending), false) = (pending, interrupted) {
        pending.draw(&frontier)?;
    }
    show(args.format, &inputs, &frontier)?;
    if interrupted {
        let error = anyhow::anyhow!("interrupted; what is finished is shown");
        return Err(WithExit { exit: Exit::Interrupted, error });
    }
    let plans = frontier.points.iter().flat_map(|point| &point.methods);
    let found = frontier.smallest.iter().any(|found| found.budget.is_some());
    if found || plans.into_iter().any(|method| method.iteration.is_some()) {
        return Ok(());
    }
    let error = anyhow::anyhow!("no method fits any of these budgets");
    Err(WithExit { exit: Exit::Infeasible, error })
}

fn show(format: Format, inputs: &Inputs, frontier: &Frontier) -> Result {
    match format {
        Format::Text => {
            print(inputs.assumptions())?;
            print(frontier_table(frontier))
        }
        Format::Json => print_json(frontier),
    }
}

/// Files that are about to be written.
struct Pending {
    svg: PendingFile,
    /// Of a folder: the table, the figures and the picture once more.
    beside: Option<[PendingFile; 3]>,
}

impl Pending {
    fn create(output: &Path) -> Result<Self> {
        if is_svg(output) {
            return Ok(Self { svg: PendingFile::create(output)?, beside: None });
        }
        make_folder(output)?;
        let file = |name: &str| PendingFile::create(&output.join(name));
        let beside = [file("frontier.txt")?, file("frontier.json")?, file("frontier.png")?];
        Ok(Self { svg: file("frontier.svg")?, beside: Some(beside) })
    }

    /// Writes the plot, and into a folder the table and the figures beside it.
    fn draw(self, frontier: &Frontier) -> Result {
        let figure = frontier_figure(frontier);
        let picture = figure.as_ref().and_then(|figure| figure.pictures.first());
        if let Some([table, json, raster]) = self.beside {
            table.finish(frontier_table(frontier).as_bytes())?;
            let text = serde_json::to_string_pretty(frontier).or_exit(Exit::Failed)?;
            json.finish(format!("{text}\n").as_bytes())?;
            if let Some(picture) = picture {
                raster.finish(&png(picture).or_exit(Exit::Failed)?)?;
            }
        }
        Ok(picture.map_or(Ok(()), |picture| self.svg.finish(picture.svg().as_bytes()))?)
    }
}

fn is_svg(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg")
}
