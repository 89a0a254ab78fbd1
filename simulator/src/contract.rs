//! Whether a plan computes the trace that it was made for, whatever the timing.
//!
//! The safety proof shows that every read finds what was written. This shows that what is
//! written is what the trace says: every op runs once and in order, on buffers of its own
//! tensors; what is run again may be; copies bring back what they took, and codecs the tensors
//! that they compressed ([`forms`]); and what an op changes in place is there in the version that
//! each reader wants ([`versions`]). Like the proof it rests on lanes and `after` alone.

mod buffers;
mod forms;
mod versions;

use schema::{
    Action, ActionId, Buffer, BufferId, Bytes, Digest, Document, HostBufferId, OpId, Plan,
    Processor, Task, TensorId, Trace,
};

use crate::Model;
use forms::{Forms, Moved};
use versions::Versions;

/// Where a plan departs from its trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ContractError {
    /// The plan was made for another trace.
    #[error("the plan was made for trace {} ({}), not for {} ({}): pass that one, or plan again", .wanted.0, .wanted.1.short(), .given.0, .given.1.short())]
    OtherTrace {
        /// Name and digest of the trace that the plan was made for.
        wanted: (String, Digest),
        /// Name and digest of the trace that was given.
        given: (String, Digest),
    },
    /// An action that does not do what the trace says.
    #[error("{action} {why}")]
    Action { action: ActionId, why: String },
    /// A buffer that is not its tensor's.
    #[error("{buffer} {why}")]
    Buffer { buffer: BufferId, why: &'static str },
    /// An op that changes a tensor in place while another action may be using it.
    #[error(
        "{update} changes {tensor} in place, and {other}, which uses the same buffer, need not have \
         ended by then, or may have started"
    )]
    UnorderedUpdate {
        /// The action that changes the tensor.
        update: ActionId,
        other: ActionId,
        tensor: TensorId,
    },
    /// A read of a tensor as it was before, or is after, an op changed it in place.
    #[error(
        "{action} reads {tensor} as it is after change {found} in place, and the trace has it after \
         change {needed}"
    )]
    Version {
        action: ActionId,
        tensor: TensorId,
        /// How often the buffer that it reads was changed.
        found: u32,
        /// How often the tensor is changed before the op in the trace.
        needed: u32,
    },
    /// A buffer that stays with a tensor as it was before it was changed for the last time.
    #[error(
        "{buffer} keeps {tensor} for the next iteration as it is after change {found} in place, and \
         the last is {last}"
    )]
    OldAtEnd {
        buffer: BufferId,
        tensor: TensorId,
        found: u32,
        /// How often it should have been.
        last: u32,
    },
    /// A host buffer that is no place for a tensor between iterations.
    #[error("{buffer} {why}")]
    Home { buffer: HostBufferId, why: &'static str },
    /// Two buffers that hold one tensor between iterations.
    #[error("{first} and {second} both hold {tensor} when the iteration {when}")]
    TwoHolders {
        tensor: TensorId,
        first: BufferId,
        second: BufferId,
        /// `begins` or `ends`.
        when: &'static str,
    },
    /// An op that the plan never runs.
    #[error("{op} is never run")]
    NotRun { op: OpId },
    /// A tensor that outlives the iteration and is not there at its end.
    #[error("{tensor} outlives the iteration, and no buffer holds it at the end")]
    NotThereAtEnd { tensor: TensorId },
    /// A tensor that the caller holds, in a buffer that is given up while it does.
    #[error("the caller holds {tensor}, and the buffer that has it is not kept until its last use")]
    NotHeld { tensor: TensorId },
}

/// Checks a well-formed and safe plan against its trace.
///
/// # Errors
///
/// The first departure, in the order of the plan's list.
pub fn check_contract(plan: &Plan, trace: &Trace) -> Result<(), ContractError> {
    let digest = trace.digest();
    if plan.trace.digest != digest {
        return Err(ContractError::OtherTrace {
            wanted: (plan.trace.name.clone(), plan.trace.digest.clone()),
            given: (trace.network.clone(), digest),
        });
    }
    let model = Model::of(trace);
    buffers::check(plan, trace, &model)?;
    let contract = Contract { plan, trace };
    buffers::check_held(plan, trace, &model)?;
    let mut forms = Forms::new(plan, trace, &model);
    let mut versions = Versions::new(plan, trace, &model);
    let mut turns = Turns::new(trace);
    for (index, action) in plan.actions.iter().enumerate() {
        let id = ActionId::from_index(index);
        let wrong = |why| ContractError::Action { action: id, why };
        match action.task {
            Task::Run(op) | Task::Recompute(op) => {
                let again = matches!(action.task, Task::Recompute(_));
                turns.take(op, action.on, again).map_err(wrong)?;
                if action.on == Processor::Host {
                    contract.check_operands_there(action, op, &forms).map_err(wrong)?;
                    versions.run_there(id, action, op)?;
                } else {
                    contract.check_operands(action, op, again).map_err(wrong)?;
                    versions.run(id, action, op, again)?;
                }
            }
            Task::D2h(_) | Task::H2d(_) | Task::Compress(_) | Task::Decompress(_) => {
                let moved = forms.moved(action).map_err(wrong)?;
                for buffer in &action.reads {
                    versions.read(id, *buffer)?;
                }
                if let Moved::In(from, _) = moved {
                    versions.read_there(id, from)?;
                }
                match moved {
                    Moved::Within(from, to) => versions.carry(from, to),
                    Moved::Out(from, to) => versions.carry_out(from, to),
                    Moved::In(from, to) => versions.carry_in(from, to),
                }
            }
        }
    }
    turns.all_ran()?;
    let kept = plan.buffers.iter().enumerate().filter(|(_, buffer)| buffer.at_end);
    kept.map(|(index, _)| BufferId::from_index(index)).try_for_each(|b| versions.check_end(b))?;
    let kept = plan.host_buffers.iter().enumerate().filter(|(_, buffer)| buffer.at_end);
    kept.map(|(index, _)| HostBufferId::from_index(index)).try_for_each(|b| versions.check_home(b))
}

/// Which ops have run. Those of each processor run in the order of the trace; between processors, what
/// they read and change orders them.
struct Turns<'a> {
    trace: &'a Trace,
    ran: Vec<bool>,
    /// Behind the last that ran on each processor.
    next: [usize; 3],
}

impl<'a> Turns<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self { trace, ran: vec![false; trace.ops.len()], next: [0; 3] }
    }

    /// An op runs on a processor: for the first time and in its turn, or again after that.
    fn take(&mut self, op: OpId, on: Processor, again: bool) -> Result<(), String> {
        let next = self.next[on as usize];
        let only_there = |op: &usize| {
            let of = &self.trace.ops[*op];
            of.on == on && !self.ran[*op] && !of.may_run_on(Processor::Host)
        };
        let due = || (next..self.trace.ops.len()).find(only_there).unwrap_or(self.ran.len());
        let early = || Err(format!("runs {op} where {} is due", OpId::from_index(due())));
        let Some(of) = self.trace.ops.get(op.index()) else { return early() };
        match again {
            _ if !of.may_run_on(on) => Err(format!("runs {op} where the trace does not have it")),
            true if !self.ran[op.index()] => Err(format!("runs {op} again before it ran")),
            true if !of.rerunnable => Err(format!("runs {op} again, which cannot run again")),
            true => Ok(()),
            false if self.ran[op.index()] || op.index() < next || due() < op.index() => early(),
            false => {
                self.next[on as usize] = op.index() + 1;
                self.ran[op.index()] = true;
                Ok(())
            }
        }
    }

    fn all_ran(&self) -> Result<(), ContractError> {
        let not_run = self.ran.iter().position(|ran| !ran);
        not_run.map_or(Ok(()), |op| Err(ContractError::NotRun { op: OpId::from_index(op) }))
    }
}

struct Contract<'a> {
    plan: &'a Plan,
    trace: &'a Trace,
}

impl Contract<'_> {
    fn buffer(&self, id: BufferId) -> &Buffer {
        &self.plan.buffers[id.index()]
    }

    /// An op on the host's processor runs on one host buffer for each tensor that it reads, which has
    /// the tensor itself.
    fn check_operands_there(
        &self,
        action: &Action,
        id: OpId,
        forms: &Forms<'_>,
    ) -> Result<(), String> {
        let Action { reads, writes, holds, in_place, .. } = action;
        if !(reads.is_empty() && writes.is_empty() && holds.is_empty() && in_place.is_empty()) {
            return Err("runs on the host's processor, and names buffers of the device".into());
        }
        let of = |host: &HostBufferId| self.plan.host_buffers[host.index()].tensor;
        let mut there: Vec<TensorId> = action.there.iter().map(of).collect();
        let mut wanted = self.trace.ops[id.index()].reads.clone();
        there.sort_unstable();
        wanted.sort_unstable();
        if there != wanted {
            return Err(format!("does not read the tensors that {id} reads"));
        }
        match action.there.iter().all(|host| forms.is_itself_there(*host)) {
            true => Ok(()),
            false => Err("reads a host buffer that has not the tensor itself".into()),
        }
    }

    /// An op runs on one buffer for each of its operands, and with its workspace.
    fn check_operands(&self, action: &Action, id: OpId, again: bool) -> Result<(), String> {
        let op = &self.trace.ops[id.index()];
        let (reads, writes) = match again {
            true => (op.reads_again(), op.writes_again()),
            false => (&op.reads[..], &op.writes[..]),
        };
        if action.reads.iter().chain(&action.writes).any(|b| self.buffer(*b).compressed.is_some()) {
            return Err("uses a compressed form, which only codecs and copies do".into());
        }
        let tensors = |buffers: &[BufferId]| {
            let mut tensors: Vec<TensorId> =
                buffers.iter().filter_map(|b| self.buffer(*b).tensor).collect();
            tensors.sort_unstable();
            tensors
        };
        let sorted = |tensors: &[TensorId]| {
            let mut tensors = tensors.to_vec();
            tensors.sort_unstable();
            tensors
        };
        if tensors(&action.reads) != sorted(reads) || action.reads.len() != reads.len() {
            return Err(format!("does not read the tensors that {id} reads"));
        }
        if tensors(&action.writes) != sorted(writes) {
            return Err(format!("does not write the tensors that {id} writes"));
        }
        let workspace =
            action.writes.iter().map(|b| self.buffer(*b)).filter(|b| b.tensor.is_none());
        // In one piece.
        if workspace.map(|b| b.bytes).max().unwrap_or(Bytes::ZERO) < op.workspace {
            return Err(format!("has less workspace than {id} needs"));
        }
        let allowed = |input: BufferId, output: BufferId| {
            op.in_place.iter().any(|pair| {
                Some(pair.input) == self.buffer(input).tensor
                    && Some(pair.output) == self.buffer(output).tensor
            })
        };
        match action.in_place.iter().all(|pair| allowed(pair.input, pair.output)) {
            true => Ok(()),
            false => Err(format!("lays an output over an input, which {id} does not allow")),
        }
    }
}
