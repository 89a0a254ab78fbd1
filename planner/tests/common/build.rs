//! Traces, machines and models of codecs that are made up.

use schema::{
    Bandwidth, Bytes, BytesPerSec, CodecModel, CodecModels, Document, Fidelity, Home, Machine,
    ModelBasis, Nanos, Op, OpKind, Origin, Phase, Provenance, RatioBand, Role, SizeModel, Tensor,
    TensorId, TimeModel, TimePoint, Trace,
};

use super::random::{self, Random};

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

/// Not yet held against what a trace must be.
pub fn unchecked(network: &str, tensors: Vec<Tensor>, ops: Vec<Op>) -> Trace {
    let provenance = Provenance::new(Origin::Modelled, "none", "made up");
    Trace { network: network.into(), batch: None, provenance, tensors, ops }
}

pub fn trace(network: &str, tensors: Vec<Tensor>, ops: Vec<Op>) -> Trace {
    let trace = unchecked(network, tensors, ops);
    trace.check().expect("it is well formed");
    trace
}

/// A machine whose link has this bandwidth and no latency, and whose lanes do not slow each other.
pub fn machine(bytes_per_sec: u64) -> Machine {
    let mut machine = random::machine(&mut Random::new(0));
    machine.link.d2h = Bandwidth::constant(BytesPerSec(bytes_per_sec));
    machine.link.h2d = machine.link.d2h.clone();
    machine.link.latency = Nanos::ZERO;
    machine.link.both_directions = 1.0;
    machine.link.beside_copy = 1.0;
    machine
}

pub const ZVC: SizeModel =
    SizeModel::Sparsity { overhead_permille: 32, dense_permille: 1000, margin_permille: 0 };

pub fn rate(permille: u32) -> SizeModel {
    SizeModel::Rate { permille, margin_permille: 0 }
}

/// Nanoseconds for none and for some bytes, and lines between and beyond these.
pub fn times(none: u64, (bytes, some): (u64, u64)) -> TimeModel {
    let point = |bytes, time| TimePoint { bytes: Bytes(bytes), time: Nanos(time) };
    let points = vec![point(0, none), point(bytes, some)];
    TimeModel {
        bands: vec![RatioBand { up_to_permille: 1000, points }],
        spread_permille: None,
        basis: ModelBasis::Modelled,
        source: "made up".into(),
    }
}

/// A codec as it is known by its name, which takes these times to compress and to decompress.
pub fn codec(codec: &str, parameter: Option<f64>, size: SizeModel, time: TimeModel) -> CodecModel {
    let fidelity = match codec {
        "zfp" => Fidelity::FixedRate,
        "sz" => Fidelity::ErrorBounded,
        _ => Fidelity::Lossless,
    };
    let (compress, decompress) = (time.clone(), time);
    CodecModel { codec: codec.into(), parameter, fidelity, size, compress, decompress }
}

pub fn models(models: Vec<CodecModel>) -> CodecModels {
    CodecModels { device: "none".into(), source: "made up".into(), models }
}
