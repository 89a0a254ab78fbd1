//! Everything tried on a device, in order of worth, each step in processes of its own.

mod child;
mod document;
mod layers;
mod show;
mod steps;

use std::path::Path;
use std::time::{Duration, Instant};

use planner::{Monitor, Progress};
use runtime::cuda::{Library, devices};
use runtime::profile::processor_name;
use schema::PendingFile;

use crate::page::make_folder;
use crate::{Error, Result};
use steps::steps;

pub use document::{Acceptance, BUNDLED, Status, StepResult};
pub use layers::{Layers, NETWORKS, SMALL, layers};
pub use show::{overview, text};
pub use steps::Step;

/// What the document is called in its folder.
pub const DOCUMENT: &str = "acceptance.json";

/// The steps of these names; without one all that there are.
///
/// # Errors
/// If there is none of a name.
pub fn chosen(on_host_device: bool, names: &[String]) -> Result<Vec<Step>> {
    let mut all = steps(on_host_device);
    if let Some(name) = names.iter().find(|name| all.iter().all(|step| step.name != **name)) {
        let known: Vec<_> = all.iter().map(|step| step.name).collect();
        return Err(Error::NoStep(name.clone(), known.join(", ")));
    }
    all.retain(|step| names.is_empty() || names.iter().any(|name| name == step.name));
    Ok(all)
}

/// Goes through steps, those that `lost` names only to fail, and writes what came of each as soon as it is
/// known, so that what is finished stays usable whatever comes.
///
/// # Errors
/// If it is interrupted, or a file cannot be written.
pub fn take_all(
    steps: &[Step],
    mut document: Acceptance,
    folder: &Path,
    limit: Duration,
    lost: &[String],
    monitor: &dyn Monitor,
) -> Result<Acceptance> {
    let end = Instant::now() + limit;
    for (index, step) in steps.iter().enumerate() {
        let (done, of) = (index as u64, steps.len() as u64);
        let proceeds = || monitor.proceed(Progress { phase: step.name, done, of });
        let left = end.saturating_duration_since(Instant::now());
        let lost = lost.iter().any(|name| name == step.name);
        let limit = step.limit(left, &steps[index..]);
        let result = take(step, &folder.join(step.name), limit, lost, &proceeds);
        if !proceeds() {
            return Err(Error::Acceptance(folder.into()));
        }
        document.put(result);
        let file = |name: &str| PendingFile::create(&folder.join(name));
        file("index.html")?.finish(show::html(&document, folder).as_bytes())?;
        file(DOCUMENT)?.finish(document.to_json().as_bytes())?;
    }
    Ok(document)
}

/// The device's name, or what is missing. Nothing is opened: what this process held of the device, no step
/// would have.
///
/// # Errors
/// If there is no such device.
pub fn device_name(on_host_device: bool) -> Result<String> {
    if on_host_device {
        return Ok(processor_name());
    }
    let all = devices()?;
    Library::Nvrtc.require()?;
    all.first().map(|device| device.name.clone()).ok_or(Error::NoDevice)
}

/// Takes a step: its commands one after the other, until one fails or the time is over.
fn take(
    step: &Step,
    folder: &Path,
    limit: Duration,
    lost: bool,
    proceeds: &dyn Fn() -> bool,
) -> StepResult {
    let begin = Instant::now();
    let mut result = StepResult::new(step.name);
    if step.commands.is_empty() {
        return result.skipped("it is about GPUs");
    }
    if limit < LEAST {
        return result.skipped("no time is left (see --minutes)");
    }
    if let Err(error) = make_folder(folder) {
        return result.failed(error.in_words());
    }
    for command in &step.commands {
        let left = limit.saturating_sub(begin.elapsed());
        match child::run(command, folder, left, lost, proceeds) {
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
