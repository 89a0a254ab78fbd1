//! Fits `efficiencies.toml` on a folder of recordings:
//!
//! ```text
//! cargo run --release -p tidegate-scenarios --example fit_efficiencies -- FOLDER > efficiencies.toml
//! ```
//!
//! The fitted file goes to standard output, how far it leaves each recording to standard error.

use std::error::Error;
use std::path::Path;

use profiler::import::{ImportOptions, import};
use scenarios::{Efficiencies, NetworkOptions, Optimizer, Sample, fit_efficiencies, residual};

/// A file, the network and image that it is a recording of, and where that ran.
type Recording = (&'static str, Option<(&'static str, [u32; 2])>, &'static str);

const RECORDINGS: &[Recording] = &[
    ("vgg16-p100.opgraph.json", Some(("vgg16", [224; 2])), "p100"),
    ("resnet50-p100.opgraph.json", Some(("resnet50", [224; 2])), "p100"),
    ("inceptionv4.dtr.jsonl", Some(("inceptionv4", [299; 2])), "titan-v"),
    ("resnet32.dtr.jsonl", Some(("resnet32", [224; 2])), "titan-v"),
    ("unet.dtr.jsonl", Some(("unet", [416, 608])), "titan-v"),
    ("transformer.dtr.jsonl", None, "titan-v"),
];

/// Batches that the recordings do not state.
const BATCHES: &[(&str, u32)] = &[("inceptionv4", 64), ("resnet32", 56), ("unet", 6)];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder with the recordings")?;
    let mut parts = Vec::new();
    for (file, modelled, machine) in RECORDINGS {
        let path = Path::new(&folder).join(file);
        let text = std::fs::read_to_string(&path)?;
        let recorded = import(&text, &path, None, &ImportOptions::default())?;
        let network = match modelled {
            Some((name, image)) => {
                let stated = BATCHES.iter().find(|(of, _)| of == name).map(|(_, batch)| *batch);
                let options = NetworkOptions {
                    batch: recorded.batch.or(stated).ok_or("no batch")?,
                    image: Some(*image),
                    optimizer: Some(Optimizer::None),
                    pool_indices: file.ends_with(".dtr.jsonl"),
                    ..NetworkOptions::default()
                };
                Some(scenarios::network(name, &options)?)
            }
            None => None,
        };
        parts.push((recorded, network, scenarios::machine(machine)?));
    }
    let samples: Vec<Sample<'_>> = (parts.iter())
        .map(|(recorded, network, machine)| Sample { recorded, network: network.as_ref(), machine })
        .collect();
    let fit = fit_efficiencies(&samples, &Efficiencies::bundled());
    for residual in &fit.residuals {
        eprintln!("{residual}");
    }
    eprintln!("each when fitted on the others:");
    for (index, held_out) in samples.iter().enumerate() {
        let mut others = samples.clone();
        others.remove(index);
        let fit = fit_efficiencies(&others, &Efficiencies::bundled());
        eprintln!("{}", residual(held_out, &fit.efficiencies));
    }
    print!("{}", fit.efficiencies.to_toml());
    Ok(())
}
