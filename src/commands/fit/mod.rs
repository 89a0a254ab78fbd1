//! `tidegate fit`

pub mod codecs;

use std::path::{Path, PathBuf};

use anyhow::Context;
use networks::{Efficiencies, Network, Sample, fit_efficiencies, residual};
use schema::{Machine, PendingFile, Trace, file::read_text};
use serde::Deserialize;

use crate::exit::{Exit, OrExit, Result, usage};
use crate::inputs::{InPlace, read_machine, read_trace};
use crate::networks::read_network;
use crate::output::print;
use crate::stated_options::StatedOptions;

/// Fit models to samples: of codecs, or the efficiencies that modelled op times rest on
///
/// With recordings: prints how far the fit leaves each, and how far it would be off had it not seen
/// that one; `--efficiencies` of `plan` and `compare` uses the result. With samples of codecs:
/// prints how far each method is off on samples that it has not seen, and uses the best;
/// `--codec-models` uses the result.
#[derive(clap::Args)]
pub struct Args {
    /// A TOML file that names recordings, their machines and their networks, as
    /// networks/efficiency-samples.toml does; or a Parquet file that `sample codecs` wrote
    #[arg(value_name = "SAMPLES")]
    samples: PathBuf,

    /// The folder with the recordings [default: that of SAMPLES]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Folder for a plot of predicted against measured times for each codec: samples that the models
    /// have not seen, by each method
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    /// Where to write the efficiencies (.toml) or the codec models (.json)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Samples {
    recording: Vec<Recording>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    /// A recording or trace, in the folder.
    file: String,
    /// What it ran on.
    machine: String,
    /// What it is of; absent: only ops that tell their work by themselves count.
    network: Option<String>,
    /// Options of the network; its batch where the recording does not state one.
    #[serde(default)]
    options: StatedOptions,
}

/// Fits, shows the residuals and writes.
pub fn run(args: &Args) -> Result {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    if args.samples.extension().is_some_and(|extension| extension == "parquet") {
        return codecs::run(&args.samples, output, args.plots.as_deref());
    }
    if args.plots.is_some() {
        return Err(usage("--plots are of samples of codecs: name a Parquet file of them"));
    }
    let text = read_text(&args.samples)?;
    let samples: Samples = toml::from_str(&text)
        .with_context(|| format!("{} is no list of recordings", args.samples.display()))
        .or_exit(Exit::Usage)?;
    let beside = args.samples.parent().unwrap_or(Path::new("."));
    let folder = args.folder.as_deref().unwrap_or(beside);
    let read = samples.recording.iter().map(|recording| recording.read(folder));
    let read: Vec<(Trace, Option<Network>, Machine)> = read.collect::<Result<_>>()?;
    let samples: Vec<Sample<'_>> = (read.iter())
        .map(|(recorded, network, machine)| Sample { recorded, network: network.as_ref(), machine })
        .collect();
    let fit = fit_efficiencies(&samples, &Efficiencies::bundled());
    if let Some(output) = output {
        output.finish(fit.efficiencies.to_toml().as_bytes())?;
    }
    print("fitted on all:\n")?;
    for residual in &fit.residuals {
        print(format!("  {residual}\n"))?;
    }
    print("each when fitted on the others:\n")?;
    for (index, held_out) in samples.iter().enumerate() {
        let mut others = samples.clone();
        others.remove(index);
        let fit = fit_efficiencies(&others, &Efficiencies::bundled());
        print(format!("  {}\n", residual(held_out, &fit.efficiencies)))?;
    }
    Ok(())
}

impl Recording {
    fn read(&self, folder: &Path) -> Result<(Trace, Option<Network>, Machine)> {
        let path = folder.join(&self.file);
        let trace = read_trace(&path.to_string_lossy(), InPlace::AsRecorded)?;
        let machine = read_machine(&self.machine)?;
        let Some(network) = &self.network else { return Ok((trace, None, machine)) };
        let Some(batch) = trace.batch.or(self.options.batch) else {
            return Err(usage(format!(
                "{} does not state its batch: give it as options = {{ batch = N }}",
                self.file
            )));
        };
        let network = read_network(network, &self.options.options(batch))?;
        Ok((trace, Some(network), machine))
    }
}
