//! `tidegate acceptance`

use std::path::PathBuf;
use std::time::Duration;

use experiments::acceptance::{
    self, Acceptance, BUNDLED, DOCUMENT, NETWORKS, SMALL, Step, layers, overview,
};
use experiments::page::make_folder;
use experiments::recipes::computing;

use crate::device_args::DeviceKind;
use crate::exit::{Result, usage};
use crate::output::{print, print_json};
use crate::progress::Bar;
use crate::subject::Subject;

/// Try everything on a device, in order of worth, each step in processes of its own, and write what came
/// of it: one document, the recordings that were made, and a page
#[derive(clap::Args)]
pub struct Args {
    /// What measures and runs
    #[arg(long = "device", value_enum, default_value_t)]
    kind: DeviceKind,

    /// The folder to write acceptance.json, index.html and a folder of each step into; it is made where
    /// there is none
    #[arg(long, short, value_name = "DIR", required_unless_present_any = ["list", "show"])]
    output: Option<PathBuf>,

    /// Minutes in which it is to end: steps that time does not reach are left away
    #[arg(long, value_name = "COUNT", default_value_t = 8.0, value_parser = minutes)]
    minutes: f64,

    /// Take this step alone; repeat it for several. What acceptance.json has of others stays there
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,

    /// List the steps, and do nothing
    #[arg(long)]
    list: bool,

    /// Show such a document instead: a file, or the one that comes with tidegate, which is h100. With
    /// --only, the figures of those steps
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = BUNDLED, conflicts_with = "list")]
    show: Option<PathBuf>,

    /// Do what a step does in a process, in this one
    #[arg(long, hide = true)]
    inside: bool,

    /// Make a step fail, to see what becomes of the others
    #[arg(long, hide = true, value_name = "STEP")]
    lose: Vec<String>,
}

fn minutes(text: &str) -> std::result::Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.01..=1440.0).contains(minutes));
    minutes.ok_or_else(|| "write minutes, such as 8 or 0.5, at most a day".into())
}

pub fn run(args: &Args) -> Result {
    if let Some(file) = &args.show {
        let mut document = Acceptance::read(file)?;
        if args.only.is_empty() {
            return print(overview(&document));
        }
        document.steps.retain(|step| args.only.contains(&step.name));
        return print(acceptance::text(&document));
    }
    if args.inside {
        return compare_layers(if args.only == ["sanitizer"] { &SMALL } else { &NETWORKS });
    }
    let is_host = args.kind == DeviceKind::Host;
    let steps = acceptance::chosen(is_host, &args.only)?;
    if args.list {
        let line = |step: &Step| format!("{:<12} {}\n", step.name, step.about);
        return print(steps.iter().map(line).collect::<String>());
    }
    let Some(folder) = &args.output else { return Err(usage("name a folder with --output")) };
    let mut document = Acceptance::new(acceptance::device_name(is_host)?);
    make_folder(folder)?;
    if !args.only.is_empty() {
        document.keep(&folder.join(DOCUMENT));
    }
    let limit = Duration::from_secs_f64(60.0 * args.minutes);
    let document =
        acceptance::take_all(&steps, document, folder, limit, &args.lose, &Bar::new("acceptance"))?;
    print(overview(&document))?;
    Ok(document.end(folder)?)
}

/// The step that holds every layer on a GPU to the host's, in this process.
fn compare_layers(networks: &[&str]) -> Result {
    let network = |text: &&str| {
        let subject: Subject = text.parse().map_err(usage)?;
        Ok((text.to_string(), computing(&subject.recipe()?)?))
    };
    let found = layers(&networks.iter().map(network).collect::<Result<Vec<_>>>()?)?;
    print_json(&found)?;
    Ok(found.end()?)
}
