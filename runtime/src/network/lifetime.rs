//! Where tensors die, and which outputs may take over the memory of an input.

use schema::{InPlace, OpId};

use super::{Op, Tensor};

/// Fills in `in_place` and `frees` of every op.
///
/// A tensor dies after the last op that reads it. Constants outlive the iteration; so does what
/// nothing reads: the loss is there for the user.
pub(super) fn settle(tensors: &[Tensor], ops: &mut [Op]) {
    let mut last_read = vec![None; tensors.len()];
    for (index, op) in ops.iter().enumerate() {
        for tensor in &op.reads {
            last_read[tensor.index()] = Some(OpId::from_index(index));
        }
    }
    for (index, op) in ops.iter_mut().enumerate() {
        let last = Some(OpId::from_index(index));
        let dies = |tensor: &schema::TensorId| {
            last_read[tensor.index()] == last && !tensors[tensor.index()].is_constant()
        };
        op.frees = op.reads.iter().copied().filter(dies).collect();
        op.in_place = op.step.can_overlay().and_then(|(read, write)| {
            let (input, output) = (op.reads[read], op.writes[write]);
            dies(&input).then_some(InPlace { input, output })
        });
    }
}
