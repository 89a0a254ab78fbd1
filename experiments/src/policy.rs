//! Plans in the words of other frameworks, and their words as plans.

use std::collections::BTreeMap;
use std::path::Path;

use networks::suggest::instead;
use planner::Problem;
use planner::methods::Stated;
use schema::file::read_text;
use schema::{Choice, FileError, Op, OpId, Phase, Plan, Trace};
use serde::{Deserialize, Serialize};
use simulator::{Gap, GapId, Model, Treatment};

use crate::{Error, Result};

/// What a framework is told: by op, as PyTorch's selective checkpointing takes it, or by module, as
/// those do that take lists of layers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// By an op's key, or else its name, what becomes of what it makes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ops: BTreeMap<String, OpPolicy>,
    /// Modules whose inner activations are made again in the backward phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoint: Vec<String>,
    /// Modules whose activations are on the host until the backward phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offload: Vec<String>,
}

/// `torch.utils.checkpoint.CheckpointPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names are PyTorch's")]
pub enum OpPolicy {
    MustSave,
    PreferSave,
    MustRecompute,
    PreferRecompute,
    MustCpuOffload,
}

impl Policy {
    /// Reads a policy from a file, or from the standard input where `path` is `-`.
    ///
    /// # Errors
    /// If it cannot be read, or is no policy.
    pub fn read(path: &Path) -> Result<Self> {
        let syntax = |source| {
            let path = path.to_path_buf();
            FileError::Syntax { path, expected: "policy (ops, or checkpoint and offload)", source }
        };
        Ok(serde_json::from_str(&read_text(path)?).map_err(syntax)?)
    }

    /// The text of its file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a policy is plain data") + "\n"
    }

    /// By op of the forward phase, what a plan does with most bytes of what the backward phase needs
    /// of it. What stays compressed is saved: PyTorch has no word for it.
    ///
    /// # Errors
    /// If two ops have one key, and the plan treats them differently.
    pub fn of_ops(plan: &Plan, trace: &Trace) -> Result<Self> {
        let mut ops = BTreeMap::new();
        for (op, choices) in trace.ops.iter().zip(forward_choices(plan, trace)) {
            if op.phase != Phase::Forward || op.writes.is_empty() {
                continue;
            }
            let policy = match largest(&choices) {
                Some(Choice::Keep | Choice::Compress) => OpPolicy::MustSave,
                Some(Choice::Swap) => OpPolicy::MustCpuOffload,
                // What nothing reads later is not saved.
                Some(Choice::Recompute) | None => OpPolicy::PreferRecompute,
            };
            if ops.insert(key(op).to_string(), policy).is_some_and(|other| other != policy) {
                return Err(Error::SameKey(key(op).into()));
            }
        }
        Ok(Self { ops, ..Self::default() })
    }

    /// The modules of which a plan makes more than half of what the backward phase needs again, and
    /// those of which it copies more than half.
    pub fn of_modules(plan: &Plan, trace: &Trace) -> Self {
        let mut modules: BTreeMap<&str, Vec<(Choice, u64)>> = BTreeMap::new();
        for (op, choices) in trace.ops.iter().zip(forward_choices(plan, trace)) {
            if op.phase == Phase::Forward {
                modules.entry(module(&op.name)).or_default().extend(choices);
            }
        }
        let most = |wanted: Choice| {
            let of = |choices: &[(Choice, u64)]| -> [u64; 2] {
                let chosen = choices.iter().filter(|(choice, _)| *choice == wanted);
                [chosen.map(|(_, b)| b).sum(), choices.iter().map(|(_, b)| b).sum()]
            };
            let is_most = |choices: &&Vec<(Choice, u64)>| {
                let [chosen, all] = of(choices);
                chosen > all / 2
            };
            let modules = modules.iter().filter(|(_, choices)| is_most(choices));
            modules.map(|(name, _)| (*name).to_string()).collect()
        };
        let (checkpoint, offload) = (most(Choice::Recompute), most(Choice::Swap));
        Self { ops: BTreeMap::new(), checkpoint, offload }
    }

    /// The policy as decisions of a problem: about what forward ops make and the backward phase
    /// needs. What cannot be run again is kept, and so is what the policy says nothing about.
    ///
    /// # Errors
    /// If it names what the trace does not have.
    pub fn stated(&self, problem: &Problem) -> Result<Stated> {
        let ops = &problem.trace.ops;
        let unknown = self.ops.keys().find(|name| !ops.iter().any(|op| is_op(op, name)));
        if let Some(name) = unknown {
            let all = ops.iter().map(key);
            return Err(Error::NotInTrace("op", name.clone(), instead(name, all)));
        }
        let mut modules = self.checkpoint.iter().chain(&self.offload);
        if let Some(name) = modules.find(|name| !ops.iter().any(|op| is_within(op, name))) {
            let all = ops.iter().map(|op| module(&op.name));
            return Err(Error::NotInTrace("module", name.clone(), instead(name, all)));
        }
        let mut treatments = problem.keep_all();
        let considered: Vec<GapId> =
            crossing(&problem.model, problem.trace).map(|(id, _)| id).collect();
        for id in &considered {
            treatments[*id] = match self.choice(problem, &problem.model.gaps()[*id]) {
                Choice::Swap => Treatment::Swap,
                Choice::Recompute if problem.may_recompute(*id) => Treatment::Recompute,
                _ => Treatment::Keep,
            };
        }
        Ok(Stated { treatments, considered })
    }

    fn choice(&self, problem: &Problem, gap: &Gap) -> Choice {
        let Some(maker) = problem.model.producer(gap.tensor) else { return Choice::Keep };
        let op = &problem.trace.ops[maker.index()];
        if let Some((_, policy)) = self.ops.iter().find(|(name, _)| is_op(op, name)) {
            return match policy {
                OpPolicy::MustSave | OpPolicy::PreferSave => Choice::Keep,
                OpPolicy::MustRecompute | OpPolicy::PreferRecompute => Choice::Recompute,
                OpPolicy::MustCpuOffload => Choice::Swap,
            };
        }
        if self.offload.iter().any(|module| is_within(op, module)) {
            return Choice::Swap;
        }
        let leaves = |module: &String| {
            let readers = problem.trace.ops.iter().filter(|reader| reader.phase == Phase::Forward);
            let mut readers = readers.filter(|reader| reader.reads.contains(&gap.tensor));
            readers.any(|reader| !is_within(reader, module))
        };
        // What goes on from a checkpointed module is the next one's input, which is saved.
        match self.checkpoint.iter().find(|module| is_within(op, module)) {
            Some(module) if !leaves(module) => Choice::Recompute,
            _ => Choice::Keep,
        }
    }
}

/// What a caller calls an op.
fn key(op: &Op) -> &str {
    op.key.as_deref().unwrap_or(&op.name)
}

/// Whether a policy's word is for an op: its key, or a name that several may have.
fn is_op(op: &Op, name: &str) -> bool {
    key(op) == name || op.name == name
}

/// The module of an op by its name: `layers.0` of `layers.0.attention.mm`, up to the first number; without
/// one, all but what comes last.
fn module(name: &str) -> &str {
    let mut end = 0;
    for part in name.split('.') {
        end += part.len();
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return &name[..end];
        }
        end += 1;
    }
    name.rsplit_once('.').map_or(name, |(module, _)| module)
}

/// Whether a forward op is of a module, or of one within it.
fn is_within(op: &Op, module: &str) -> bool {
    let rest = op.name.strip_prefix(module);
    op.phase == Phase::Forward && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The gaps between the forward phase and what follows.
fn crossing<'a>(model: &'a Model, trace: &'a Trace) -> impl Iterator<Item = (GapId, &'a Gap)> {
    let phase = |op: OpId| trace.ops[op.index()].phase;
    model.gaps().iter().enumerate().filter(move |(_, gap)| {
        model.producer(gap.tensor).is_some()
            && phase(gap.after) == Phase::Forward
            && gap.before.is_some_and(|op| phase(op) != Phase::Forward)
    })
}

/// By op, what a plan does with each tensor that it makes and the backward phase needs, and its bytes.
fn forward_choices(plan: &Plan, trace: &Trace) -> Vec<Vec<(Choice, u64)>> {
    let model = Model::of(trace);
    let mut choices = vec![Vec::new(); trace.ops.len()];
    for (_, gap) in crossing(&model, trace) {
        let mut decided = plan.decisions.iter().filter(|d| d.tensor == gap.tensor);
        let decided = decided.find(|d| d.after == gap.after).map_or(Choice::Keep, |d| d.choice);
        if let Some(maker) = model.producer(gap.tensor) {
            choices[maker.index()].push((decided, gap.bytes.0));
        }
    }
    choices
}

/// The choice for most bytes, the earliest among equals.
fn largest(choices: &[(Choice, u64)]) -> Option<Choice> {
    let bytes = |choice: Choice| -> u64 {
        choices.iter().filter(|(other, _)| *other == choice).map(|(_, bytes)| bytes).sum()
    };
    choices.iter().map(|(choice, _)| *choice).rev().max_by_key(|choice| bytes(*choice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_end_with_their_first_number() {
        let cases = [
            ("layers.0.attention.mm_3", "layers.0"),
            ("layer1.0.conv1", "layer1.0"),
            ("features.norm", "features"),
            ("h.11", "h.11"),
            ("loss", "loss"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(module(name), expected, "{name}");
        }
    }
}
