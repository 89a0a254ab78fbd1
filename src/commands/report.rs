//! `tidegate report`

mod inputs;
mod study;

use std::path::{Path, PathBuf};

use anyhow::Context;
use reports::{Figure, png};
use schema::PendingFile;

use crate::exit::{Exit, OrExit, Result};
use crate::inputs::InPlace;
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
}

/// Reads, draws and writes.
pub fn run(args: &Args) -> Result {
    let folder = args.output.as_path();
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
        .or_exit(Exit::Failed)?;
    let page = folder.join("index.html");
    let pending = PendingFile::create(&page)?;
    let report = inputs::read(&args.inputs, &args.trace, args.in_place)?;
    let figures = report.figures();
    for figure in &figures {
        write_figure(folder, figure)?;
    }
    // Last, so that a page is there only with all that it speaks of.
    pending.finish(report.html(&figures).as_bytes())?;
    print(format!("{}: {} figures\n", page.display(), figures.len()))
}

/// Writes the pictures of a figure as SVG and PNG.
pub fn write_figure(folder: &Path, figure: &Figure) -> Result {
    for (stem, picture) in figure.files() {
        let write = |extension: &str, bytes: &[u8]| {
            PendingFile::create(&folder.join(format!("{stem}.{extension}")))?.finish(bytes)
        };
        write("svg", picture.svg().as_bytes())?;
        write("png", &png(picture).or_exit(Exit::Failed)?)?;
    }
    Ok(())
}
