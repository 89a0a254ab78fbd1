//! `tidegate acceptance`

mod child;
mod document;
mod layers;
mod show;
mod steps;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runtime::cuda::{Library, devices};
use runtime::profile::processor_name;
use schema::PendingFile;

use crate::device_args::DeviceKind;
use crate::exit::{Exit, OrExit, Result, WithExit, usage};
use crate::output::print;
use crate::page::make_folder;
use crate::progress::points;
use crate::signals::interrupted;
use document::{Acceptance, Status, StepResult};
use steps::{Step, Work};

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
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = document::BUNDLED, conflicts_with = "list")]
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

/// Goes through the steps.
pub fn run(args: &Args) -> Result {
    if let Some(file) = &args.show {
        let mut document = Acceptance::read(file)?;
        if args.only.is_empty() {
            return print(show::overview(&document));
        }
        document.steps.retain(|step| args.only.contains(&step.name));
        return print(show::text(&document));
    }
    if args.inside {
        return layers::run(args.only == ["sanitizer"]);
    }
    let steps = chosen(args)?;
    if args.list {
        let line = |step: &Step| format!("{:<12} {}\n", step.name, step.about);
        return print(steps.iter().map(line).collect::<String>());
    }
    let Some(folder) = &args.output else { return Err(usage("name a folder with --output")) };
    let device = device(args.kind)?;
    make_folder(folder)?;
    let mut document = Acceptance::new(device);
    if !args.only.is_empty() {
        document.keep(&folder.join(DOCUMENT));
    }
    let bar = points(steps.len());
    let end = Instant::now() + Duration::from_secs_f64(60.0 * args.minutes);
    for (index, step) in steps.iter().enumerate() {
        bar.set_message(step.name);
        let left = end.saturating_duration_since(Instant::now());
        let limit = step.limit(left, &steps[index..]);
        let lost = args.lose.iter().any(|name| name == step.name);
        let result = take(step, &folder.join(step.name), limit, lost);
        if interrupted() {
            let error = anyhow::anyhow!("interrupted: {} has what was done", folder.display());
            return Err(WithExit { exit: Exit::Interrupted, error });
        }
        // As far as it went, so that what is finished stays usable whatever comes.
        document.put(result);
        write(&document, folder)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(show::overview(&document))?;
    let failed = document.steps.iter().filter(|step| step.status == Status::Failed).count();
    match failed {
        0 => Ok(()),
        _ => Err(WithExit {
            exit: Exit::Failed,
            error: anyhow::anyhow!(
                "{failed} of {} steps failed: see {}",
                document.steps.len(),
                folder.join("index.html").display()
            ),
        }),
    }
}

const DOCUMENT: &str = "acceptance.json";

fn chosen(args: &Args) -> Result<Vec<Step>> {
    let all = steps::steps(args.kind);
    if let Some(name) = args.only.iter().find(|name| all.iter().all(|step| step.name != **name)) {
        let names: Vec<_> = all.iter().map(|step| step.name).collect();
        return Err(usage(format!("there is no step `{name}`: name one of {}", names.join(", "))));
    }
    let wanted = |step: &Step| args.only.is_empty() || args.only.iter().any(|n| n == step.name);
    Ok(all.into_iter().filter(wanted).collect())
}

/// The device's name, or what is missing. Nothing is opened: what this process held of the device, no step
/// would have.
fn device(kind: DeviceKind) -> Result<String> {
    match kind {
        DeviceKind::Host => Ok(processor_name()),
        DeviceKind::Cuda => {
            let all = devices().or_exit(Exit::Failed)?;
            Library::Nvrtc.require().or_exit(Exit::Failed)?;
            let first = all.first().map(|device| device.name.clone());
            first
                .ok_or_else(|| anyhow::anyhow!("the NVIDIA driver sees no device"))
                .or_exit(Exit::Failed)
        }
    }
}

/// Takes a step: its commands one after the other, until one fails or the time is over.
fn take(step: &Step, folder: &Path, limit: Duration, lost: bool) -> StepResult {
    let begin = Instant::now();
    let mut result = StepResult::new(step.name);
    let commands = match &step.work {
        Work::Skip(why) => return result.skipped(why),
        _ if limit < LEAST => return result.skipped("no time is left (see --minutes)"),
        Work::Commands(commands) => commands,
    };
    if let Err(error) = make_folder(folder) {
        return result.failed(format!("{:#}", error.error));
    }
    for command in commands {
        let left = limit.saturating_sub(begin.elapsed());
        match child::run(command, folder, left, lost) {
            Ok(Some(figures)) => result.add(command.what, figures),
            Ok(None) => {}
            Err(child::Ended::Absent(why)) => return result.skipped(&why),
            Err(child::Ended::Failed(why, figures)) => {
                if let Some(figures) = figures {
                    result.add(command.what, figures);
                }
                result = result.failed(why);
                break;
            }
        }
    }
    result.seconds = begin.elapsed().as_secs_f64();
    result
}

/// With less, no step begins.
const LEAST: Duration = Duration::from_secs(1);

fn write(document: &Acceptance, folder: &Path) -> Result {
    let file = |name: &str| PendingFile::create(&folder.join(name));
    file("index.html")?.finish(show::html(document, folder).as_bytes())?;
    file(DOCUMENT)?.finish(document.to_json().as_bytes())?;
    Ok(())
}
