use proptest::prelude::*;
use schema::{Bytes, Phase, Provenance, Role, Tensor};

use super::*;
use crate::machine;

fn named(name: &str) -> Machine {
    machine(name).expect("it comes with tidegate")
}

/// An op that writes one tensor of a type, with its FLOPs and bytes moved.
struct Case {
    kind: OpKind,
    dtype: Dtype,
    nanos: u64,
    roofline: Option<(u64, u64)>,
}

fn trace(cases: &[Case]) -> Trace {
    let tensor = |case: &Case| Tensor {
        dtype: Some(case.dtype),
        ..Tensor::new("out", Bytes(4), Role::Activation)
    };
    let op = |(index, case): (usize, &Case)| Op {
        recompute: Some(Nanos(case.nanos / 2)),
        writes: vec![TensorId::from_index(index)],
        flops: case.roofline.map(|(flops, _)| flops),
        bytes_moved: case.roofline.map(|(_, bytes)| Bytes(bytes)),
        ..Op::new(format!("op{index}"), (case.kind, Phase::Forward), Nanos(case.nanos))
    };
    Trace {
        network: "test".into(),
        batch: None,
        provenance: Provenance::new(Origin::Measured, "NVIDIA P100 PCIe", "test"),
        tensors: cases.iter().map(tensor).collect(),
        ops: cases.iter().enumerate().map(op).collect(),
    }
}

fn case(kind: OpKind, dtype: Dtype, roofline: Option<(u64, u64)>) -> Case {
    Case { kind, dtype, nanos: 1_000_000, roofline }
}

fn durations(trace: &Trace) -> Vec<u64> {
    trace.ops.iter().map(|op| op.duration.0).collect()
}

#[test]
fn each_op_follows_the_bound_of_the_roofline_that_holds_it() {
    let (f32, f16) = (Dtype::F32, Dtype::F16);
    let compute_bound = Some((1 << 40, 1));
    let memory_bound = Some((1, 1 << 30));
    let trace = trace(&[
        case(OpKind::Convolution, f32, compute_bound),
        case(OpKind::Convolution, f16, compute_bound),
        case(OpKind::Elementwise, f16, compute_bound),
        case(OpKind::Elementwise, f16, memory_bound),
    ]);
    let (from, to) = (named("p100"), named("a100-pcie"));
    let (carried, _) = carry_over(&trace, Some(&from), &to, None).expect("well formed");
    let (old, new) = (&from.device.compute, &to.device.compute);
    let ratio = |old: u64, new: u64| (1e6 * old as f64 / new as f64).round() as u64;
    let f32_ratio = ratio(old.f32_flops, new.f32_flops);
    let f16_ratio = ratio(old.f16_flops, new.f16_flops);
    let memory_ratio = ratio(old.memory_bandwidth.0, new.memory_bandwidth.0);
    assert_eq!(durations(&carried), [f32_ratio, f16_ratio, f32_ratio, memory_ratio]);
    let half = carried.ops[0].recompute.expect("it had one");
    assert!(half.0.abs_diff(f32_ratio / 2) <= 1, "recomputation follows the same ratio");
    assert_eq!(carried.provenance.origin, Origin::Scaled);
    assert_eq!(carried.provenance.device, "NVIDIA A100 PCIe 40 GB");
}

#[test]
fn an_op_may_change_sides_of_the_ridge() {
    // The bandwidth bounds it on the one machine and arithmetic on the other.
    let trace = trace(&[case(OpKind::Elementwise, Dtype::F32, Some((1_000_000, 1_000_000)))]);
    let mut from = named("p100");
    from.device.compute.f32_flops = 10_000_000_000_000;
    from.device.compute.memory_bandwidth = schema::BytesPerSec(1_000_000_000_000);
    let mut to = from.clone();
    to.device.compute.f32_flops = 500_000_000_000;
    let (carried, _) = carry_over(&trace, Some(&from), &to, None).expect("well formed");
    assert_eq!(durations(&carried), [2_000_000]);
}

#[test]
fn the_sentence_says_what_was_done() {
    let known = Some((1 << 40, 1 << 20));
    let mixed = || {
        trace(&[
            case(OpKind::Convolution, Dtype::F32, known),
            case(OpKind::Pooling, Dtype::F32, None),
            case(OpKind::View, Dtype::F32, Some((0, 0))),
        ])
    };
    let (from, to) = (named("p100"), named("a100-pcie"));
    let say = |from, to, factor| {
        let (carried, report) = carry_over(&mixed(), from, to, factor).expect("well formed");
        let changed = carried != mixed();
        assert_eq!(changed, carried.provenance.notes == [report.to_string()]);
        format!("{}: {report}", if changed { "scaled" } else { "as it was" })
    };
    let lines = [
        say(None, &to, None),
        say(None, &from, None),
        say(Some(&from), &named("p100+pcie5"), None),
        say(None, &to, Some(2.0)),
        say(Some(&from), &to, None),
        say(Some(&from), &to, Some(2.0)),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn times_are_rounded_to_the_nearest_nanosecond() {
    let mut trace = trace(&[case(OpKind::Loss, Dtype::F32, None)]);
    for (nanos, factor, expected) in
        [(3, 2.0, 2), (1, 3.0, 0), (5, 0.5, 10), (0, 2.0, 0), ((1 << 49) + 1, 1.0, (1 << 49) + 1)]
    {
        trace.ops[0].duration = Nanos(nanos);
        let to = named("p100");
        let (carried, report) = carry_over(&trace, None, &to, Some(factor)).expect("well formed");
        assert_eq!(carried.ops[0].duration, Nanos(expected), "{nanos} / {factor}");
        assert_eq!(report.after, Nanos(expected));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let good = trace(&[case(OpKind::Loss, Dtype::F32, None)]);
    let to = named("p100");
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
        let result = carry_over(&good, None, &to, Some(factor));
        assert!(matches!(result, Err(CarryOverError::Factor(_))), "{factor}");
    }
    let mut idle = to.clone();
    idle.device.compute.f32_flops = 0;
    let result = carry_over(&good, Some(&idle), &to, None);
    assert!(matches!(result, Err(CarryOverError::Machine { .. })));
    let mut long = good.clone();
    long.ops[0].duration = Nanos(1 << 49);
    let result = carry_over(&long, None, &to, Some(0.001));
    assert!(matches!(result, Err(CarryOverError::Trace { .. })));
    let mut broken = good;
    broken.ops[0].reads.push(TensorId(7));
    let result = carry_over(&broken, None, &to, None);
    let Err(CarryOverError::Trace { source, .. }) = result else { panic!("{result:?}") };
    assert!(source.to_string().starts_with("ops[0].reads names tensor 7"), "{source}");
}

proptest! {
    #[test]
    fn every_op_is_counted_once_and_nothing_panics(
        ops in prop::collection::vec((any::<u32>(), any::<Option<(u64, u64)>>()), 1..20),
        factor in any::<Option<f64>>(),
        known in any::<bool>(),
    ) {
        let cases: Vec<Case> = ops
            .iter()
            .map(|&(nanos, roofline)| Case {
                nanos: nanos.into(),
                ..case(OpKind::Attention, Dtype::Bf16, roofline)
            })
            .collect();
        let trace = trace(&cases);
        let (from, to) = (named("p100"), named("h200"));
        if let Ok((carried, report)) = carry_over(&trace, known.then_some(&from), &to, factor) {
            let shares = [report.by_roofline, report.by_factor, report.unchanged];
            prop_assert_eq!(shares.iter().map(|share| share.ops).sum::<usize>(), trace.ops.len());
            prop_assert_eq!(shares.iter().map(|share| share.time).sum::<Nanos>(), trace.total_time());
            prop_assert_eq!(report.after, carried.total_time());
            prop_assert!(carried.check().is_ok());
        } else {
            prop_assert!(factor.is_some(), "without a factor faster machines suit every trace");
        }
    }
}
