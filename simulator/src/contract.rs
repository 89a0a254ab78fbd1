//! Whether a plan computes the trace that it was made for.
//!
//! The safety proof shows that every read finds what was written. This shows that what is
//! written is what the trace says: every op runs once and in order, on buffers of its own
//! tensors; what is run again may be; copies bring back what they took, and codecs the tensors
//! that they made smaller.

use schema::{
    Action, ActionId, Buffer, BufferId, Bytes, Digest, Document, OpId, Plan, Task, TensorId, Trace,
};

use crate::forms::Forms;
use crate::{Model, NO_OP};

/// Where a plan departs from its trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    Action {
        /// The action.
        action: ActionId,
        /// What is wrong with it.
        why: String,
    },
    /// A buffer that is not its tensor's.
    #[error("{buffer} {why}")]
    Buffer {
        /// The buffer.
        buffer: BufferId,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An op that the plan never runs.
    #[error("{op} is never run")]
    NotRun {
        /// The op.
        op: OpId,
    },
    /// A tensor that outlives the iteration and is not there at its end.
    #[error("{tensor} outlives the iteration, and no buffer holds it at the end")]
    NotThereAtEnd {
        /// The tensor.
        tensor: TensorId,
    },
}

/// Checks a well-formed and safe plan against its trace.
pub fn check_contract(plan: &Plan, trace: &Trace) -> Result<(), ContractError> {
    let digest = trace.digest();
    if plan.trace.digest != digest {
        return Err(ContractError::OtherTrace {
            wanted: (plan.trace.name.clone(), plan.trace.digest.clone()),
            given: (trace.network.clone(), digest),
        });
    }
    let contract = Contract { plan, trace, model: Model::of(trace) };
    contract.check_buffers()?;
    let mut forms = Forms::new(plan, trace);
    let mut next = OpId(0);
    for (index, action) in plan.actions.iter().enumerate() {
        let why = match action.task {
            Task::Run(op) if op == next && op.index() < trace.ops.len() => {
                next = OpId(op.0 + 1);
                forms.has_run(op, |tensor| contract.model.producer(tensor).is_some());
                contract.problem_of_run(action, op)
            }
            Task::Run(op) => Some(format!("runs {op} where {next} is due")),
            Task::Recompute(op) if op >= next => Some(format!("runs {op} again before it ran")),
            Task::Recompute(op) if next.0 > contract.model.rerun_until[op.index()] => {
                Some(format!("runs {op} again, which cannot be run again there"))
            }
            Task::Recompute(op) => contract.problem_of_run(action, op),
            Task::CopyOut(_) | Task::CopyIn(_) | Task::Compress(_) | Task::Decompress(_) => {
                forms.problem(action)
            }
        };
        if let Some(why) = why {
            return Err(ContractError::Action { action: ActionId::from_index(index), why });
        }
    }
    if next.index() < trace.ops.len() {
        return Err(ContractError::NotRun { op: next });
    }
    contract.check_end()
}

struct Contract<'a> {
    plan: &'a Plan,
    trace: &'a Trace,
    model: Model,
}

impl Contract<'_> {
    fn buffer(&self, id: BufferId) -> &Buffer {
        &self.plan.buffers[id.index()]
    }

    fn check_buffers(&self) -> Result<(), ContractError> {
        for (index, buffer) in self.plan.buffers.iter().enumerate() {
            let error =
                |why| Err(ContractError::Buffer { buffer: BufferId::from_index(index), why });
            let Some(tensor) = buffer.tensor else {
                if buffer.at_start || buffer.at_end || buffer.compressed.is_some() {
                    return error("is workspace, which does not outlive its action");
                }
                continue;
            };
            let Some(expected) = self.trace.tensors.get(tensor.index()) else {
                return error("holds a tensor that the trace does not have");
            };
            if buffer.compressed.is_some() {
                if buffer.at_start || buffer.at_end {
                    return error("is a small form, which does not outlive the iteration");
                }
                if buffer.bytes >= expected.bytes {
                    return error("is a small form that is not smaller than its tensor");
                }
            } else if expected.bytes != buffer.bytes {
                return error("is not as large as its tensor");
            }
            if buffer.at_start && self.model.producer[tensor.index()] != NO_OP {
                return error("is there at the start, but an op of the iteration makes its tensor");
            }
        }
        Ok(())
    }

    fn problem_of_run(&self, action: &Action, id: OpId) -> Option<String> {
        let op = &self.trace.ops[id.index()];
        if action.reads.iter().chain(&action.writes).any(|b| self.buffer(*b).compressed.is_some()) {
            return Some("uses a small form, which only codecs and copies do".into());
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
        if tensors(&action.reads) != sorted(&op.reads) || action.reads.len() != op.reads.len() {
            return Some(format!("does not read the tensors that {id} reads"));
        }
        if tensors(&action.writes) != sorted(&op.writes) {
            return Some(format!("does not write the tensors that {id} writes"));
        }
        let workspace =
            action.writes.iter().map(|b| self.buffer(*b)).filter(|b| b.tensor.is_none());
        if workspace.map(|b| b.bytes).sum::<Bytes>() < op.workspace {
            return Some(format!("has less workspace than {id} needs"));
        }
        let allowed = |input: BufferId, output: BufferId| {
            op.in_place.iter().any(|pair| {
                Some(pair.input) == self.buffer(input).tensor
                    && Some(pair.output) == self.buffer(output).tensor
            })
        };
        (action.in_place.iter().any(|pair| !allowed(pair.input, pair.output)))
            .then(|| format!("lays an output over an input, which {id} does not allow"))
    }

    fn check_end(&self) -> Result<(), ContractError> {
        let end = self.trace.ops.len() as u32;
        let mut there = vec![false; self.trace.tensors.len()];
        for buffer in self.plan.buffers.iter().filter(|b| b.at_end) {
            if let Some(tensor) = buffer.tensor {
                there[tensor.index()] = true;
            }
        }
        for (tensor, last_use) in self.model.last_use.iter().enumerate() {
            if *last_use == end && !there[tensor] {
                return Err(ContractError::NotThereAtEnd { tensor: TensorId::from_index(tensor) });
            }
        }
        Ok(())
    }
}
