//! Traces and links that tests make up.

use schema::{
    Bytes, BytesPerSec, Link, Nanos, Op, OpKind, Origin, Phase, Provenance, Role, Tensor, TensorId,
    Trace,
};

/// A tensor of a role and so many bytes, of which nothing else is known.
pub fn tensor(name: impl Into<String>, bytes: u64, role: Role) -> Tensor {
    Tensor::new(name, Bytes(bytes), role)
}

/// An op that takes so many nanoseconds and reads, writes and frees these tensors.
pub fn op(
    name: impl Into<String>,
    about: (OpKind, Phase),
    duration: u64,
    [reads, writes, frees]: [&[u32]; 3],
) -> Op {
    let ids = |ids: &[u32]| ids.iter().copied().map(TensorId).collect();
    Op {
        reads: ids(reads),
        writes: ids(writes),
        frees: ids(frees),
        ..Op::new(name, about, Nanos(duration))
    }
}

/// A trace that is not yet held against what a trace must be.
pub fn unchecked(network: &str, tensors: Vec<Tensor>, ops: Vec<Op>) -> Trace {
    let provenance = Provenance::new(Origin::Modelled, "none", "made up");
    Trace { network: network.into(), batch: None, provenance, tensors, ops }
}

/// A link that carries so many bytes a second in either direction, without latency, whose copies
/// slow nothing.
pub fn link(bytes_per_sec: u64) -> Link {
    Link::constant("made up", BytesPerSec(bytes_per_sec))
}
