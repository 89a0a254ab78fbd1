//! Execution traces of PyTorch (Chakra's): ops with the storages that they read and write.
//!
//! Numbers of storages are used again: where an op puts out a storage that it did not read, a new one
//! begins. A storage lives until it is last used, as nothing says when it was freed. Times are those of
//! a profile of the same run, or none.

pub(super) mod file;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use schema::Phase;

use self::file::{File, Node, TensorRef};
use super::error::ImportError;
use super::figures::{Figures, Step, TimedOps};
use super::format::Format;
use super::kineto::{TimedOp, Times, choose, times};
use super::recording::{ImportOptions, Recording, file_name, of_pytorch};
use super::storages::{Storage, Unit, has_effects, is_in_place, phases, tensors_and_ops};
use super::unpack::unpack;

/// Imports a file; the caller checks the trace.
pub(super) fn import(
    bytes: &[u8],
    path: &Path,
    options: &ImportOptions,
) -> Result<Recording, ImportError> {
    let error = ImportError::content(path, Format::ExecutionTrace);
    let file = File::read(bytes).map_err(ImportError::json(path))?;
    let iterations = iterations(&file.nodes);
    let steps: Vec<Step> = iterations
        .iter()
        .map(|(step, _)| Step { step: *step, time_ns: 0, allocated_peak_bytes: None })
        .collect();
    let chosen = choose(&steps, options.step).map_err(error)?;
    let (step, range) = iterations[chosen].clone();
    let mut ops = outermost(&file.nodes, range);
    if ops.is_empty() {
        return Err(error(
            "it has no op: record with ExecutionTraceObserver around a whole step".into(),
        ));
    }
    let mut notes = vec![
        "storages live until they are last used: an execution trace does not say when they were freed"
            .to_string(),
    ];
    let mut figures = Figures { step: Some(step), steps, ..Figures::default() };
    let mut device = "an unstated device".to_string();
    match &options.times {
        Some((bytes, name)) => {
            let profile = unpack(bytes, name)?;
            let profile = super::kineto::file::File::read(&profile);
            let profile = profile.map_err(ImportError::json(name))?;
            let times = times(&profile, None);
            let times = times.map_err(ImportError::content(name, Format::Kineto))?;
            let agree = put_times(&mut ops, &times);
            let timed = TimedOps { ops: ops.len() as u64, agree };
            figures.timed_ops = Some(timed);
            notes.push(format!(
                "{agree} of {} ops have the time of the op of that name in step {} of {}",
                timed.ops,
                times.step,
                file_name(name)
            ));
            if agree < timed.ops {
                let run = if timed.of_another_run() { ": it is of another run" } else { "" };
                notes.push(format!(
                    "what the profile does not have takes no time and cannot run again{run}"
                ));
            }
            device = times.device;
        }
        None => notes.push("an execution trace has no times: give its profile with --times".into()),
    }
    let mut replay = Replay::default();
    ops.retain(|op| replay.op(op));
    if ops.is_empty() {
        return Err(error("no op of it reads or makes a tensor: record a whole step".into()));
    }
    if file.of_host {
        notes.push("nothing ran on a device: what lies in the host's memory is taken".into());
    }
    let (storages, units) = replay.finish(&ops, options.times.is_some());
    figures.allocations =
        storages.iter().filter(|storage| storage.made_by.is_some()).count() as u64;
    figures.frees = storages.iter().filter(|storage| storage.freed_by.is_some()).count() as u64;
    if figures.steps.len() > 1 {
        notes.push(format!("of {} iterations, number {step} is taken", figures.steps.len()));
    } else {
        figures.steps.clear();
    }
    if file.malformed > 0 {
        notes.push(format!(
            "{} nodes without a number or with a damaged tensor are left out",
            file.malformed
        ));
    }
    let (tensors, ops) = tensors_and_ops(&storages, &units);
    let source = format!("execution trace of schema {}", super::error::quoted(&file.schema));
    let trace = of_pytorch((path, options), (device, &source), notes, (tensors, ops));
    Ok(Recording { format: Format::ExecutionTrace, trace: Some(trace), figures })
}

/// The iterations, as ranges of nodes: from one mark of the profiler's, or else from one end of the
/// optimizer's step, to the next; or all.
pub(super) fn iterations(nodes: &[Node]) -> Vec<(u64, std::ops::Range<usize>)> {
    let at = |prefix: &str| -> Vec<usize> {
        (0..nodes.len()).filter(|index| nodes[*index].name.starts_with(prefix)).collect()
    };
    let marks = at("ProfilerStep#");
    if !marks.is_empty() {
        let number = |index: usize| nodes[index].name.trim_start_matches("ProfilerStep#").parse();
        let ends = marks.iter().skip(1).copied().chain([nodes.len()]);
        let ranges = marks.iter().zip(ends).enumerate();
        return ranges
            .map(|(i, (from, to))| (number(*from).unwrap_or(i as u64), *from..to))
            .collect();
    }
    let updates = at("Optimizer.step");
    // The last one's end is the file's.
    let mut iterations = Vec::new();
    let mut from = 0;
    for (index, update) in updates.iter().enumerate() {
        let inside = |node: &Node| node.parent >= nodes[*update].id || node.id == nodes[*update].id;
        let length = nodes[*update..].iter().take_while(|node| inside(node)).count();
        let to = if index + 1 == updates.len() { nodes.len() } else { update + length };
        iterations.push((index as u64 + 1, from..to));
        from = to;
    }
    if iterations.is_empty() {
        iterations.push((1, 0..nodes.len()));
    }
    iterations
}

/// An op of the trace: an outermost one of the dispatcher's, and all nodes within it.
pub(super) struct OuterOp<'a> {
    pub node: &'a Node,
    pub inner: Vec<&'a Node>,
    pub phase: Phase,
    /// What it takes, where a profile is at hand that has it.
    duration: Option<u64>,
}

fn is_dispatched(name: &str) -> bool {
    name.contains("::") && !name.starts_with("torch::autograd::") && !name.starts_with("autograd::")
}

pub(super) fn outermost(nodes: &[Node], range: std::ops::Range<usize>) -> Vec<OuterOp<'_>> {
    // The op that each node lies in, and whether in a node of autograd's. Parents come before.
    let mut within: HashMap<u64, (Option<usize>, bool)> = HashMap::new();
    let mut ops: Vec<(OuterOp<'_>, bool)> = Vec::new();
    for node in &nodes[range] {
        let (op, backward) = within.get(&node.parent).copied().unwrap_or((None, false));
        let backward = backward || node.name.starts_with("autograd::engine") || {
            let stem = node.name.trim_end_matches(|c: char| c.is_ascii_digit());
            stem.ends_with("Backward") && !node.name.contains("::")
        };
        let op = match op {
            Some(op) => {
                ops[op].0.inner.push(node);
                Some(op)
            }
            None if is_dispatched(&node.name) => {
                ops.push((
                    OuterOp { node, inner: vec![node], phase: Phase::Forward, duration: None },
                    backward,
                ));
                Some(ops.len() - 1)
            }
            None => None,
        };
        within.insert(node.id, (op, backward));
    }
    let phases = phases(ops.iter().map(|(op, backward)| (*backward, op.node.thread)).collect());
    ops.into_iter().zip(phases).map(|((op, _), phase)| OuterOp { phase, ..op }).collect()
}

/// Which instance of a storage each number stands for, op by op.
#[derive(Default)]
struct Replay {
    current: HashMap<u64, usize>,
    /// Size, maker, and all uses of each instance.
    instances: Vec<Instance>,
    ops: Vec<(Vec<usize>, Vec<usize>)>,
}

struct Instance {
    bytes: u64,
    made_by: Option<usize>,
    last_use: usize,
}

/// Whether a node writes what it is given: its schema marks such arguments.
fn writes_inputs(node: &Node) -> bool {
    if node.schema.is_empty() {
        return is_in_place(&node.name);
    }
    node.schema.contains("!)")
}

/// Whether all that a node is given is on the host. (Numbers are tensors there, too.)
fn is_from_host(node: &Node) -> bool {
    !node.inputs.is_empty() && node.inputs.iter().all(|tensor| !tensor.on_device)
}

impl Replay {
    /// Replays an op; false where it does nothing to any storage of the device, or only views it.
    fn op(&mut self, op: &OuterOp<'_>) -> bool {
        let index = self.ops.len();
        let (mut reads, mut changes) = (Vec::new(), Vec::new());
        let mut makes = false;
        for node in &op.inner {
            let on_device = |tensor: &&TensorRef| tensor.on_device;
            let writes = writes_inputs(node);
            let given: HashSet<u64> = node.inputs.iter().map(|tensor| tensor.storage).collect();
            for tensor in node.inputs.iter().filter(on_device) {
                let instance = self.instance(tensor);
                reads.push(instance);
            }
            for tensor in node.outputs.iter().filter(on_device) {
                // An op around another puts out what that has made.
                let inner_made = |current: &usize| self.instances[*current].made_by == Some(index);
                let known = self.current.get(&tensor.storage);
                if given.contains(&tensor.storage) || known.is_some_and(inner_made) {
                    let instance = self.instance(tensor);
                    if writes && given.contains(&tensor.storage) {
                        changes.push(instance);
                    }
                    continue;
                }
                makes = true;
                self.current.insert(tensor.storage, self.instances.len());
                self.instances.push(Instance {
                    bytes: tensor.end,
                    made_by: Some(index),
                    last_use: index,
                });
            }
        }
        if !makes && changes.is_empty() && (reads.is_empty() || !op.node.outputs.is_empty()) {
            return false;
        }
        for instance in reads.iter().chain(&changes) {
            self.instances[*instance].last_use = index;
        }
        self.ops.push((reads, changes));
        true
    }

    /// The instance that a tensor lies in; one that nothing has put out was there before.
    fn instance(&mut self, tensor: &TensorRef) -> usize {
        let instance = *self.current.entry(tensor.storage).or_insert_with(|| {
            self.instances.push(Instance { bytes: 0, made_by: None, last_use: 0 });
            self.instances.len() - 1
        });
        let bytes = &mut self.instances[instance].bytes;
        *bytes = (*bytes).max(tensor.end);
        instance
    }

    fn finish(self, ops: &[OuterOp<'_>], timed: bool) -> (Vec<Storage>, Vec<Unit>) {
        let mut storages = Vec::new();
        let mut workspace = vec![0u64; ops.len()];
        let mut storage_of = vec![None; self.instances.len()];
        for (index, instance) in self.instances.iter().enumerate() {
            if let Some(maker) = instance.made_by.filter(|maker| *maker == instance.last_use) {
                workspace[maker] = workspace[maker].saturating_add(instance.bytes);
                continue;
            }
            let from_host = |op: &usize| is_from_host(ops[*op].node);
            let appears = instance.made_by.filter(from_host);
            storage_of[index] = Some(storages.len());
            let made = instance.made_by.map(|op| (op, ops[op].node.name.as_str(), ops[op].phase));
            let freed_by = instance.made_by.map(|_| instance.last_use);
            storages.push(Storage::new(instance.bytes, made, appears.is_some(), freed_by));
        }
        let of =
            |list: &[usize]| list.iter().filter_map(|one| storage_of[*one]).collect::<Vec<_>>();
        let units =
            ops.iter().zip(&self.ops).zip(workspace).map(|((op, (reads, changes)), workspace)| {
                Unit {
                    name: op.node.name.clone(),
                    phase: op.phase,
                    duration: op.duration.unwrap_or(0),
                    reads: of(reads),
                    changes: of(changes),
                    workspace,
                    rerunnable: op.phase != Phase::Update
                        && (op.duration.is_some() || !timed)
                        && op.inner.iter().all(|node| !has_effects(&node.name))
                        && !is_from_host(op.node),
                }
            });
        (storages, units.collect())
    }
}

/// Gives ops their times: by the number that both files have of them, or else by walking both lists at
/// once. Where they differ, as little as possible is skipped of both until two ops on end agree.
fn put_times(ops: &mut [OuterOp<'_>], times: &Times) -> u64 {
    const SKIPPED: usize = 200;
    let by_number: HashMap<u64, &TimedOp> =
        times.ops.iter().filter_map(|op| Some((op.function?, op))).collect();
    let same = |op: usize, timed: usize| match (ops.get(op), times.ops.get(timed)) {
        (Some(op), Some(timed)) => op.node.name == timed.name,
        (None, None) => true,
        _ => false,
    };
    let mut found = vec![None; ops.len()];
    let (mut op, mut timed) = (0, 0);
    while by_number.is_empty() && op < ops.len() && timed < times.ops.len() {
        if same(op, timed) {
            found[op] = Some(&times.ops[timed]);
            (op, timed) = (op + 1, timed + 1);
            continue;
        }
        let splits =
            (1..SKIPPED).flat_map(|all| (0..=all).map(move |of_ops| (of_ops, all - of_ops)));
        let agree =
            |(a, b): &(usize, usize)| same(op + a, timed + b) && same(op + a + 1, timed + b + 1);
        let Some((a, b)) = { splits }.find(agree) else { break };
        (op, timed) = (op + a, timed + b);
    }
    for (op, found) in ops.iter_mut().zip(found) {
        let by_number = op.node.function.and_then(|number| by_number.get(&number)).copied();
        let found = found.or(by_number.filter(|timed| timed.name == op.node.name));
        op.duration = found.map(|timed| timed.duration);
    }
    ops.iter().filter(|op| op.duration.is_some()).count() as u64
}
