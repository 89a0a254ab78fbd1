//! A plan beside its trace, in flat lists, and what can be seen of it without its order.

use schema::{CodecId, Lane, Plan, TensorId};

use crate::wanted::Wanted;
use crate::wrong::{Rule, Wrong};
use crate::{codec, memory::Memory};

/// A plan whose actions have the operands that their tasks and the trace's ops want.
#[derive(Debug)]
pub struct Prepared<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) wanted: &'p Wanted,
    pub(crate) actions: Vec<Prepare>,
    pub(crate) reads: Vec<Read>,
    pub(crate) writes: Vec<Write>,
    /// The host buffers that ops on the host's processor read.
    pub(crate) there: Vec<Read>,
    pub(crate) lanes: [Vec<u32>; Lane::COUNT],
    pub(crate) codecs: Vec<Codec>,
}

#[derive(Debug, Clone)]
pub(crate) struct Prepare {
    pub(crate) does: Does,
    pub(crate) lane: usize,
    /// Its part of the list of reads.
    pub(crate) reads: (u32, u32),
    /// Its part of the list of writes.
    pub(crate) writes: (u32, u32),
    /// Its part of the list of what it reads on the host.
    pub(crate) there: (u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Op,
    /// An op on the host's processor.
    There,
    D2h {
        host: usize,
    },
    H2d {
        host: usize,
    },
    /// With the host buffer that it falls back on, where the codec's size varies.
    Compress {
        codec: u32,
        fallback: Option<usize>,
    },
    Decompress {
        codec: u32,
        fallback: Option<usize>,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(crate) buffer: usize,
    /// The version that it must have: of an op's operands.
    pub(crate) version: Option<u32>,
    pub(crate) ends: Ends,
}

/// What an action leaves of a buffer that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    AsItWas,
    Changed,
    /// Nothing: this output lies over it.
    Replaced {
        by: usize,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) buffer: usize,
    pub(crate) fills: Fills,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fills {
    Output,
    /// What a copy or codec makes of what it reads.
    Carried,
    /// Workspace, or what its op does not make.
    Nothing,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Codec {
    pub(crate) varies: bool,
    pub(crate) is_lossy: bool,
}

impl Prepared<'_> {
    pub(crate) fn reads_of(&self, action: usize) -> &[Read] {
        let (from, to) = self.actions[action].reads;
        &self.reads[from as usize..to as usize]
    }

    pub(crate) fn writes_of(&self, action: usize) -> &[Write] {
        let (from, to) = self.actions[action].writes;
        &self.writes[from as usize..to as usize]
    }

    pub(crate) fn there_of(&self, action: usize) -> &[Read] {
        let (from, to) = self.actions[action].there;
        &self.there[from as usize..to as usize]
    }

    pub(crate) fn device_memory(&self) -> Memory {
        let ranges = self.plan.buffers.iter().map(|b| (b.address, b.bytes.0));
        Memory::of(&ranges.collect::<Vec<_>>())
    }

    pub(crate) fn host_memory(&self) -> Memory {
        let ranges = self.plan.host_buffers.iter().map(|b| (b.address, b.bytes.0));
        Memory::of(&ranges.collect::<Vec<_>>())
    }

    /// Buffers name tensors of the trace, are large enough for them, and lie in their arena.
    pub(crate) fn check_memory(&self) -> Result<(), Wrong> {
        let plan = self.plan;
        for (i, b) in plan.buffers.iter().enumerate() {
            let named =
                |wrong: Wrong| Wrong { what: format!("buffers[{i}] {}", wrong.what), ..wrong };
            check_range(b.address, b.bytes.0, plan.budget.0).map_err(named)?;
            if let Some(tensor) = b.tensor {
                self.check_size(tensor, b.compressed, b.bytes.0).map_err(named)?;
            }
        }
        for (i, b) in plan.host_buffers.iter().enumerate() {
            let named =
                |wrong: Wrong| Wrong { what: format!("host_buffers[{i}] {}", wrong.what), ..wrong };
            check_range(b.address, b.bytes.0, plan.host_budget.0).map_err(named)?;
            // What the host's processor makes larger than this has memory of its own, and what a
            // copy brings is held against it then.
            let bytes = if b.compressed.is_some() { u64::MAX } else { b.bytes.0 };
            self.check_size(b.tensor, b.compressed, bytes).map_err(named)?;
        }
        Ok(())
    }

    fn check_size(
        &self,
        tensor: TensorId,
        compressed: Option<CodecId>,
        bytes: u64,
    ) -> Result<(), Wrong> {
        let Some(storage) = self.wanted.tensors.get(tensor.index()) else {
            return Err(Wrong::of(Rule::Operands, format!("holds {tensor}, which is of no trace")));
        };
        let needs = match compressed.map(|codec| &self.plan.codecs[codec.index()]) {
            None => storage.bytes,
            Some(codec) if codec::is_mistaken(codec) => {
                let what = format!("is made by {codec}, which is not {:?}", codec.fidelity);
                return Err(Wrong::of(Rule::Codec, what));
            }
            Some(codec) => {
                codec::fixed_bytes(codec, storage.bytes, storage.element).unwrap_or_default()
            }
        };
        match bytes < needs {
            true => Err(Wrong::of(Rule::Size, format!("has {bytes} bytes and needs {needs}"))),
            false => Ok(()),
        }
    }

    /// Each op runs once, where it may, in the trace's order among those that run there, and again only
    /// after that.
    pub(crate) fn check_ops(&self) -> Result<(), Wrong> {
        use schema::{Processor, Task};
        let mut has_run = vec![false; self.wanted.ops.len()];
        let mut last: Vec<(Processor, usize)> = Vec::new();
        for (id, action) in self.plan.actions.iter().enumerate() {
            let (Task::Run(op) | Task::Recompute(op)) = action.task else { continue };
            let work = &self.wanted.ops[op.index()];
            let is_there = action.on == Processor::Host && work.may_be_there;
            if action.on != work.on && !is_there {
                let what = format!("{op} may not run on {:?}", action.on);
                return Err(Wrong::at(Rule::EachOpOnce, id, what));
            }
            if matches!(action.task, Task::Recompute(_)) {
                let why = match (has_run[op.index()], work.is_rerunnable) {
                    (false, _) => "has not run yet",
                    (true, false) => "may not run again",
                    (true, true) => continue,
                };
                return Err(Wrong::at(Rule::Rerun, id, format!("{op} {why}")));
            }
            let before = last.iter().filter(|(on, _)| *on == action.on).map(|(_, op)| *op).max();
            if has_run[op.index()] || before.is_some_and(|before| op.index() < before) {
                let what = format!("{op} runs out of its turn");
                return Err(Wrong::at(Rule::EachOpOnce, id, what));
            }
            has_run[op.index()] = true;
            last.retain(|(on, _)| *on != action.on);
            last.push((action.on, op.index()));
        }
        match has_run.iter().position(|ran| !ran) {
            Some(op) => Err(Wrong::of(Rule::EachOpOnce, format!("op {op} does not run"))),
            None => Ok(()),
        }
    }

    /// What outlives the iteration has a buffer that is there when it ends.
    pub(crate) fn check_outliving(&self) -> Result<(), Wrong> {
        let mut has_one = vec![false; self.wanted.tensors.len()];
        for buffer in self.plan.buffers.iter().filter(|b| b.at_end && b.compressed.is_none()) {
            if let Some(tensor) = buffer.tensor {
                has_one[tensor.index()] = true;
            }
        }
        for host in self.plan.host_buffers.iter().filter(|host| host.at_end) {
            has_one[host.tensor.index()] |= host.compressed.is_none();
        }
        let lost = (self.wanted.tensors.iter().zip(&has_one))
            .position(|(tensor, has_one)| tensor.outlives && !has_one);
        match lost {
            Some(tensor) => {
                Err(Wrong::of(Rule::End, format!("tensor {tensor} is not there at the end")))
            }
            None => Ok(()),
        }
    }

    /// What an iteration leaves on the host is what the next begins with there.
    pub(crate) fn check_homes(&self) -> Result<(), Wrong> {
        let hosts = &self.plan.host_buffers;
        let is_at = |address: u64, bytes: u64, tensor: TensorId, end: bool| {
            hosts.iter().any(|host| {
                let stays = if end { host.at_end } else { host.at_start };
                let is_same = host.address == address || bytes == 0;
                stays && is_same && host.tensor == tensor && host.compressed.is_none()
            })
        };
        for host in hosts.iter().filter(|host| host.at_start || host.at_end) {
            let there = |end| is_at(host.address, host.bytes.0, host.tensor, end);
            let is_constant = self.wanted.tensors[host.tensor.index()].is_constant;
            if !(is_constant && there(false) && there(true)) {
                let what = format!("{} does not begin where it ends on the host", host.tensor);
                return Err(Wrong::of(Rule::End, what));
            }
        }
        Ok(())
    }

    /// What is held has one buffer from when it is there until it is read for the last time, or to
    /// the end.
    pub(crate) fn check_held(&self) -> Result<(), Wrong> {
        use schema::{Action, OpId, Task};
        let (plan, wanted) = (self.plan, self.wanted);
        let runs = |op: usize| {
            let is_run = move |action: &&Action| action.task == Task::Run(OpId::from_index(op));
            plan.actions.iter().filter(is_run)
        };
        let held = wanted.tensors.iter().enumerate().filter(|(_, storage)| storage.is_held);
        for (tensor, storage) in held {
            let id = TensorId::from_index(tensor);
            let made = wanted.ops.iter().position(|work| work.writes.contains(&id));
            let last = (wanted.ops.iter()).rposition(|work| work.reads.iter().any(|r| r.0 == id));
            let has_it = plan.buffers.iter().enumerate().any(|(index, buffer)| {
                let buffer_id = schema::BufferId::from_index(index);
                let is_first = match made {
                    None => buffer.at_start,
                    Some(made) => runs(made).any(|action| action.writes.contains(&buffer_id)),
                };
                let stays = match (storage.outlives, last) {
                    (true, _) => buffer.at_end,
                    (false, None) => true,
                    (false, Some(last)) => {
                        runs(last).any(|action| action.reads.contains(&buffer_id))
                    }
                };
                buffer.tensor == Some(id) && buffer.compressed.is_none() && is_first && stays
            });
            if !has_it {
                return Err(Wrong::of(Rule::Held, format!("tensor {tensor} does not stay")));
            }
        }
        Ok(())
    }
}

fn check_range(address: u64, bytes: u64, arena: u64) -> Result<(), Wrong> {
    match bytes > 0 && address + bytes > arena {
        true => Err(Wrong::of(Rule::Arena, "ends beyond the arena")),
        false => Ok(()),
    }
}
