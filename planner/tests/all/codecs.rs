//! Which codecs a problem has for which tensors, and what they do to the bound.

use crate::common::build::{self, ZVC, models, rate, tensor};
use crate::common::random::{self, Random};
use planner::{Bound, CodecOptions, CodecTable, Problem, bound};
use schema::{Bytes, CodecModel, Dtype, Role, SizeModel, Tensor, TensorId, Trace};

/// A codec that takes `time` for any tensor.
fn model(codec: &str, size: SizeModel, time: u64) -> CodecModel {
    build::codec(codec, None, size, build::times(time, (1, time)))
}

/// A trace of three tensors: an activation, one of known sparsity, a parameter.
fn trace() -> Trace {
    let activation = Tensor { dtype: Some(Dtype::F32), ..tensor("t", 1000, Role::Activation) };
    let sparse = Tensor { sparsity: Some(0.9), ..activation.clone() };
    let parameter = Tensor { role: Role::Parameter, ..activation.clone() };
    build::unchecked("by hand", vec![activation, sparse, parameter], Vec::new())
}

fn reserved(options: CodecOptions) -> Vec<Vec<Option<u64>>> {
    let trace = trace();
    let codecs = models(vec![model("zvc", ZVC, 10), model("zfp", rate(250), 10)]);
    let table = CodecTable::new(&trace, &codecs, options);
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
        let with = |time: u64| {
            let codec = model("test", rate(250), time);
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
