use schema::{BytesPerSec, Document, Machine, Optimizer};

use super::*;
use crate::{Extents, Network, NetworkOptions, modelled_trace, network};

fn machine() -> Machine {
    let (name, latency) = ("a network".into(), Nanos(7_000));
    let bytes_per_sec = BytesPerSec(25_000_000_000);
    let between = NetLink { name, bytes_per_sec, latency };
    Machine { network: Some(between), ..crate::test_machine::machine() }
}

fn options(ranks: u32, shard: Option<Shard>) -> NetworkOptions {
    let optimizer = Some(Optimizer::Adam);
    NetworkOptions { batch: 2, optimizer, ranks, shard, ..NetworkOptions::default() }
}

fn built(name: &str, options: &NetworkOptions) -> Network {
    network(name, options).expect("it comes with tidegate")
}

fn trace(name: &str, options: &NetworkOptions) -> Trace {
    modelled_trace(&built(name, options), &machine()).expect("a trace")
}

const STAGES: [Option<Shard>; 4] =
    [None, Some(Shard::Zero1), Some(Shard::Zero2), Some(Shard::Zero3)];

fn bytes(trace: &Trace, of: &[TensorId]) -> u64 {
    of.iter().map(|t| trace.tensors[t.index()].bytes.0).sum()
}

fn made(trace: &Trace) -> Vec<bool> {
    let mut made = vec![false; trace.tensors.len()];
    trace.ops.iter().flat_map(|op| &op.writes).for_each(|t| made[t.index()] = true);
    made
}

/// Parameters and state between iterations, and the gradients that updates find.
fn model_states(trace: &Trace) -> u64 {
    let made = made(trace);
    let kept = (0..trace.tensors.len()).filter(|index| {
        let role = trace.tensors[*index].role;
        !made[*index] && matches!(role, Role::Parameter | Role::OptimizerState)
    });
    let kept: u64 = kept.map(|index| trace.tensors[index].bytes.0).sum();
    let updates = trace.ops.iter().filter(|op| op.kind == OpKind::Optimizer);
    kept + updates.map(|op| bytes(trace, &op.frees)).sum::<u64>()
}

/// What Rajbhandari et al. 2020 print in figure 1 and table 1: GB on each device for the states of a model of 7.5
/// billion parameters, trained with Adam in mixed precision, by the degree of data parallelism.
#[test]
fn states_take_what_the_paper_prints() {
    const PARAMETERS: f64 = 7.5e9;
    let gb = |ranks: u32, shard: Option<Shard>| {
        let layers =
            Extents { layers: Some(36), hidden: Some(4096), heads: Some(32), ..Extents::default() };
        let options = NetworkOptions {
            batch: 1,
            sequence: Some(1),
            dtype: Some(schema::Dtype::F16),
            extents: layers,
            ..options(ranks, shard)
        };
        let count = built("gpt2-xl", &options).parameter_count() as f64;
        assert!((count / PARAMETERS - 1.0).abs() < 0.01, "{count} parameters");
        model_states(&trace("gpt2-xl", &options)) as f64 / count * PARAMETERS / 1e9
    };
    assert!((gb(64, None) - 120.0).abs() < 0.05, "data parallelism alone saves nothing");
    for (ranks, printed) in [
        (4, [52.5, 41.3, 30.0]),
        (16, [35.6, 21.6, 7.5]),
        (64, [31.4, 16.6, 1.88]),
        (256, [30.4, 15.4, 0.47]),
        (1024, [30.1, 15.1, 0.12]),
    ] {
        for (stage, printed) in STAGES[1..].iter().zip(printed) {
            let (of_rank, last_digit) = (gb(ranks, *stage), if printed < 2.0 { 0.01 } else { 0.1 });
            assert!(
                (of_rank - printed).abs() <= 0.51 * last_digit,
                "{ranks} {stage:?}: {of_rank} for {printed}"
            );
        }
    }
}

/// Volumes are those of section 7 of the paper, and each op takes what a ring does.
#[test]
fn twice_the_parameters_go_over_the_network_and_three_times_in_the_last_stage() {
    let (ranks, link) = (8, machine().network.expect("one"));
    for (name, untied) in [("resnet50", true), ("gpt2", false)] {
        let alone = trace(name, &options(1, None));
        let (made, parameter) =
            (made(&alone), |t: &TensorId| alone.tensors[t.index()].role == Role::Parameter);
        let all: u64 = (0..made.len())
            .filter(|index| parameter(&TensorId::from_index(*index)) && !made[*index])
            .map(|index| alone.tensors[index].bytes.0)
            .sum();
        // Of a layer's parameters not all are read by its backward.
        let read = |phase: Phase| {
            let ops =
                alone.ops.iter().filter(|op| op.phase == phase && op.kind != OpKind::Optimizer);
            let mut read: Vec<TensorId> =
                ops.flat_map(|op| &op.reads).filter(|t| parameter(t)).copied().collect();
            read.sort_unstable();
            read.dedup();
            bytes(&alone, &read)
        };
        for shard in STAGES {
            let rank = trace(name, &options(ranks, shard));
            let (mut sent, mut gathered) = (0, 0);
            for op in rank.ops.iter().filter(|op| op.kind.is_collective()) {
                let gathers = op.kind == OpKind::AllGather;
                let whole = match (gathers, op.writes.is_empty()) {
                    (true, false) => bytes(&rank, &op.writes),
                    _ => bytes(&rank, &op.reads),
                };
                let rounds = if op.kind == OpKind::AllReduce { 2 } else { 1 };
                let nanos =
                    7 * link.latency.0 + (whole * 7 * 1_000_000_000) / (8 * link.bytes_per_sec.0);
                assert!(
                    op.duration.0.abs_diff(rounds * nanos) <= rounds,
                    "{}: {}",
                    op.name,
                    op.duration
                );
                sent += rounds * whole;
                gathered += if gathers { whole } else { 0 };
            }
            let (forward, backward) = (read(Phase::Forward), read(Phase::Backward));
            if shard == Some(Shard::Zero3) {
                let once = forward + backward;
                assert!(
                    if untied { gathered == once } else { gathered >= once },
                    "{name}: {gathered} {once}"
                );
                assert!(backward > all / 2 && forward == all && sent == gathered + all);
            } else {
                assert_eq!(sent, 2 * all, "{name} {shard:?}");
            }
        }
    }
}

/// Nothing but what gathers and updates reads a share, and what is gathered is there for its window and the one before.
#[test]
fn whole_parameters_are_there_for_a_window_and_the_one_before() {
    let rank = trace("gpt2", &options(4, Some(Shard::Zero3)));
    let made = made(&rank);
    let is_parameter = |t: &TensorId| rank.tensors[t.index()].role == Role::Parameter;
    let (mut whole, mut most) = (0, 0);
    for op in &rank.ops {
        let shares = op.reads.iter().any(|t| is_parameter(t) && !made[t.index()]);
        assert!(!shares || matches!(op.kind, OpKind::AllGather | OpKind::Optimizer), "{}", op.name);
        let parameters = |list: &[TensorId]| -> Vec<TensorId> {
            list.iter().filter(|t| is_parameter(t) && made[t.index()]).copied().collect()
        };
        whole += bytes(&rank, &parameters(&op.writes));
        most = most.max(whole);
        whole -= bytes(&rank, &parameters(&op.frees));
    }
    assert_eq!(whole, 0, "all is given back");
    let of_op = |op: &Op| {
        op.reads.iter().filter(|t| is_parameter(t) && made[t.index()]).copied().collect::<Vec<_>>()
    };
    let largest = rank.ops.iter().map(|op| bytes(&rank, &of_op(op))).max().expect("there are ops");
    assert!((largest..=2 * largest.max(BUCKET.0)).contains(&most), "{most} for {largest}");
}

/// What changes in place changes on all ranks: updates their share, and then a gathering what the others have.
#[test]
fn every_parameter_that_stays_whole_is_gathered_after_its_update() {
    for (shard, early) in [(Shard::Zero1, false), (Shard::Zero2, true)] {
        let options = NetworkOptions { update_in_backward: early, ..options(4, Some(shard)) };
        let rank = trace("gpt2", &options);
        let mut waiting: Vec<TensorId> = Vec::new();
        for op in &rank.ops {
            let parameters =
                op.reads.iter().filter(|t| rank.tensors[t.index()].role == Role::Parameter);
            match (op.kind, op.phase) {
                (OpKind::Optimizer, _) => waiting.extend(parameters),
                (OpKind::AllGather, Phase::Update) => {
                    assert_eq!(op.mutates.as_ref(), Some(&op.reads));
                    waiting.retain(|t| !op.reads.contains(t));
                }
                _ => assert!(
                    parameters.clone().all(|t| !waiting.contains(t)),
                    "{} reads what is old",
                    op.name
                ),
            }
        }
        assert!(waiting.is_empty(), "{shard:?}: {waiting:?}");
    }
}

#[test]
fn passes_add_up_shares_and_exchange_what_is_whole_once() {
    let collectives = |shard, accumulate| {
        let options = NetworkOptions { batch: 4, accumulate, ..options(4, shard) };
        let rank = trace("resnet18", &options);
        let of = |kind| rank.ops.iter().filter(move |op| op.kind == kind).count();
        [OpKind::AllReduce, OpKind::ReduceScatter, OpKind::AllGather].map(of)
    };
    assert_eq!(collectives(None, 2), collectives(None, 1));
    assert_eq!(collectives(Some(Shard::Zero1), 2), collectives(Some(Shard::Zero1), 1));
    let [[_, once, after], [_, twice, still]] =
        [1, 2].map(|passes| collectives(Some(Shard::Zero2), passes));
    assert_eq!((twice, still), (2 * once, after));
    let [[.., once], [.., twice]] = [1, 2].map(|passes| collectives(Some(Shard::Zero3), passes));
    assert_eq!(twice, 2 * once);
}

#[test]
fn one_rank_is_a_device_alone_and_what_cannot_be_is_refused() {
    let [alone, one] = [1, 1].map(|ranks| trace("alexnet", &options(ranks, None)).digest());
    assert_eq!(alone, one);
    let refused = |options: &NetworkOptions, machine: &Machine| {
        let made = network("alexnet", options).and_then(|it| modelled_trace(&it, machine));
        made.expect_err("it cannot be").to_string()
    };
    let without = crate::test_machine::machine();
    assert!(refused(&options(4, None), &without).contains("--net-link"));
    let alone = options(1, Some(Shard::Zero1));
    assert!(refused(&alone, &machine()).contains("several ranks"));
    let none = NetworkOptions { optimizer: Some(Optimizer::None), ..options(4, None) };
    assert!(refused(&none, &machine()).contains("optimizer"));
    let caffe = crate::modelled_trace_by(
        &built("alexnet", &options(4, None)),
        &crate::Conventions::CAFFE,
        &machine(),
    );
    assert!(caffe.expect_err("its gradients stay").to_string().contains("outlive their update"));
}
