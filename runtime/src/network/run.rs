//! Running one op.

use schema::{OpId, TensorId};

use super::compute::Failure;
use super::{Network, Op, bf16};
use crate::layers::{LabelError, TokenError};

/// The memory that one op works on. Every slice is as long as its tensor.
#[derive(Debug)]
pub struct Operands<'a> {
    /// What [`Op::reads`](networks::Op::reads) names, in that order. `None` for the input of
    /// [`Op::in_place`](networks::Op::in_place) where the output takes over its memory: the
    /// output's slice then holds the input.
    pub reads: Vec<Option<&'a [f32]>>,
    /// What [`Op::updates`](networks::Op::updates) names.
    pub updates: Vec<&'a mut [f32]>,
    /// What [`Op::writes`](networks::Op::writes) names. They need not be initialised.
    pub writes: Vec<&'a mut [f32]>,
    /// At least as long as [`Step::workspace_floats`](super::Step::workspace_floats) says; it need
    /// not be initialised.
    pub workspace: &'a mut [f32],
}

/// Why an op did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum RunError {
    #[error("the network has {count} ops, and {op} is not among them")]
    UnknownOp { op: OpId, count: usize },
    #[error("{op} (`{name}`) was not given the operands that it has")]
    Operands { op: OpId, name: String },
    #[error("{op} was given {found} elements for {tensor}, which has {expected}")]
    Length { op: OpId, tensor: TensorId, expected: usize, found: usize },
    #[error("{op} was given {found} floats of workspace and needs {expected}")]
    Workspace { op: OpId, expected: usize, found: usize },
    /// A label that is not a class; the op's outputs are then not valid.
    #[error("the labels of {op} are wrong")]
    Label { op: OpId, source: LabelError },
    /// A token that is no row of its table; the op's outputs are then not valid.
    #[error("the tokens of {op} are wrong")]
    Token { op: OpId, source: TokenError },
}

impl Network {
    /// Runs an op. What it writes depends on what it reads, bit for bit, and on nothing else; it is
    /// rounded to what its tensor is stored as.
    pub fn run_op(&self, id: OpId, mut operands: Operands) -> Result<(), RunError> {
        let op = self.ops().get(id.index());
        let op = op.ok_or(RunError::UnknownOp { op: id, count: self.ops().len() })?;
        self.check_operands(id, op, &operands)?;
        op.step.compute(&mut operands).map_err(|failure| match failure {
            Failure::Operands => self.wrong_operands(id),
            Failure::Label(source) => RunError::Label { op: id, source },
            Failure::Token(source) => RunError::Token { op: id, source },
        })?;
        for (tensor, cells) in op.writes.iter().zip(&mut operands.writes) {
            if self.tensor(*tensor).is_narrow() {
                bf16::round(cells);
            }
        }
        Ok(())
    }

    /// Checks that every slice is there and as long as its tensor.
    fn check_operands(&self, id: OpId, op: &Op, operands: &Operands) -> Result<(), RunError> {
        let reads = operands.reads.iter().map(|slice| slice.map(<[f32]>::len));
        let updates = operands.updates.iter().map(|slice| Some(slice.len()));
        let writes = operands.writes.iter().map(|slice| Some(slice.len()));
        self.check_slices(id, op, &op.reads, reads)?;
        self.check_slices(id, op, &op.updates, updates)?;
        self.check_slices(id, op, &op.writes, writes)?;
        let (expected, found) = (op.step.workspace_floats(), operands.workspace.len());
        if found < expected {
            return Err(RunError::Workspace { op: id, expected, found });
        }
        Ok(())
    }

    fn check_slices(
        &self,
        id: OpId,
        op: &Op,
        tensors: &[TensorId],
        lengths: impl ExactSizeIterator<Item = Option<usize>>,
    ) -> Result<(), RunError> {
        if tensors.len() != lengths.len() {
            return Err(self.wrong_operands(id));
        }
        for (tensor, found) in tensors.iter().zip(lengths) {
            let expected = self.tensor(*tensor).elements;
            match found {
                Some(found) if found != expected => {
                    return Err(RunError::Length { op: id, tensor: *tensor, expected, found });
                }
                None if op.in_place.is_none_or(|pair| pair.input != *tensor) => {
                    return Err(self.wrong_operands(id));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn wrong_operands(&self, op: OpId) -> RunError {
        RunError::Operands { op, name: self.op(op).name.clone() }
    }
}
