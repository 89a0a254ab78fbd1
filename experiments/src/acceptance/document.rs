//! What was tried on a device, and what came of it.

use std::collections::BTreeMap;
use std::path::Path;

use schema::file::read_text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Result};

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The device's name, as its driver has it.
    pub device: String,
    /// The day, such as 2026-11-22.
    pub date: String,
    /// The version of tidegate.
    pub version: String,
    /// The steps, in the order in which they were taken.
    pub steps: Vec<StepResult>,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The step.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Why it failed or was left away.
    pub reason: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// What its commands printed, by what they are for.
    pub figures: BTreeMap<String, Value>,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Everything in it was done and held.
    Ok,
    /// Something failed.
    Failed,
    /// It was left away.
    Skipped,
}

/// The name of that of a GPU, which comes with tidegate, and its text.
pub const BUNDLED: &str = "h100";
const TEXT: &str = include_str!("../../../scenarios/acceptance/h100.json");

impl Acceptance {
    /// Of nothing yet.
    pub fn new(device: String) -> Self {
        Self {
            device,
            date: chrono::Utc::now().format("%Y-%m-%d").to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            steps: Vec::new(),
        }
    }

    /// From a file, or the one that comes with tidegate.
    ///
    /// # Errors
    /// If it is no such document.
    pub fn read(file: &Path) -> Result<Self> {
        let text = match file == Path::new(BUNDLED) {
            true => TEXT.into(),
            false => read_text(file)?,
        };
        serde_json::from_str(&text).map_err(|error| Error::NoAcceptance(file.into(), error))
    }

    /// Takes over what a folder's document has of the same device; nothing where there is none.
    pub fn keep(&mut self, file: &Path) {
        let earlier = Self::read(file).ok().filter(|earlier| earlier.device == self.device);
        self.steps.extend(earlier.into_iter().flat_map(|earlier| earlier.steps));
    }

    /// Puts a result in the place of an earlier one of its step, or behind all.
    pub fn put(&mut self, result: StepResult) {
        match self.steps.iter_mut().find(|step| step.name == result.name) {
            Some(step) => *step = result,
            None => self.steps.push(result),
        }
    }

    /// # Errors
    /// If a step failed, of what is in a folder.
    pub fn end(&self, folder: &Path) -> Result<()> {
        match self.steps.iter().filter(|step| step.status == Status::Failed).count() {
            0 => Ok(()),
            failed => {
                let page = folder.join("index.html");
                Err(Error::StepsFailed(failed, self.steps.len(), page))
            }
        }
    }

    /// As JSON, with a line's end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data");
        text + "\n"
    }
}

impl StepResult {
    /// Of which nothing has failed yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            status: Status::Ok,
            reason: None,
            seconds: 0.0,
            figures: BTreeMap::new(),
        }
    }

    /// Left away.
    pub fn skipped(self, why: &str) -> Self {
        Self { status: Status::Skipped, reason: Some(why.into()), ..self }
    }

    /// It failed.
    pub fn failed(self, why: String) -> Self {
        Self { status: Status::Failed, reason: Some(why), ..self }
    }

    /// What a command printed.
    pub fn add(&mut self, what: &str, figures: Value) {
        self.figures.insert(what.into(), figures);
    }
}
