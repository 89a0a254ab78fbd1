//! From values to storages: views and in-place outputs, and when memory is free again.

use schema::{Bytes, InPlace, Nanos, Op, Phase, Tensor, TensorId};

use super::lower::{Iteration, RawOp};

/// Decides which values share a storage, and when each storage is free again.
pub(super) fn place(values: Vec<Tensor>, mut raw: Vec<RawOp>) -> Iteration {
    let mut storage: Vec<usize> = (0..values.len()).collect();
    let mut last_read = vec![None; values.len()];
    let mut writer = vec![None; values.len()];
    for (index, op) in raw.iter().enumerate() {
        op.reads.iter().for_each(|read| last_read[*read] = Some(index));
        op.writes.iter().for_each(|write| writer[*write] = Some(index));
    }
    // A view whose input is not needed any more takes its place; the others are names for it.
    for (index, op) in raw.iter_mut().enumerate() {
        op.reads.iter_mut().for_each(|read| *read = storage[*read]);
        let mut seen = Vec::new();
        op.reads.retain(|read| {
            !seen.contains(read) && {
                seen.push(*read);
                true
            }
        });
        if !op.views {
            continue;
        }
        let input = op.reads[0];
        let same_size = op.writes.len() == 1 && values[op.writes[0]].bytes == values[input].bytes;
        if same_size && last_read[input] == Some(index) && writer[input].is_some() {
            op.over = Some((input, op.writes[0]));
            continue;
        }
        for output in std::mem::take(&mut op.writes) {
            storage[output] = input;
            last_read[input] = last_read[input].max(last_read[output]);
        }
    }
    // What takes part: everything but the values that are views of another.
    let mut ids = vec![None; values.len()];
    let mut tensors = Vec::new();
    for (value, tensor) in values.into_iter().enumerate() {
        if storage[value] == value {
            ids[value] = Some(TensorId::from_index(tensors.len()));
            tensors.push(tensor);
        }
    }
    let id = |value: usize| ids[storage[value]].expect("a storage stands for itself");
    let mut frees: Vec<Vec<TensorId>> = vec![Vec::new(); raw.len()];
    for value in 0..storage.len() {
        if let (true, Some(writer)) = (storage[value] == value, writer[value]) {
            frees[last_read[value].unwrap_or(writer)].push(id(value));
        }
    }
    let mut works = Vec::new();
    let mut ops = Vec::new();
    for (index, (op, frees)) in raw.into_iter().zip(frees).enumerate() {
        let over =
            op.over.map(|(input, output)| (storage[input], output)).filter(|(input, output)| {
                last_read[*input] == Some(index)
                    && writer[*input].is_some()
                    && op.reads.contains(input)
                    && tensors[id(*input).index()].bytes == tensors[id(*output).index()].bytes
            });
        let over = over.map(|(input, output)| InPlace { input: id(input), output: id(output) });
        ops.push(Op {
            name: op.name,
            kind: op.work.kind,
            phase: op.phase,
            duration: Nanos::ZERO,
            recompute: op.recompute_differs.then_some(Nanos::ZERO),
            reads: op.reads.iter().map(|read| id(*read)).collect(),
            writes: op.writes.iter().map(|write| id(*write)).collect(),
            in_place: over.into_iter().collect(),
            workspace: Bytes(op.workspace),
            frees,
            rerunnable: op.phase != Phase::Update,
            flops: Some(op.work.flops),
            bytes_moved: Some(Bytes(op.work.bytes)),
        });
        works.push(op.work);
    }
    Iteration { tensors, ops, works }
}
