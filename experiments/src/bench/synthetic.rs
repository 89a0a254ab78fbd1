//! Traces that are made up, for timing.

use schema::{Bytes, Nanos, Op, OpKind, Origin, Phase, Provenance, Role, Tensor, TensorId, Trace};

/// A chain of ops, forward and back, each of which makes one tensor that its mirror reads; of each,
/// `shape` says how large the tensor is and how long it takes.
pub fn chain(ops: u64, shape: impl Fn(u64) -> (Bytes, Nanos)) -> Trace {
    let half = ops / 2;
    let tensor = |index: u64| Tensor::new(format!("t{index}"), shape(index).0, Role::Activation);
    let op = |index: u64| {
        let mirror = (ops - 1 - index) as u32;
        let forward = index < half;
        let previous = (index > 0).then(|| TensorId(index as u32 - 1));
        let saved = (!forward && Some(TensorId(mirror)) != previous && u64::from(mirror) < index)
            .then_some(TensorId(mirror));
        let freed = (!forward).then_some(previous).flatten();
        let phase = if forward { Phase::Forward } else { Phase::Backward };
        Op {
            reads: previous.into_iter().chain(saved).collect(),
            writes: vec![TensorId(index as u32)],
            frees: freed.into_iter().chain(saved).collect(),
            ..Op::new(format!("op{index}"), (OpKind::Other, phase), shape(index).1)
        }
    };
    Trace {
        network: format!("synthetic chain of {ops}"),
        batch: None,
        provenance: Provenance::new(Origin::Modelled, "none", "made up, for timing"),
        tensors: (0..ops).map(tensor).collect(),
        ops: (0..ops).map(op).collect(),
    }
}

/// Tensors of 1 to 16 MiB, each op in 0.1 to 1 ms: such as the link of a machine can and cannot hide.
pub fn uneven(index: u64) -> (Bytes, Nanos) {
    // Multiplicative hashing (Knuth, volume 3, section 6.4).
    let drawn = |salt: u64| (index + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
    (Bytes((1 + drawn(0)) << 20), Nanos(100_000 + 60_000 * drawn(7)))
}
