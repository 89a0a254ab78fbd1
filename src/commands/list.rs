//! `tidegate list`

use planner::methods;
use reports::columns;
use schema::Direction;

use crate::device_args::LibraryArgs;
use crate::exit::Result;
use crate::output::{Format, print, print_json};

/// List what comes with tidegate
#[derive(clap::Args)]
pub struct Args {
    /// What to list
    #[arg(value_enum)]
    what: What,

    /// How to print the list
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    libraries: LibraryArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Machines, for `--machine`.
    Machines,
    /// Links, to be named with a machine as in `titan-v+pcie5`.
    Links,
    /// Methods, for `--method` and `--methods`.
    Methods,
    /// Bundled traces.
    Traces,
    /// Networks, whose traces are modelled for a batch and a machine.
    Networks,
    /// Made-up traces to plan for, to be named as in `family:u-shaped:seed=7,ops=2000`.
    Families,
    /// Bundled studies.
    Studies,
    /// Codecs and how their parameters are written.
    Codecs,
    /// CUDA devices that are here, and NVIDIA's libraries: which files are used, and where what is missing
    /// was looked for.
    Devices,
}

/// One line of a list.
#[derive(serde::Serialize)]
struct Entry {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    figures: Vec<String>,
    description: String,
}

/// Lists.
pub fn run(args: &Args) -> Result {
    let entries = match args.what {
        What::Machines => scenarios::machines().map(machine).collect(),
        What::Links => scenarios::links().map(|(name, link)| self::link(name, &link)).collect(),
        What::Methods => methods::all().iter().map(|m| method(m.as_ref())).collect(),
        What::Traces => scenarios::traces().map(trace).collect::<Result<Vec<_>>>()?,
        What::Networks => networks::networks().map(network).collect(),
        What::Families => planner::families::all().map(family).collect(),
        What::Studies => scenarios::studies().map(study).collect::<Result<Vec<_>>>()?,
        What::Codecs => codecs::all().iter().map(codec).collect(),
        What::Devices => {
            args.libraries.apply();
            let devices = experiments::devices();
            return match args.format {
                Format::Json => print_json(&devices),
                Format::Text => print(devices),
            };
        }
    };
    match args.format {
        Format::Json => print_json(&entries),
        Format::Text => {
            let row = |entry: &Entry| {
                let mut row = vec![entry.name.clone()];
                row.extend(entry.figures.iter().cloned());
                row
            };
            let table = columns(&entries.iter().map(row).collect::<Vec<_>>());
            let lines = table.lines().zip(&entries);
            print(lines.map(|(line, e)| format!("{line}  {}\n", e.description)).collect::<String>())
        }
    }
}

fn figures_of_link(link: &schema::Link) -> Vec<String> {
    let speed = |direction| {
        let size = schema::Bytes(256 << 20);
        let bandwidth = match direction {
            Direction::D2h => link.d2h.at(size),
            Direction::H2d => link.h2d.at(size),
        };
        format!("{:.1}", bandwidth / 1e9)
    };
    let both = format!("{}/{} GB/s", speed(Direction::D2h), speed(Direction::H2d));
    vec![both]
}

fn machine(machine: schema::Machine) -> Entry {
    let mut figures = vec![machine.device.memory.to_string()];
    figures.extend(figures_of_link(&machine.link));
    figures.push(machine.link.name.clone());
    Entry { name: machine.name, figures, description: machine.description }
}

fn link(name: &str, link: &schema::Link) -> Entry {
    let description = format!("{} (out/in)", link.name);
    Entry { name: name.into(), figures: figures_of_link(link), description }
}

fn method(method: &dyn methods::Method) -> Entry {
    let description = format!("{} [{}]", method.about().summary, method.about().source);
    Entry { name: method.name().into(), figures: Vec::new(), description }
}

fn trace(name: &'static str) -> Result<Entry> {
    let trace = crate::inputs::read_trace(name, Default::default())?;
    let in_core = simulator::in_core(&trace);
    let figures = vec![
        format!("{} ops", trace.ops.len()),
        in_core.iteration.to_string(),
        in_core.peak.to_string(),
    ];
    let description = format!("{}, measured on {}", trace.title(), trace.provenance.device);
    Ok(Entry { name: name.into(), figures, description })
}

fn network(network: networks::NetworkInfo) -> Entry {
    let (name, description) = (network.name.into(), network.description.into());
    Entry { name, figures: Vec::new(), description }
}

fn family(family: planner::families::Family) -> Entry {
    let name = format!("family:{}", family.name);
    Entry { name, figures: Vec::new(), description: family.description.into() }
}

fn study(name: &'static str) -> Result<Entry> {
    let study = experiments::study::read(name)?;
    let figures = vec![format!("{} points", study.points().count())];
    Ok(Entry { name: name.into(), figures, description: study.description })
}

fn codec(entry: &codecs::Entry) -> Entry {
    let description = format!("{} [{}]", entry.summary, entry.source);
    Entry { name: entry.form.into(), figures: Vec::new(), description }
}
