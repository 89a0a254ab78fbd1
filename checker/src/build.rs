//! Traces and links that tests make up.

use schema::{
    Bandwidth, Bytes, BytesPerSec, Home, Link, Nanos, Op, OpKind, Origin, Phase, Provenance, Role,
    Tensor, TensorId, Trace,
};

/// A tensor of a role and so many bytes, of which nothing else is known.
pub fn tensor(name: impl Into<String>, bytes: u64, role: Role) -> Tensor {
    Tensor {
        name: name.into(),
        bytes: Bytes(bytes),
        role,
        dtype: None,
        home: Home::Device,
        appears_before: None,
        sparsity: None,
    }
}

/// An op that takes so many nanoseconds and reads, writes and frees these tensors.
pub fn op(
    name: impl Into<String>,
    (kind, phase): (OpKind, Phase),
    duration: u64,
    [reads, writes, frees]: [&[u32]; 3],
) -> Op {
    let ids = |ids: &[u32]| ids.iter().copied().map(TensorId).collect();
    Op {
        name: name.into(),
        kind,
        phase,
        duration: Nanos(duration),
        recompute: None,
        reads: ids(reads),
        writes: ids(writes),
        in_place: Vec::new(),
        workspace: Bytes::ZERO,
        frees: ids(frees),
        rerunnable: true,
        flops: None,
        bytes_moved: None,
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
    let bandwidth = Bandwidth::constant(BytesPerSec(bytes_per_sec));
    Link {
        name: "made up".into(),
        d2h: bandwidth.clone(),
        h2d: bandwidth,
        latency: Nanos::ZERO,
        both_directions: 1.0,
        beside_copy: 1.0,
    }
}
