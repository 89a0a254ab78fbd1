//! What a study asks.

use std::fmt;
use std::path::PathBuf;

use schema::{Bytes, BytesPerSec, Framework};
use strum::{EnumString, IntoStaticStr};

use super::lookups::LookupStudy;
use super::paper::Paper;
use crate::Budget;
use networks::NetworkOptions;

/// Where something stands in a study file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A study whose names are checked.
#[derive(Debug, Clone)]
pub struct Study {
    /// Its name: the stem of its file.
    pub name: String,
    /// The question that it answers.
    pub description: String,
    /// What it asks.
    pub groups: Vec<Group>,
    /// What else is supposed, in groups that are derived from others.
    pub what_ifs: Vec<WhatIf>,
    /// The paper whose figures its results are held against.
    pub paper: Option<Paper>,
    /// What it asks about lookups in tables.
    pub lookups: Option<LookupStudy>,
}

/// What is supposed otherwise than in a study's other groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatIf {
    /// Its name, which those of its groups end with.
    pub name: String,
    /// What is supposed, in a few words.
    pub description: String,
}

/// Lists, of which each combination is a point.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Group {
    /// Its name, its own within the study; empty where the study has but one group.
    pub name: String,
    /// Networks and traces.
    pub subjects: Vec<Subject>,
    /// Samples per iteration; empty for traces, and where the largest batch is searched for.
    pub batches: Vec<u32>,
    /// Height and width of images; `None` for the network's own.
    pub images: Vec<Option<[u32; 2]>>,
    pub options: NetworkOptions,
    /// Whose ops the networks' iterations consist of.
    pub framework: Framework,
    /// Whether only powers of two are tried where the largest batch is searched for.
    pub powers_of_two: bool,
    /// Machines: bundled ones, or files.
    pub machines: Vec<(String, Place)>,
    /// Links to combine each machine with.
    pub links: Vec<LinkChoice>,
    /// Host memory; `None` for the machine's own.
    pub host_memory: Vec<Option<Bytes>>,
    /// Budgets; `None` for what is usable of the machine's memory.
    pub budgets: Vec<Option<Budget>>,
    /// What methods may decide.
    pub allow: Vec<Allow>,
    pub methods: Vec<String>,
    pub find: Option<Find>,
    /// Evaluations that one search may make, where it is not the default.
    pub evaluations: Option<u64>,
    /// The machine for which methods decide, where it is another than the one that carries it out.
    pub decided_on: Option<(String, Place)>,
    /// Whether methods decide by what ops and copies take in iterations that swap everything.
    pub profiled: bool,
    /// The machine that the traces were recorded on.
    pub recorded_on: Option<(String, Place)>,
    /// How much faster the machines compute than the traces say.
    pub speed: Option<f64>,
    /// What methods may compress with.
    pub codecs: GroupCodecs,
    /// The epochs that a training has, where points are of some of them.
    pub epochs: Option<u32>,
    /// The epochs that are planned, from 0; `None` where it is the progress that the options state.
    pub at_epochs: Vec<Option<u32>>,
}

/// What the methods of a group may compress with, as the command's `--codecs` has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupCodecs {
    /// The codecs' names; none where nothing is compressed.
    pub names: Vec<(String, Place)>,
    /// Share of zeros, from 0 to 1, where a trace states none.
    pub sparsity: Option<f64>,
    /// Speed of the device's codecs as a share of what their models say.
    pub speed: Option<f64>,
    /// What codecs make of a tensor whose models have one share for all data, in thousandths, as it was measured on data
    /// like the group's.
    pub size_permille: Option<u32>,
    /// Also codecs that change values.
    pub lossy: bool,
}

impl GroupCodecs {
    /// All of it, for people; empty where nothing is compressed.
    pub fn text(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = names.join(", ");
        if let Some(share) = self.sparsity {
            text.push_str(&format!(", {:.0} % zeros", 100.0 * share));
        }
        if let Some(share) = self.speed {
            text.push_str(&format!(", at {:.0} % of their speed", 100.0 * share));
        }
        if let Some(permille) = self.size_permille {
            text.push_str(&format!(", to {:.1} %", f64::from(permille) / 10.0));
        }
        text
    }
}

/// What is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// A bundled network or trace, or a file.
    pub name: String,
    /// Whether it is a network, which has a batch and options, or a recording.
    pub is_network: bool,
    /// Where the study names it.
    pub place: Place,
}

/// The link of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkChoice {
    /// The machine's.
    Own,
    /// A bundled one.
    Named(String),
    /// The machine's, but with this bandwidth at every size, in both directions.
    Bandwidth(BytesPerSec),
}

impl fmt::Display for LinkChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::Named(name) => f.write_str(name),
            Self::Bandwidth(bandwidth) => bandwidth.fmt(f),
        }
    }
}

/// What a method may decide besides keeping a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allow {
    /// Copying it to the host.
    pub swap: bool,
    /// Running its op again.
    pub recompute: bool,
}

impl Allow {
    /// Everything.
    pub const ALL: Self = Self { swap: true, recompute: true };

    /// From `swap`, `recompute` or `swap+recompute`.
    pub fn from_name(name: &str) -> Option<Self> {
        let allow = Self {
            swap: matches!(name, "swap" | "swap+recompute"),
            recompute: matches!(name, "recompute" | "swap+recompute"),
        };
        (allow.swap || allow.recompute).then_some(allow)
    }

    /// As [`Self::from_name`] reads it.
    pub fn name(self) -> &'static str {
        match (self.swap, self.recompute) {
            (true, true) => "swap+recompute",
            (true, false) => "swap",
            (false, true) => "recompute",
            (false, false) => "keep",
        }
    }
}

/// What a point searches for by bisection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Find {
    /// The largest batch that the method can plan.
    LargestBatch,
    /// The smallest budget that the method can plan.
    SmallestBudget,
}

impl Find {
    /// As studies and results name it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One combination: something to be planned.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Point<'a> {
    pub group: &'a Group,
    pub subject: &'a Subject,
    /// Samples per iteration, where it is a network and the batch is not searched for.
    pub batch: Option<u32>,
    /// Height and width of images, where stated.
    pub image: Option<[u32; 2]>,
    /// The epoch, and how many the training has, where stated.
    pub epoch: Option<(u32, u32)>,
    pub machine: &'a (String, Place),
    pub link: &'a LinkChoice,
    /// Its host memory, where stated.
    pub host_memory: Option<Bytes>,
    /// Device memory, where stated.
    pub budget: Option<Budget>,
    /// What the method may decide.
    pub allow: Allow,
    pub method: &'a str,
}

impl Study {
    /// The group that a what-if makes of another, where it does.
    pub fn derived(&self, group: &str, what_if: &WhatIf) -> Option<String> {
        let name = derived_name(group, &what_if.name);
        self.groups.iter().any(|group| group.name == name).then_some(name)
    }

    /// Every point, in the order of the file: the last list varies fastest.
    pub fn points(&self) -> impl Iterator<Item = Point<'_>> {
        self.groups.iter().flat_map(Group::points)
    }
}

pub(super) fn derived_name(group: &str, what_if: &str) -> String {
    format!("{group}, {what_if}")
}

impl Group {
    /// How long each list is, the one that varies fastest last.
    fn lengths(&self) -> [usize; 10] {
        [
            self.subjects.len(),
            self.images.len(),
            self.batches.len().max(1),
            self.at_epochs.len(),
            self.machines.len(),
            self.links.len(),
            self.host_memory.len(),
            self.budgets.len(),
            self.allow.len(),
            self.methods.len(),
        ]
    }

    pub(super) fn count(&self) -> u64 {
        self.lengths().iter().fold(1, |points, list| points.saturating_mul(*list as u64))
    }

    fn points(&self) -> impl Iterator<Item = Point<'_>> {
        let lengths = self.lengths();
        (0..self.count() as usize).map(move |number| {
            let mut rest = number;
            let mut at = [0; 10];
            for (index, length) in at.iter_mut().zip(lengths).rev() {
                (rest, *index) = (rest / length, rest % length);
            }
            let [subject, image, batch, epoch, machine, link, host_memory, budget, allow, method] =
                at;
            Point {
                group: self,
                subject: &self.subjects[subject],
                image: self.images[image],
                batch: self.batches.get(batch).copied(),
                epoch: self.at_epochs[epoch].zip(self.epochs),
                machine: &self.machines[machine],
                link: &self.links[link],
                host_memory: self.host_memory[host_memory],
                budget: self.budgets[budget],
                allow: self.allow[allow],
                method: &self.methods[method],
            }
        })
    }
}
