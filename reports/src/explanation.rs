//! Whether something fits a GPU, why not, and what would help: one value, of which the JSON output of
//! `tidegate explain` is the serialisation.

use schema::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns;
use crate::text::percent;

/// What `tidegate explain` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// What is explained: a network and its batch, a recording, a plan.
    pub explains: String,
    /// Its parameters, type, optimizer, tokens; or where its figures are from.
    pub about: Vec<String>,
    /// The machine.
    pub machine: String,
    /// Whether it fits; absent where nothing says when memory is needed.
    pub fits: Option<bool>,
    /// How sure that is.
    pub certainty: Certainty,
    /// By what share predictions of this kind have been too low.
    pub may_need_more: f64,
    /// By what share they have been too high.
    pub may_need_less: f64,
    /// What is left of the device's memory, or is missing where it does not fit.
    #[serde(rename = "spare_bytes")]
    pub spare: Bytes,
    /// The figures that this follows from.
    pub memory: DeviceMemory,
    /// Time of the iteration without a memory limit, or of the plan; zero where no op has a time.
    #[serde(rename = "iteration_ns")]
    pub iteration: Nanos,
    /// The moment at which most is there.
    pub peak: Peak,
    /// What would help, cheapest first.
    pub remedies: Vec<Remedy>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// How sure it is whether something fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// By more than predictions have been off.
    Sure,
    /// By less than that.
    Close,
}

/// Memory of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceMemory {
    /// All of it.
    #[serde(rename = "device_bytes")]
    pub device: Bytes,
    /// What the driver, libraries and the framework take beside tensors.
    #[serde(rename = "outside_bytes")]
    pub outside: Bytes,
    /// Where that figure is from.
    pub outside_source: String,
    /// What may be used: the rest of it, or less where that was asked for.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
    /// The most that tensors and workspace take.
    #[serde(rename = "allocated_bytes")]
    pub allocated: Bytes,
    /// The most that PyTorch's allocator reserves for them.
    #[serde(rename = "reserved_bytes")]
    pub reserved: Bytes,
    /// What is there all the time.
    #[serde(rename = "fixed_bytes")]
    pub fixed: Bytes,
}

/// The moment at which most is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// When, such as the op and its phase.
    pub at: String,
    /// By what it is for, the largest first.
    pub kinds: Vec<Part>,
    /// By layer, or place in the program, the largest first.
    pub layers: Vec<Part>,
    /// The ten largest tensors.
    pub largest: Vec<Part>,
}

/// Some of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What it is.
    pub what: String,
    /// How many tensors.
    pub tensors: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

/// Something that one can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// What, in words.
    pub what: String,
    /// What it changes: nothing that is computed, the arithmetic, the training, or the hardware.
    pub changes: Changes,
    /// Whether there is a plan that fits.
    pub fits: bool,
    /// The method of the plan: `in-core` where everything is kept.
    pub method: String,
    /// Its predicted time for an iteration of as many samples.
    #[serde(rename = "iteration_ns")]
    pub iteration: Option<Nanos>,
    /// The most memory that it takes.
    #[serde(rename = "memory_bytes")]
    pub memory: Option<Bytes>,
    /// Why there is no plan.
    pub reason: Option<String>,
    /// The command that does it.
    pub command: String,
}

/// What a remedy changes, from little to much.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Changes {
    /// Only when what is computed, and where what is kept.
    Nothing,
    /// Digits.
    Arithmetic,
    /// What is learnt.
    Training,
    /// What it costs to buy.
    Hardware,
}

impl Changes {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "same results",
            Self::Arithmetic => "other digits",
            Self::Training => "another training",
            Self::Hardware => "other hardware",
        }
    }
}

impl Explanation {
    /// Whether each address is known, as a plan states them, so that nothing about its memory is predicted.
    fn is_planned(&self) -> bool {
        (self.may_need_more, self.may_need_less) == (0.0, 0.0)
    }

    /// The answer, in sentences.
    pub fn sentences(&self) -> Vec<String> {
        let Self { explains, machine, spare, memory, peak, .. } = self;
        let DeviceMemory { budget, reserved, allocated, fixed, .. } = memory;
        let share = percent(spare.0 as f64 / budget.0.max(1) as f64);
        let (fits, spare) = match self.fits {
            Some(true) => ("fits", format!("{spare} of it stay free, {share}")),
            Some(false) => ("does not fit", format!("{spare} are missing, {share}")),
            None => ("holds tensors of unknown need", format!("{spare} of it stay free")),
        };
        let off = match self.is_planned() {
            true => "its addresses say so".to_string(),
            false => format!(
                "predictions of this kind have been up to {} too low and {} too high",
                percent(self.may_need_more),
                percent(self.may_need_less)
            ),
        };
        let sure = match self.certainty {
            Certainty::Sure => format!("That is sure: {off}."),
            Certainty::Close => format!("That is close: {off}."),
        };
        let holds = match self.is_planned() {
            true => format!("it takes {reserved}"),
            false => format!("PyTorch would hold {reserved} for it"),
        };
        let mut sentences = vec![format!(
            "{explains} {fits} on {machine}: {holds}, of {budget} that it may have; {spare}. {sure}"
        )];
        if let Some(largest) = peak.kinds.first() {
            let of = percent(largest.bytes.0 as f64 / allocated.0.max(1) as f64);
            sentences.push(format!(
                "Most is there {}: {allocated}, of which {} are {of}. {fixed} are there all the time.",
                peak.at, largest.what
            ));
        }
        if self.fits == Some(false) && *fixed > *budget {
            sentences.push(
                "What is there all the time alone is too much: no smaller batch helps by itself."
                    .into(),
            );
        }
        let first = self.remedies.iter().find(|remedy| remedy.fits);
        sentences.extend(first.map(|first| format!("The cheapest way: {}.", first.what)));
        if !self.remedies.is_empty() && first.is_none() {
            sentences.push("Nothing that was tried makes it fit.".into());
        }
        sentences
    }

    /// All of it, for a person.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.sentences().iter().chain(&self.about) {
            text += &format!("{line}\n");
        }
        for (title, rows) in self.tables() {
            text += &format!("\n{title}\n{}", columns(&rows));
        }
        let source = &self.memory.outside_source;
        text += &format!("note: what is beside PyTorch's tensors is {source}\n");
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }

    /// The tables, each with a title; the first column of each is a text.
    pub fn tables(&self) -> Vec<(String, Vec<Vec<String>>)> {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let of = |bytes: Bytes, all: Bytes| percent(bytes.0 as f64 / all.0.max(1) as f64);
        let DeviceMemory { device, outside, budget, allocated, reserved, fixed, .. } = &self.memory;
        let figure = |name: &str, bytes: &Bytes| vec![name.to_string(), bytes.to_string()];
        let mut tables = vec![(
            "memory".to_string(),
            vec![
                figure("the device's", device),
                figure("beside PyTorch's tensors", outside),
                figure("may be used", budget),
                match self.is_planned() {
                    true => figure("to the end of the last buffer", reserved),
                    false => figure("reserved by PyTorch's allocator, as modelled", reserved),
                },
                figure("needed at the peak", allocated),
                figure("needed all the time", fixed),
            ],
        )];
        for (title, parts) in [
            ("the peak by kind", &self.peak.kinds),
            ("the peak by layer", &self.peak.layers),
            ("the largest at the peak", &self.peak.largest),
        ] {
            let part = |part: &Part| {
                let count = match part.tensors {
                    1 => String::new(),
                    count => format!("{count} tensors"),
                };
                vec![part.what.clone(), part.bytes.to_string(), of(part.bytes, *allocated), count]
            };
            if !parts.is_empty() {
                tables.push((title.into(), parts.iter().map(part).collect()));
            }
        }
        if self.remedies.is_empty() {
            return tables;
        }
        let mut rows = vec![row(&["", "iteration", "slowdown", "memory", "changes", "method"])];
        let mut commands = Vec::new();
        for (index, remedy) in self.remedies.iter().enumerate() {
            let number = index + 1;
            let slowdown = remedy.iteration.filter(|_| self.iteration > Nanos::ZERO);
            let slowdown = slowdown.map(|time| format!("{:.3}x", time.ratio(self.iteration)));
            let [time, memory] =
                [remedy.iteration.map(|t| t.to_string()), remedy.memory.map(|m| m.to_string())]
                    .map(|cell| cell.unwrap_or_else(|| "-".into()));
            let method = if remedy.fits { remedy.method.as_str() } else { "does not fit" };
            rows.push(row(&[
                &format!("{number}. {}", remedy.what),
                &time,
                slowdown.as_deref().unwrap_or("-"),
                &memory,
                remedy.changes.name(),
                method,
            ]));
            commands.push(vec![format!("{number}. {}", remedy.command)]);
            let reason = remedy.reason.iter().filter(|_| !remedy.fits);
            commands.extend(reason.map(|reason| vec![format!("   {reason}")]));
        }
        tables.push(("what would help, cheapest first".into(), rows));
        tables.push(("by these commands".into(), commands));
        tables
    }
}
