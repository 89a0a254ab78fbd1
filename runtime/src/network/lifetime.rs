//! Where tensors die, and which outputs may take over the memory of an input.

use schema::{InPlace, OpId, TensorId};

use super::{Op, Tensor};

/// Fills in `in_place` and `frees` of every op.
///
/// A tensor dies after the last op that reads it, or where nothing reads it, after the op that
/// wrote it. Constants outlive the iteration; so do `results`, which are there for the user.
pub(super) fn settle(tensors: &[Tensor], ops: &mut [Op], results: &[TensorId]) {
    let mut last_use = vec![None; tensors.len()];
    for (index, op) in ops.iter().enumerate() {
        for tensor in op.reads.iter().chain(&op.writes) {
            last_use[tensor.index()] = Some(OpId::from_index(index));
        }
    }
    let stays =
        |tensor: TensorId| tensors[tensor.index()].is_constant() || results.contains(&tensor);
    for (index, op) in ops.iter_mut().enumerate() {
        let last = Some(OpId::from_index(index));
        let dies = |tensor: TensorId| last_use[tensor.index()] == last && !stays(tensor);
        let used = op.reads.iter().chain(&op.writes).copied();
        op.frees = used.filter(|tensor| dies(*tensor)).collect();
        op.in_place = op.step.can_overlay().and_then(|(read, write)| {
            let (input, output) = (op.reads[read], op.writes[write]);
            dies(input).then_some(InPlace { input, output })
        });
    }
}
