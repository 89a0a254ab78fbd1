//! Which codecs a problem has for which tensors, and what they do to the bound.

mod common;

use common::random::{self, Random};
use planner::{Bound, CodecOptions, CodecTable, Problem, bound};
use schema::{
    Bytes, CodecModel, CodecModels, Dtype, Fidelity, ModelBasis, Nanos, RatioBand, Role, SizeModel,
    TensorId, TimeModel, TimePoint, Trace,
};

/// A codec that takes `time` for any tensor.
fn model(codec: &str, fidelity: Fidelity, size: SizeModel, time: u64) -> CodecModel {
    let point = |bytes| TimePoint { bytes: Bytes(bytes), time: Nanos(time) };
    let band = RatioBand { up_to_permille: 1000, points: vec![point(0), point(1)] };
    let times = TimeModel {
        bands: vec![band],
        spread_permille: None,
        basis: ModelBasis::Modelled,
        source: "made up".into(),
    };
    let (compress, decompress) = (times.clone(), times);
    CodecModel { codec: codec.into(), parameter: None, fidelity, size, compress, decompress }
}

fn models(models: Vec<CodecModel>) -> CodecModels {
    CodecModels { device: "none".into(), source: "made up".into(), models }
}

fn zvc_and_zfp() -> CodecModels {
    let zvc =
        SizeModel::Sparsity { overhead_permille: 32, dense_permille: 1000, margin_permille: 0 };
    let zfp = SizeModel::Rate { permille: 250, margin_permille: 0 };
    models(vec![
        model("zvc", Fidelity::Lossless, zvc, 10),
        model("zfp", Fidelity::FixedRate, zfp, 10),
    ])
}

/// A trace of three tensors: an activation, one of known sparsity, a parameter.
fn trace() -> Trace {
    let mut trace = random::trace(&mut Random::new(1), 1);
    trace.ops.clear();
    let template = schema::Tensor {
        name: "t".into(),
        bytes: Bytes(1000),
        role: Role::Activation,
        dtype: Some(Dtype::F32),
        home: Default::default(),
        appears_before: None,
        sparsity: None,
    };
    trace.tensors = vec![
        template.clone(),
        schema::Tensor { sparsity: Some(0.9), ..template.clone() },
        schema::Tensor { role: Role::Parameter, ..template },
    ];
    trace
}

fn reserved(options: CodecOptions) -> Vec<Vec<Option<u64>>> {
    let trace = trace();
    let table = CodecTable::new(&trace, &zvc_and_zfp(), options);
    let cost = |codec, tensor| table.costs.cost(codec, TensorId(tensor)).map(|c| c.reserved.0);
    let of = |codec: u8| (0..3).map(|tensor| cost(codec, tensor)).collect();
    (0..table.codecs.len() as u8).map(of).collect()
}

#[test]
fn only_lossless_codecs_are_used_unless_asked_for() {
    let nothing_stated = reserved(CodecOptions::default());
    assert_eq!(nothing_stated, [[None, Some(132), None]], "only one tensor's zeros are known");
    let lossy = reserved(CodecOptions { sparsity: None, lossy: true });
    assert_eq!(lossy[1], [Some(256), Some(256), None], "parameters keep their values");
}

#[test]
fn a_stated_sparsity_serves_where_the_trace_does_not_know_better() {
    let stated = reserved(CodecOptions { sparsity: Some(0.5), lossy: false });
    assert_eq!(stated, [[Some(532), Some(132), None]], "parameters are not assumed to be sparse");
}

#[test]
fn codecs_lower_the_bound_and_slow_ones_do_not() {
    let (mut lowered, mut same) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let trace = random::trace(&mut random, 60);
        let machine = random::machine(&mut random);
        let budget = Bytes(simulator::in_core(&trace).peak.0 * 6 / 10);
        let size = SizeModel::Rate { permille: 250, margin_permille: 0 };
        let with = |time: u64| {
            let codec = model("test", Fidelity::Lossless, size, time);
            let options = CodecOptions::default();
            bound(
                &Problem::new(&trace, &machine, budget).with_codecs(&models(vec![codec]), options),
            )
        };
        let without = bound(&Problem::new(&trace, &machine, budget));
        let (Bound::Time(free), Bound::Time(slow), Bound::Time(without)) =
            (with(0), with(1 << 40), without)
        else {
            continue;
        };
        assert!(free <= slow && slow <= without, "seed {seed}: {free}, {slow}, {without}");
        lowered += u32::from(free < without);
        same += u32::from(without > trace.total_time() && slow.0 + 2 >= without.0);
    }
    assert!(lowered > 20 && same > 20, "{lowered} lowered, {same} the same");
}
