//! Traces, machines and codecs for plans of small networks. Times are worked out and not measured,
//! so that the plans are the same everywhere.

use std::collections::BTreeMap;

use planner::methods::by_name;
use planner::{CodecOptions, NoMonitor, Problem};
use runtime::network::{Measured, Network};
use runtime::profile::zeros;
use schema::{
    Bytes, BytesPerSec, CodecModel, CodecModels, Compute, Device, Fidelity, Host, Link, Machine,
    ModelBasis, Nanos, Origin, Plan, Provenance, RatioBand, SizeModel, TimeModel, TimePoint, Trace,
};

use crate::networks;

pub const SEED: u64 = 5;

/// The trace of a network, with the sparsity of its first iteration.
pub fn trace(network: &Network) -> Trace {
    let durations = network.ops().iter().map(|op| Nanos(2_000 + op.work.flops / 2));
    let measured =
        Measured { durations: durations.collect(), sparsity: zeros(network, 1, SEED).unwrap() };
    let provenance = Provenance::new(Origin::Modelled, "none", "a test");
    network.trace(&measured, provenance)
}

/// A link of so many megabytes per second.
pub fn link(megabytes: u64) -> Link {
    let link = Link::constant("test", BytesPerSec(megabytes * 1_000_000));
    Link { latency: Nanos(1_000), both_directions: 0.8, beside_copy: 0.9, ..link }
}

pub fn machine(codec_lane: bool) -> Machine {
    Machine {
        name: "test".into(),
        description: "made up".into(),
        device: Device {
            name: "test".into(),
            memory: Bytes(1 << 30),
            reserved: Bytes(0),
            compute: Compute {
                codec_lane,
                beside_codec: 0.9,
                ..Compute::new(2_000_000_000, BytesPerSec(10_000_000_000))
            },
        },
        host: Host::new(Bytes(1 << 30)),
        link: link(500),
        network: None,
        sources: BTreeMap::new(),
    }
}

fn times() -> TimeModel {
    let point = |bytes: u64| TimePoint { bytes: Bytes(bytes), time: Nanos(500 + bytes / 16) };
    TimeModel {
        bands: vec![RatioBand { up_to_permille: 1000, points: vec![point(0), point(1 << 20)] }],
        spread_permille: None,
        basis: ModelBasis::Modelled,
        source: "made up".into(),
    }
}

fn models(codec: &str, parameter: Option<f64>, fidelity: Fidelity, size: SizeModel) -> CodecModels {
    let model = CodecModel {
        codec: codec.into(),
        parameter,
        fidelity,
        size,
        compress: times(),
        decompress: times(),
    };
    CodecModels { device: "test".into(), source: "made up".into(), models: vec![model] }
}

/// Zero-value compression, for which a margin in thousandths is reserved.
pub fn zvc(margin_permille: u32) -> CodecModels {
    let size = SizeModel::Sparsity { overhead_permille: 40, dense_permille: 1000, margin_permille };
    models("zvc", None, Fidelity::Lossless, size)
}

pub fn sz(bound: f64) -> CodecModels {
    let size = SizeModel::Rate { permille: 400, margin_permille: 200 };
    models("sz", Some(bound), Fidelity::ErrorBounded, size)
}

/// ZFP at 8 bits a value.
pub fn zfp() -> CodecModels {
    let size = SizeModel::Rate { permille: 250, margin_permille: 0 };
    models("zfp", Some(8.0), Fidelity::FixedRate, size)
}

/// A network and its trace.
pub struct Subject {
    pub network: Network,
    pub trace: Trace,
}

impl Subject {
    pub fn new(network: Network) -> Self {
        Self { trace: trace(&network), network }
    }

    pub fn small(name: &str) -> Self {
        Self::new(networks::small(name))
    }

    /// Told of so many times the zeros that there are.
    pub fn told(mut self, factor: f64) -> Self {
        for tensor in &mut self.trace.tensors {
            tensor.sparsity = tensor.sparsity.map(|share| (share * factor).min(0.95));
        }
        self
    }

    /// The plan of a method at a share of what activations and gradients take in-core.
    pub fn plan(
        &self,
        method: &str,
        percent: u64,
        codec_lane: bool,
        codecs: Option<&CodecModels>,
    ) -> Plan {
        let whole = simulator::in_core(&self.trace);
        let budget = whole.fixed.0 + (whole.peak.0 - whole.fixed.0) * percent / 100;
        let machine = machine(codec_lane);
        let mut problem = Problem::new(&self.trace, &machine, Bytes(budget));
        problem.limits.evaluations = 100;
        if let Some(models) = codecs {
            let options = CodecOptions { lossy: true, ..CodecOptions::default() };
            problem = problem.with_codecs(models, options).with_host_codecs(models, options);
        }
        let of_method = by_name(method).expect("a method");
        let plan = planner::plan(of_method.as_ref(), &problem, &NoMonitor);
        plan.unwrap_or_else(|error| panic!("{method}: {error}")).into_plan()
    }
}
