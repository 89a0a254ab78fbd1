//! From values to storages: views and in-place outputs, and when memory is free again.

use schema::{Bytes, InPlace, TensorId};

use super::{Lowering, RawOp, Value};
use crate::tape::{Op, Step, Tape, Tensor};

/// Decides which values share a storage, and when each storage is free again: after the last op
/// that reads it, or where nothing reads it, after the op that wrote it. Constants outlive the
/// iteration; so do results.
pub(super) fn place(lowering: Lowering) -> Tape<Step> {
    let results = results(&lowering);
    let Lowering { network, by, tensors: values, ops: mut raw, labels, seed, outputs, .. } =
        lowering;
    let mut storage: Vec<Value> = (0..values.len()).collect();
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
        let same_size =
            op.writes.len() == 1 && values[op.writes[0]].bytes() == values[input].bytes();
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
    let id = |value: Value| ids[storage[value]].expect("a storage stands for itself");
    let all = |values: &[Value]| values.iter().map(|value| id(*value)).collect::<Vec<_>>();
    let dies = |value: Value, index: usize| {
        let last = last_read[value].or(writer[value]);
        writer[value].is_some() && last == Some(index) && !results.contains(&value)
    };
    let mut ops = Vec::with_capacity(raw.len());
    for (index, op) in raw.into_iter().enumerate() {
        let RawOp { name, step, phase, reads, updates, writes, over, .. } = op;
        let over =
            over.map(|(input, output)| (storage[input], output)).filter(|(input, output)| {
                let bytes = |value: Value| tensors[id(value).index()].bytes();
                dies(*input, index) && reads.contains(input) && bytes(*input) == bytes(*output)
            });
        let used = reads.iter().chain(&writes).copied();
        let mut frees: Vec<_> = used.filter(|value| dies(*value, index)).map(id).collect();
        if by.views {
            // In the order of the tensors, as an op may end what it knows by another name.
            frees.sort_unstable();
        }
        ops.push(Op {
            name,
            step,
            phase,
            reads: all(&reads),
            updates: all(&updates),
            writes: all(&writes),
            in_place: over.map(|(input, output)| InPlace { input: id(input), output: id(output) }),
            frees,
            workspace: Bytes(op.workspace),
            work: op.work,
            recompute_differs: op.recompute_differs,
        });
    }
    if by.blobs {
        keep_all(&tensors, &mut ops);
    }
    Tape {
        name: network.name.clone(),
        batch: network.batch as usize,
        tensors,
        ops,
        loss: outputs.last().map(|loss| id(*loss)),
        labels: labels.map(id),
        seed: seed.map(id),
    }
}

/// Lets the last op free what any op frees, but for what another tensor takes the place of.
fn keep_all(tensors: &[Tensor], ops: &mut [Op<Step>]) {
    let mut overlaid = vec![false; tensors.len()];
    for op in ops.iter_mut() {
        op.in_place.iter().for_each(|pair| overlaid[pair.input.index()] = true);
        op.frees = op.in_place.iter().map(|pair| pair.input).collect();
    }
    let all = tensors.iter().enumerate().filter(|(index, t)| !t.is_constant() && !overlaid[*index]);
    if let Some(last) = ops.last_mut() {
        last.frees.extend(all.map(|(index, _)| TensorId::from_index(index)));
    }
}

/// What is there when the iteration has ended: the loss and, where no update took them, the
/// gradients that the iteration is for.
fn results(lowering: &Lowering) -> Vec<Value> {
    if !lowering.by.keeps_results {
        return Vec::new();
    }
    let parameters = lowering.parameters.iter().flatten();
    let gradients = parameters.flat_map(|parameter| &lowering.gradients[*parameter]);
    lowering.outputs.last().into_iter().chain(gradients).copied().collect()
}
