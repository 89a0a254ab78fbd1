//! Small hand-made values that the tests show.

use schema::{
    ActionId, Basis, Bytes, Digest, InCore, Interval, Lane, MemoryPoint, Nanos, OpId, Origin,
    Provenance, Reference, Stall, StallCause, Task, TensorId, Timeline,
};

use crate::{Comparison, Frontier, FrontierPoint, MethodResult, Smallest, Status};

pub(crate) fn reference(name: &str) -> Reference {
    Reference { name: name.into(), digest: Digest::of_bytes(name.as_bytes()) }
}

/// An interval without stall; `times` are nanoseconds.
pub(crate) fn interval(
    action: u32,
    task: Task,
    label: &str,
    bytes: u64,
    times: [u64; 2],
    follows: &[u32],
) -> Interval {
    Interval {
        action: ActionId(action),
        lane: task.lane(false),
        task,
        label: label.into(),
        bytes: Bytes(bytes),
        start: Nanos(times[0]),
        end: Nanos(times[1]),
        stall: None,
        follows: follows.iter().copied().map(ActionId).collect(),
    }
}

/// The timeline of two convolutions, whose first output goes out and comes back in a compressed
/// form that is made beside compute.
pub(crate) fn timeline_with_codecs() -> Timeline {
    let mut timeline = timeline();
    let on_codec_lane = |action, task, times, follows: &[u32]| Interval {
        lane: Lane::Codec,
        ..interval(action, task, "a<1>", 24_000_000, times, follows)
    };
    let a = TensorId(4);
    let (packed, unpacked) = ([1_000_001, 1_300_000], [3_000_001, 3_200_000]);
    timeline.intervals.push(on_codec_lane(7, Task::Compress(a), packed, &[]));
    timeline.intervals.push(on_codec_lane(8, Task::Decompress(a), unpacked, &[3]));
    timeline.intervals[1].start = Nanos(1_300_000);
    timeline
}

/// Two convolutions forward and backward. The first output is swapped, the second made again.
pub(crate) fn timeline() -> Timeline {
    let mut intervals = vec![
        interval(0, Task::Run(OpId(0)), "conv1", 0, [0, 1_000_001], &[]),
        interval(1, Task::D2h(TensorId(4)), "a<1>", 12_000_000, [1_000_001, 2_000_001], &[]),
        interval(2, Task::Run(OpId(1)), "conv2", 0, [1_000_001, 2_500_000], &[]),
        interval(3, Task::H2d(TensorId(4)), "a<1>", 12_000_000, [2_000_001, 3_000_001], &[1]),
        interval(4, Task::Recompute(OpId(1)), "conv2", 0, [3_000_001, 4_500_000], &[3]),
        interval(5, Task::Run(OpId(2)), "conv2'", 0, [4_500_000, 7_000_000], &[]),
        interval(6, Task::Run(OpId(3)), "conv1'", 0, [7_000_000, 8_000_000], &[3]),
    ];
    let stall = Stall { idle: Nanos(500_001), on: ActionId(3), cause: StallCause::Data };
    intervals[4].stall = Some(stall);
    let memory = [
        (0, 16_000_000, 0),
        (1_000_001, 30_000_000, 12_000_000),
        (2_000_001, 18_000_000, 12_000_000),
        (3_000_001, 30_000_000, 0),
        (7_000_000, 16_000_000, 0),
        (8_000_000, 4_000_000, 0),
    ];
    Timeline {
        basis: Basis::Predicted,
        method: "tide".into(),
        trace: reference("two-convolutions"),
        machine: reference("laptop"),
        budget: Bytes(32_000_000),
        iteration: Nanos(8_000_000),
        peak: Bytes(30_000_000),
        intervals,
        memory: (memory.iter())
            .map(|&(at, resident, in_flight)| MemoryPoint {
                at: Nanos(at),
                resident: Bytes(resident),
                in_flight: Bytes(in_flight),
            })
            .collect(),
    }
}

/// The small timeline so many times over, one after the other.
pub(crate) fn long(times: u32) -> Timeline {
    let small = timeline();
    let (mut intervals, mut memory) = (Vec::new(), Vec::new());
    for turn in 0..times {
        let begin = Nanos(u64::from(turn) * small.iteration.0);
        let later = |action: ActionId| ActionId(action.0 + turn * small.intervals.len() as u32);
        intervals.extend(small.intervals.iter().map(|interval| Interval {
            action: later(interval.action),
            start: begin + interval.start,
            end: begin + interval.end,
            stall: interval.stall.map(|stall| Stall { on: later(stall.on), ..stall }),
            follows: interval.follows.iter().copied().map(later).collect(),
            ..interval.clone()
        }));
        memory.extend(small.memory.iter().map(|p| MemoryPoint { at: begin + p.at, ..*p }));
    }
    let iteration = Nanos(u64::from(times) * small.iteration.0);
    Timeline { iteration, intervals, memory, ..small }
}

/// A plan that takes `time` milliseconds where in core takes 100, with a peak in MB.
pub(crate) fn plan(method: &str, time: u64, peak: u64, counts: [u64; 3]) -> MethodResult {
    let [kept, swapped, recomputed] = counts;
    let moved = Some(Bytes(swapped * 50_000_000));
    MethodResult {
        method: method.into(),
        iteration: Some(Nanos(time * 1_000_000)),
        slowdown: Some(time as f64 / 100.0),
        peak: Some(Bytes(peak * 1_000_000)),
        arena: Some(Bytes(peak * 1_010_000)),
        gap: Some(time as f64 / 105.0 - 1.0),
        plan_seconds: Some(0.25),
        kept: Some(kept),
        swapped: Some(swapped),
        recomputed: Some(recomputed),
        compressed: Some(0),
        kept_bytes: Some(Bytes(kept * 50_000_000)),
        swapped_bytes: moved,
        recomputed_bytes: Some(Bytes(recomputed * 50_000_000)),
        compressed_bytes: Some(Bytes::ZERO),
        d2h: moved,
        h2d: moved,
        recompute: Some(Nanos(recomputed * 700_000)),
        codec: Some(Nanos::ZERO),
        stall: Some(Nanos(time * 20_000)),
        ..MethodResult::default()
    }
}

/// A method that lacks some MB.
pub(crate) fn infeasible_as(method: &str, lacks: u64) -> MethodResult {
    let shortfall = Bytes(lacks * 1_000_000);
    let reason = format!("its plan needs {shortfall} more than the budget");
    let without = MethodResult::without_plan(method, Status::Infeasible, reason);
    MethodResult { shortfall: Some(shortfall), plan_seconds: Some(0.001), ..without }
}

pub(crate) fn infeasible() -> MethodResult {
    infeasible_as("vdnn-conv", 350)
}

/// Four methods at half the memory of a network that needs 4 GB.
pub(crate) fn comparison() -> Comparison {
    Comparison {
        trace: reference("resnet50 (batch 64)"),
        provenance: Some(Provenance::new(Origin::Measured, "V100", "tidegate profile")),
        machine: reference("v100-pcie3"),
        budget: Bytes(2_000_000_000),
        in_core: InCore {
            iteration: Nanos(100_000_000),
            peak: Bytes(4_000_000_000),
            fixed: Bytes(400_000_000),
        },
        bound: Some(Nanos(105_000_000)),
        least_budget: Some(Bytes(450_000_000)),
        sufficient: None,
        methods: vec![
            plan("sqrt-n", 131, 1_500, [40, 0, 60]),
            plan("tide", 107, 1_980, [70, 20, 10]),
            plan("swap-all", 164, 1_200, [0, 100, 0]),
            plan("pooch", 113, 1_990, [60, 30, 10]),
        ],
    }
}

/// Two methods under two budgets, of which the smaller fits one of them, and what 5 % take.
pub(crate) fn frontier() -> Frontier {
    let Comparison { trace, provenance, machine, .. } = comparison();
    let gb = |tenths: u64| Bytes(tenths * 100_000_000);
    let row = |method: &str, permille: u64| {
        let time = Nanos(permille * 100_000);
        let slowdown = Some(permille as f64 / 1000.0);
        MethodResult { iteration: Some(time), slowdown, ..plan(method, 1, 1, [1, 0, 0]) }
    };
    Frontier {
        trace,
        provenance: provenance.expect("the example has one"),
        machine,
        in_core: InCore { iteration: Nanos(100_000_000), peak: gb(100), fixed: gb(9) },
        methods: vec!["tide".into(), "pooch".into(), "in-core".into()],
        points: vec![
            FrontierPoint {
                budget: gb(80),
                bound: Some(Nanos(101_000_000)),
                methods: vec![row("tide", 1012), row("pooch", 1030), infeasible_as("in-core", 200)],
            },
            FrontierPoint {
                budget: gb(40),
                bound: Some(Nanos(110_000_000)),
                methods: vec![
                    row("tide", 1120),
                    infeasible_as("pooch", 1),
                    infeasible_as("in-core", 6000),
                ],
            },
        ],
        slowdown: Some(0.05),
        smallest: vec![
            Smallest { method: None, budget: Some(gb(55)), iteration: Some(Nanos(104_900_000)) },
            Smallest {
                method: Some("tide".into()),
                budget: Some(gb(62)),
                iteration: Some(Nanos(104_000_000)),
            },
            Smallest { method: Some("in-core".into()), budget: None, iteration: None },
        ],
    }
}
