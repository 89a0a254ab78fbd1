//! A batch in several passes before one update.

use schema::{InPlace, Op, OpId, OpKind, Phase, Role, Tensor, TensorId, Trace};

/// The iteration whose batch goes forward and backward in `passes` of the given trace's, one after another: each
/// has inputs, results and gradients of its own, and what updates read of it is added to what was there from the
/// passes before. `time` is that of adding so many bytes to as many.
pub(crate) fn accumulated(trace: Trace, passes: u32, time: impl Fn(u64) -> schema::Nanos) -> Trace {
    let first_update = trace.ops.iter().position(|op| op.phase == Phase::Update);
    let (pass, update) = trace.ops.split_at(first_update.unwrap_or(trace.ops.len()));
    let mut made_by_pass = vec![false; trace.tensors.len()];
    pass.iter().flat_map(|op| &op.writes).for_each(|t| made_by_pass[t.index()] = true);
    let mut is_gradient = vec![false; trace.tensors.len()];
    let read = update.iter().flat_map(|op| &op.reads).filter(|t| made_by_pass[t.index()]);
    read.for_each(|t| is_gradient[t.index()] = true);

    let mut tensors = trace.tensors.clone();
    let mut ops: Vec<Op> = Vec::new();
    // Where each tensor of the trace is now.
    let mut now: Vec<TensorId> = (0..tensors.len()).map(TensorId::from_index).collect();
    for number in 0..passes {
        let before = now.clone();
        if number > 0 {
            for (index, of) in trace.tensors.iter().enumerate() {
                if made_by_pass[index] || of.role == Role::Input {
                    now[index] = TensorId::from_index(tensors.len());
                    let appears_before = of.appears_before.map(|op| OpId(op.0 + ops.len() as u32));
                    let name = format!("{}.pass{}", of.name, number + 1);
                    tensors.push(Tensor { name, appears_before, ..of.clone() });
                }
            }
        }
        for op in pass {
            ops.push(moved(op, &now));
            let fresh = op.writes.iter().filter(|t| is_gradient[t.index()] && number > 0);
            for &gradient in fresh {
                let (old, new) = (before[gradient.index()], now[gradient.index()]);
                let of = &trace.tensors[gradient.index()];
                let sum = TensorId::from_index(tensors.len());
                let name = format!("{}.sum{}", of.name, number + 1);
                tensors.push(Tensor { name: name.clone(), ..of.clone() });
                now[gradient.index()] = sum;
                let kind = (OpKind::Elementwise, Phase::Backward);
                ops.push(Op {
                    reads: vec![old, new],
                    writes: vec![sum],
                    in_place: vec![InPlace { input: old, output: sum }],
                    frees: vec![old, new],
                    bytes_moved: Some(schema::Bytes(3 * of.bytes.0)),
                    ..Op::new(name, kind, time(of.bytes.0))
                });
            }
        }
    }
    ops.extend(update.iter().map(|op| moved(op, &now)));
    let batch = trace.batch.map(|batch| batch.saturating_mul(passes));
    Trace { batch, tensors, ops, ..trace }
}

fn moved(op: &Op, now: &[TensorId]) -> Op {
    let all = |ids: &[TensorId]| ids.iter().map(|id| now[id.index()]).collect();
    let pair = |pair: &InPlace| InPlace {
        input: now[pair.input.index()],
        output: now[pair.output.index()],
    };
    Op {
        reads: all(&op.reads),
        writes: all(&op.writes),
        in_place: op.in_place.iter().map(pair).collect(),
        frees: all(&op.frees),
        ..op.clone()
    }
}
