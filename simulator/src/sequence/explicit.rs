//! A sequence from an explicit list of steps.
//!
//! Treatments of gaps leave the order of computation to rules. Methods that make the order
//! themselves (checkpointing schedules, online policies) state it step by step: a tensor may be
//! made, dropped, compressed and made again as often as they like.

use schema::{OpId, TensorId};

use super::{GONE, RESIDENT, Sequence, is_small};
use crate::parts::{Position, Swap, Treatment};
use crate::program::Lists;
use crate::{Codecs, Model, NO_OP};

/// One step of an explicit schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Runs an op for the first time. The ops of a trace run in its order.
    Run(OpId),
    /// Runs an op that has run before once more. Outputs that are still there, on the device or
    /// on the host, are made and thrown away.
    Again(OpId),
    /// Gives a tensor's memory back, after its last use before this step.
    Drop(TensorId),
    /// Copies a tensor to the host, from when the policy says, and gives its memory back after its
    /// last use before this step. It is copied in for the next run that reads it. Where copies stay on the host and one
    /// is there, nothing is copied out.
    SwapOut(TensorId),
    /// Makes a tensor smaller by a codec, here, and gives its own memory back. The compressed form
    /// stays on the device, or is copied out (`swapped`) and in. It is decompressed for the next run
    /// that reads the tensor.
    Compress {
        /// The tensor.
        tensor: TensorId,
        /// The codec, by its place among the problem's.
        codec: u8,
        /// Whether the compressed form leaves.
        swapped: bool,
    },
}

/// A step that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("step {step} of the schedule {problem}")]
pub struct StepError {
    /// The step, counted from 0; the number of steps where the end of the iteration is meant.
    pub step: u32,
    /// Why it cannot be taken.
    pub problem: StepProblem,
}

/// Why a step cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum StepProblem {
    /// The trace has no such op or tensor.
    #[error("names an op or a tensor that the trace does not have")]
    Unknown,
    /// Another op has to run first.
    #[error("runs {op} where {due} is due: each op runs once, in the trace's order")]
    OutOfOrder {
        op: OpId,
        /// The op that has to run next.
        due: OpId,
    },
    /// An op is run again that has not run.
    #[error("runs {op} again before it ran")]
    NotYetRun { op: OpId },
    /// An op is run again that cannot be, or can no longer be.
    #[error("runs {op} again, which cannot be run again there")]
    NotRerunnable { op: OpId },
    /// An op reads what is neither on the device nor on the host.
    #[error("runs {op}, which reads {tensor}: that is not there, run the op that makes it again")]
    Missing { op: OpId, tensor: TensorId },
    /// A tensor leaves that is not on the device.
    #[error("takes {tensor} away, which is not on the device")]
    NotOnDevice { tensor: TensorId },
    /// A tensor is dropped that no op makes.
    #[error("drops {tensor}, which no op can make again")]
    NeverMade { tensor: TensorId },
    /// A tensor that no op makes is swapped before anything used it. It waits on the device for
    /// its first use, as under treatments, which know no gap before it.
    #[error("swaps or compresses {tensor} before anything has used it")]
    NotYetUsed { tensor: TensorId },
    /// A tensor is taken away that the caller holds.
    #[error("takes {tensor} away, which the caller holds")]
    Held { tensor: TensorId },
    /// A codec is named that does not make the tensor smaller.
    #[error("compresses {tensor} by a codec that does not make it smaller, as far as is known")]
    NotCompressible { tensor: TensorId },
    /// A tensor is compressed that nothing reads from then on.
    #[error("is missing: {tensor} is compressed, and nothing reads it again")]
    NeverDecompressed { tensor: TensorId },
    /// The list ends before the iteration does.
    #[error("is missing: {due} is never run")]
    Unfinished {
        /// The first op that is not run.
        due: OpId,
    },
    /// A tensor that outlives the iteration is not there when it ends.
    #[error("is missing: {tensor} outlives the iteration and is not there at its end")]
    MissingAtEnd { tensor: TensorId },
}

impl Sequence {
    /// Builds and records the sequence that steps state. What is not dropped by the end and does
    /// not outlive the iteration gives its memory back after its last use.
    pub fn build_from_steps(
        &mut self,
        model: &Model,
        codecs: &Codecs,
        steps: &[Step],
    ) -> Result<(), StepError> {
        self.recording = true;
        self.restart(model);
        let mut due = 0;
        for (index, step) in steps.iter().enumerate() {
            let error = |problem| StepError { step: index as u32, problem };
            match *step {
                Step::Run(op) => self.first_run(model, op, &mut due),
                Step::Again(op) => self.run_again(model, op, due),
                Step::Drop(tensor) => self.drop_now(model, tensor, due),
                Step::SwapOut(tensor) => self.swap_out(model, tensor, due),
                Step::Compress { tensor, codec, swapped } => {
                    self.compress_now(model, codecs, (tensor, due), (codec, swapped))
                }
            }
            .map_err(error)?;
        }
        self.finish(model, due).map_err(|problem| StepError { step: steps.len() as u32, problem })
    }

    fn first_run(&mut self, model: &Model, op: OpId, due: &mut u32) -> Result<(), StepProblem> {
        if op.index() >= model.ops() {
            return Err(StepProblem::Unknown);
        }
        if op.0 != *due {
            return Err(StepProblem::OutOfOrder { op, due: OpId(*due) });
        }
        self.inputs_are_there(&model.reads, op)?;
        if model.runs_there(op) {
            self.unpack_for_update(model, op.index());
            let tensor = model.reads.get(op.index()).first().map_or(0, |tensor| *tensor);
            let problem = StepProblem::NotCompressible { tensor: TensorId(tensor) };
            self.hand_over(model, op.index()).map_err(|_| problem)?;
        } else {
            self.emit(model, op.0, false, op.0);
        }
        *due += 1;
        Ok(())
    }

    fn run_again(&mut self, model: &Model, op: OpId, due: u32) -> Result<(), StepProblem> {
        if op.index() >= model.ops() {
            return Err(StepProblem::Unknown);
        }
        if op.0 >= due {
            return Err(StepProblem::NotYetRun { op });
        }
        if due > model.rerun_until[op.index()] {
            return Err(StepProblem::NotRerunnable { op });
        }
        self.inputs_are_there(&model.reads_again, op)?;
        // What an explicit schedule brings back stays until it says otherwise, not until a burst
        // is over: so "before the first op".
        self.emit(model, op.0, true, 0);
        self.recompute_ns += model.recompute[op.index()];
        Ok(())
    }

    fn inputs_are_there(&self, reads: &Lists, op: OpId) -> Result<(), StepProblem> {
        match reads.get(op.index()).iter().find(|t| self.state[**t as usize] == GONE) {
            Some(tensor) => Err(StepProblem::Missing { op, tensor: TensorId(*tensor) }),
            None => Ok(()),
        }
    }

    fn drop_now(&mut self, model: &Model, tensor: TensorId, due: u32) -> Result<(), StepProblem> {
        self.may_leave(model, tensor, due)?;
        if model.producer[tensor.index()] == NO_OP {
            return Err(StepProblem::NeverMade { tensor });
        }
        self.drop_tensor(model, tensor.0);
        Ok(())
    }

    fn swap_out(&mut self, model: &Model, tensor: TensorId, due: u32) -> Result<(), StepProblem> {
        self.may_leave(model, tensor, due)?;
        let index = tensor.index();
        let last_use = self.last_position[index];
        if !self.was_used(model, tensor.0) {
            return Err(StepProblem::NotYetUsed { tensor });
        }
        if self.is_on_host(model, tensor.0) {
            self.leave_without_copy(model, tensor.0, Treatment::Swap);
            return Ok(());
        }
        // Copies out queue in the order of the steps: one that comes after a later use waits.
        let out_after = self.swaps.last().map_or(last_use, |swap| swap.out_after.max(last_use));
        let bytes = model.bytes[index];
        let swap = Swap {
            tensor: tensor.0,
            bytes,
            host_bytes: bytes,
            codec: None,
            there: None,
            out_after,
            ready: self.ready(model, tensor.0, out_after),
            at_no_cost: false,
            home: None,
        };
        self.d2h(model, swap, Treatment::Swap);
        Ok(())
    }

    fn compress_now(
        &mut self,
        model: &Model,
        codecs: &Codecs,
        (tensor, due): (TensorId, u32),
        how: (u8, bool),
    ) -> Result<(), StepProblem> {
        self.may_leave(model, tensor, due)?;
        if !self.was_used(model, tensor.0) {
            return Err(StepProblem::NotYetUsed { tensor });
        }
        let op = self.positions.last().map_or(NO_OP, |position| position.op);
        self.pack(model, codecs, tensor.0, how, op)
            .map_err(|_| StepProblem::NotCompressible { tensor })
    }

    /// Whether any run has used a tensor. One that no op makes counts as last used at position 0.
    fn was_used(&self, model: &Model, tensor: u32) -> bool {
        let at_first = |run: &Position| model.reads.get(run.op as usize).contains(&tensor);
        model.producer[tensor as usize] != NO_OP
            || model.is_at_home(TensorId(tensor))
            || self.last_position[tensor as usize] > 0
            || self.positions.first().is_some_and(at_first)
    }

    /// Whether a tensor is on the device, and may leave before the op that has to run next.
    fn may_leave(&self, model: &Model, tensor: TensorId, due: u32) -> Result<(), StepProblem> {
        match self.state.get(tensor.index()) {
            None => Err(StepProblem::Unknown),
            Some(&RESIDENT) if model.holds(tensor, due as usize) => {
                Err(StepProblem::Held { tensor })
            }
            Some(&RESIDENT) => Ok(()),
            Some(_) => Err(StepProblem::NotOnDevice { tensor }),
        }
    }

    fn finish(&mut self, model: &Model, due: u32) -> Result<(), StepProblem> {
        if (due as usize) < model.ops() {
            return Err(StepProblem::Unfinished { due: OpId(due) });
        }
        for tensor in 0..model.tensors() {
            let outlives = model.last_use[tensor] as usize == model.ops();
            match self.state[tensor] {
                GONE if outlives => {
                    let tensor = TensorId::from_index(tensor);
                    return Err(StepProblem::MissingAtEnd { tensor });
                }
                RESIDENT if model.is_at_home(TensorId::from_index(tensor)) => {
                    self.go_home(model, tensor as u32);
                }
                RESIDENT if !outlives => self.drop_tensor(model, tensor as u32),
                state if !outlives && is_small(state) => {
                    let tensor = TensorId::from_index(tensor);
                    return Err(StepProblem::NeverDecompressed { tensor });
                }
                _ => {}
            }
        }
        self.carry_load(0);
        self.end(model).expect("all that outlives the iteration is there");
        Ok(())
    }
}
