//! `tidegate fit`

use std::path::{Path, PathBuf};

use experiments::fits::fit_models;
use experiments::forecast::{List, fitted, read};
use experiments::page::make_folder;
use experiments::tables::read_parquet;
use experiments::textures::sizes;
use networks::Efficiencies;
use reports::columns;
use schema::{Document, PendingFile};

use crate::exit::{Exit, OrExit, Result, usage};
use crate::output::print;

/// Fit models to samples: of codecs, or the efficiencies that modelled op times rest on
///
/// With recordings: prints how far forecasts of each are off that have not seen its device, or its network on any
/// device; `--efficiencies` of `plan` and `compare` uses the result. With samples of codecs: how far each method is off on
/// samples that it has not seen; `--codec-models` uses the best. With zeros.parquet of `profile --epochs`: SZ's sizes.
#[derive(clap::Args)]
pub struct Args {
    /// A TOML file that names recordings, their machines and their networks, as
    /// networks/efficiency-samples.toml does; or a Parquet file of `sample codecs` or `profile`
    #[arg(value_name = "SAMPLES")]
    samples: PathBuf,

    /// The folder with the recordings [default: that of SAMPLES]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Folder for a plot of predicted against measured times for each codec: samples that the models
    /// have not seen, by each method
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    /// Where to write the efficiencies (.toml), codec models (.json); of zeros.parquet SZ's size model (.json), or
    /// zeros by layer and epoch (.toml)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Fits, shows the residuals and writes.
pub fn run(args: &Args) -> Result {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    if args.samples.extension().is_some_and(|extension| extension == "parquet") {
        return fit_codecs(args, output);
    }
    if args.plots.is_some() {
        return Err(usage("--plots are of samples of codecs: name a Parquet file of them"));
    }
    let list = List::read(&args.samples)?;
    let beside = args.samples.parent().unwrap_or(Path::new("."));
    let folder = args.folder.as_deref().unwrap_or(beside);
    let read = |file: &PathBuf| read(file, &list, None);
    let known = list.files(folder, beside).iter().map(read).collect::<experiments::Result<Vec<_>>>()?;
    let fitted = fitted(&known.concat(), &Efficiencies::assumed());
    output.map(|output| output.finish(fitted.efficiencies.to_toml().as_bytes())).transpose()?;
    print(fitted.text())
}

/// Fits codec models, shows how far each method is off, and writes.
fn fit_codecs(args: &Args, output: Option<PendingFile>) -> Result {
    let (samples, plots) = (args.samples.as_path(), args.plots.as_deref());
    if let Some(sizes) = sizes(samples, args.output.as_deref()) {
        output.map(|output| output.finish(sizes.written.as_bytes())).transpose()?;
        return print(sizes.text);
    }
    plots.map(make_folder).transpose()?;
    let rows = read_parquet(samples).or_exit(Exit::Usage)?;
    let fits = fit_models(&rows, samples)?;
    plots.map(|folder| fits.plot(folder)).transpose()?;
    output.map(|output| output.finish(fits.models.to_json().as_bytes())).transpose()?;
    let table = columns(&fits.table());
    print(format!("relative absolute error on held-out samples; * is used:\n{table}"))
}
