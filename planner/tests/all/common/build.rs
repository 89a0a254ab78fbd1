//! Traces, machines and models of codecs that are made up.

use schema::{
    Bytes, CodecModel, CodecModels, Document, Fidelity, Machine, ModelBasis, Nanos, Op, RatioBand,
    SizeModel, Tensor, TimeModel, TimePoint, Trace,
};

use super::random::{self, Random};

pub use checker::build::{link, op, tensor, unchecked};

pub fn trace(network: &str, tensors: Vec<Tensor>, ops: Vec<Op>) -> Trace {
    let trace = unchecked(network, tensors, ops);
    trace.check().expect("it is well formed");
    trace
}

/// A machine whose link has this bandwidth and no latency, and whose lanes do not slow each other.
pub fn machine(bytes_per_sec: u64) -> Machine {
    let mut machine = random::machine(&mut Random::new(0));
    machine.link = link(bytes_per_sec);
    machine.host.updates = None;
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
