//! From ops over storages to a trace: what PyTorch's recordings have in common. A storage that an op
//! changes in place is one tensor before and another after.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use schema::{Bytes, InPlace, Nanos, Op, OpId, OpKind, Phase, Role, Tensor, TensorId};

use super::op_kind::op_kind;

#[derive(Debug, Clone)]
pub(super) struct Storage {
    pub name: String,
    pub bytes: u64,
    pub role: Role,
    /// The op that makes it; absent: it is there before the iteration.
    pub made_by: Option<usize>,
    /// Where no op makes it: the op with which it comes from the host.
    pub appears: Option<usize>,
    /// The op after which its memory is given back; absent: it outlives the iteration.
    pub freed_by: Option<usize>,
}

impl Storage {
    /// What an op made, which has a place, a name and a phase, or what was there before the iteration.
    /// What comes from the host is there until the end, in the forward phase as an input.
    pub fn new(
        bytes: u64,
        made: Option<(usize, &str, Phase)>,
        from_host: bool,
        freed_by: Option<usize>,
    ) -> Self {
        let (name, role) = match made {
            None => ("from before the iteration".into(), Role::Parameter),
            Some((op, name, phase)) => {
                let role = match phase {
                    Phase::Forward if from_host => Role::Input,
                    Phase::Forward => Role::Activation,
                    Phase::Backward => Role::Gradient,
                    Phase::Update => Role::Workspace,
                };
                (format!("{name} {op}"), role)
            }
        };
        let by = made.map(|(op, ..)| op);
        let (made_by, appears) = if from_host { (None, by) } else { (by, None) };
        Self { name, bytes, role, made_by, appears, freed_by }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub name: String,
    pub phase: Phase,
    pub duration: u64,
    /// What it reads, in any order, perhaps more than once.
    pub reads: Vec<usize>,
    pub changes: Vec<usize>,
    pub workspace: u64,
    /// Whether what it does is known well enough to do it again.
    pub rerunnable: bool,
}

/// Tensors and ops. Storages that are freed must not be used later, and none is used before it is made.
pub(super) fn tensors_and_ops(storages: &[Storage], units: &[Unit]) -> (Vec<Tensor>, Vec<Op>) {
    let mut tensors: Vec<Tensor> = Vec::with_capacity(storages.len());
    let mut makes = vec![Vec::new(); units.len()];
    let mut frees = vec![Vec::new(); units.len()];
    for (index, storage) in storages.iter().enumerate() {
        tensors.push(Tensor {
            appears_before: storage.appears.map(OpId::from_index),
            ..Tensor::new(&storage.name, Bytes(storage.bytes), storage.role)
        });
        if let Some(op) = storage.made_by {
            makes[op].push(index);
        }
        if let Some(op) = storage.freed_by {
            frees[op].push(index);
        }
    }
    // The tensor that is where each storage is now.
    let mut current: Vec<TensorId> = (0..storages.len()).map(TensorId::from_index).collect();
    let mut seen: HashMap<usize, OpId> = HashMap::new();
    let mut ops = Vec::with_capacity(units.len());
    for (index, unit) in units.iter().enumerate() {
        let id = OpId::from_index(index);
        let made_before = |storage: &usize| storages[*storage].made_by.is_none_or(|op| op < index);
        let about = (kind_of(&unit.name, unit.phase), unit.phase);
        let mut op = Op {
            writes: makes[index].iter().map(|storage| current[*storage]).collect(),
            workspace: Bytes(unit.workspace),
            rerunnable: unit.rerunnable,
            ..Op::new(&unit.name, about, Nanos(unit.duration))
        };
        for storage in unit.reads.iter().chain(&unit.changes).filter(|storage| made_before(storage))
        {
            if seen.insert(*storage, id) != Some(id) {
                op.reads.push(current[*storage]);
            }
        }
        let mut changes: Vec<usize> = unit.changes.iter().copied().filter(made_before).collect();
        changes.sort_unstable();
        changes.dedup();
        for storage in changes {
            if storages[storage].made_by.is_none() {
                op.rerunnable = false;
                continue;
            }
            let output = TensorId::from_index(tensors.len());
            let mut tensor = tensors[storage].clone();
            tensor.name = format!("{} after {}", tensor.name, unit.name);
            tensors.push(tensor);
            op.in_place.push(InPlace { input: current[storage], output });
            op.frees.push(current[storage]);
            op.writes.push(output);
            current[storage] = output;
        }
        op.frees.extend(frees[index].iter().map(|storage| current[*storage]));
        ops.push(op);
    }
    (tensors, ops)
}

fn kind_of(name: &str, phase: Phase) -> OpKind {
    match phase {
        Phase::Update => OpKind::Optimizer,
        _ => op_kind(name),
    }
}

/// The phases of ops, of which is known whether they run in one of autograd's nodes, and on which thread.
/// Backward is what runs in such nodes, and beside them on their threads; what follows is the update.
pub(super) fn phases<T: Copy + Eq + Hash>(ops: Vec<(bool, T)>) -> Vec<Phase> {
    let threads: HashSet<T> = ops.iter().filter(|(b, _)| *b).map(|(_, thread)| *thread).collect();
    let first = ops.iter().position(|(backward, _)| *backward).unwrap_or(usize::MAX);
    let last = ops.iter().rposition(|(backward, _)| *backward).unwrap_or(usize::MAX);
    let phase = |(index, (backward, thread)): (usize, &(bool, T))| match index {
        _ if *backward => Phase::Backward,
        _ if index > last => Phase::Update,
        _ if index > first && threads.contains(thread) => Phase::Backward,
        _ => Phase::Forward,
    };
    ops.iter().enumerate().map(phase).collect()
}

/// Whether an op writes over its first input, by its name: `aten::add_`, but not `aten::__and__`.
pub(super) fn is_in_place(name: &str) -> bool {
    name.ends_with('_') && !name.ends_with("__")
}

/// Whether another run of an op would do something else or something more: it draws numbers, or
/// others take part in it.
pub(super) fn has_effects(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let draws =
        ["dropout", "rand", "bernoulli", "multinomial", "normal_", "uniform_", "exponential_"];
    let others = [
        "c10d",
        "nccl",
        "allreduce",
        "all_reduce",
        "allgather",
        "all_gather",
        "reduce_scatter",
        "broadcast_",
        "alltoall",
        "all_to_all",
        "gloo",
        "distributed",
        "record_param_comms",
    ];
    let draws = draws.iter().any(|part| lower.contains(part)) && !lower.contains("backward");
    draws || others.iter().any(|part| lower.contains(part))
}
