//! Small hand-made values that the tests show.

use schema::{
    ActionId, Basis, Bytes, Digest, Interval, Lane, MemoryPoint, Nanos, OpId, Origin, Phase,
    Provenance, Reference, Stall, StallCause, Task, TensorId, Timeline,
};

use crate::{Comparison, Frontier, FrontierPoint, InCore, MethodResult, Smallest, Status};

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

/// The timeline of two convolutions, whose first output goes out and comes back in a compressed form
/// that is made beside compute.
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

/// A training iteration of a chain: `layers` forward, as many backward, an update; every third
/// output is swapped, every seventh made again. Times vary with a fixed pattern.
pub(crate) fn chain(layers: u32) -> (Timeline, Vec<Phase>) {
    let mut chain = Chain::default();
    for layer in 0..layers {
        let time = 400_000 + u64::from(layer * 7919 % 13) * 90_000;
        chain.run(Task::Run(OpId(layer)), &format!("layer{layer}"), time, 0);
        chain.memory(60_000_000, 0);
        if layer % 3 == 0 {
            chain.copy(Task::D2h(TensorId(layer)), 0);
        }
    }
    for layer in (0..layers).rev() {
        let out = TensorId(layer);
        let ready = if layer % 3 == 0 { chain.copy(Task::H2d(out), layer) } else { 0 };
        if layer % 7 == 1 {
            let name = format!("layer{layer}");
            chain.run(Task::Recompute(OpId(layer)), &name, 600_000, 0);
        }
        let time = 900_000 + u64::from(layer * 104_729 % 11) * 150_000;
        let op = OpId(2 * layers - 1 - layer);
        chain.run(Task::Run(op), &format!("layer{layer} backward"), time, ready);
        chain.memory(0, 60_000_000);
    }
    chain.run(Task::Run(OpId(2 * layers)), "sgd", 4_000_000, 0);
    let mut phases = vec![Phase::Forward; layers as usize];
    phases.extend(vec![Phase::Backward; layers as usize]);
    phases.push(Phase::Update);
    (chain.finish(), phases)
}

#[derive(Default)]
struct Chain {
    intervals: Vec<Interval>,
    changes: Vec<(u64, i64, i64)>,
    free: [u64; Lane::COUNT],
}

impl Chain {
    const SWAP: u64 = 45_000_000;

    /// Runs a task once its lane is free and the moment `ready` has come.
    fn run(&mut self, task: Task, label: &str, time: u64, ready: u64) -> u64 {
        let lane = task.lane(false).index();
        let start = self.free[lane].max(ready);
        let idle = start - self.free[lane];
        let action = self.intervals.len() as u32;
        let mut interval = interval(action, task, label, 0, [start, start + time], &[]);
        if idle > 0 {
            let causes = [StallCause::Data, StallCause::Memory, StallCause::Turn];
            let cause = causes[self.intervals.len() / 8 % causes.len()];
            let on = ActionId(action.saturating_sub(1));
            interval.stall = Some(Stall { idle: Nanos(idle), on, cause });
        }
        self.intervals.push(interval);
        self.free[lane] = start + time;
        start + time
    }

    fn copy(&mut self, task: Task, layer: u32) -> u64 {
        let compute = self.free[Lane::Compute.index()];
        let ready = compute.saturating_sub(if layer > 0 { 3_000_000 } else { 0 });
        let end = self.run(task, &format!("out{layer}"), 3_750_000, ready);
        let copy = self.intervals.last_mut().expect("just pushed");
        copy.bytes = Bytes(Self::SWAP);
        let (start, bytes) = (copy.start.0, Self::SWAP as i64);
        match task {
            Task::D2h(_) => {
                self.changes.extend([(start, 0, bytes), (end, -bytes, -bytes)]);
            }
            _ => self.changes.extend([(start, bytes, bytes), (end, 0, -bytes)]),
        }
        end
    }

    fn memory(&mut self, grown: i64, shrunk: i64) {
        self.changes.push((self.free[Lane::Compute.index()], grown - shrunk, 0));
    }

    fn finish(mut self) -> Timeline {
        self.changes.sort_unstable();
        let (mut resident, mut in_flight) = (200_000_000i64, 0i64);
        let mut memory = Vec::new();
        for (at, change, flying) in self.changes {
            resident = (resident + change).max(0);
            in_flight = (in_flight + flying).max(0);
            let (resident, in_flight) = (Bytes(resident as u64), Bytes(in_flight as u64));
            memory.push(MemoryPoint { at: Nanos(at), resident, in_flight });
        }
        let peak = memory.iter().map(|point| point.resident).max().unwrap_or_default();
        Timeline {
            method: "pooch".into(),
            trace: reference("chain (batch 64)"),
            machine: reference("v100-pcie3"),
            budget: Bytes(peak.0 / 100 * 104),
            iteration: Nanos(self.free.into_iter().max().unwrap_or_default()),
            peak,
            memory,
            intervals: self.intervals,
            ..timeline()
        }
    }
}

/// A plan that takes `time` milliseconds where in core takes 100, with a peak in MB.
pub(crate) fn plan(method: &str, time: u64, peak: u64, counts: [u64; 3]) -> MethodResult {
    let [kept, swapped, recomputed] = counts;
    let moved = Some(Bytes(swapped * 50_000_000));
    MethodResult {
        status: Status::Ok,
        reason: None,
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
        d2h: moved,
        h2d: moved,
        recompute: Some(Nanos(recomputed * 700_000)),
        codec: Some(Nanos::ZERO),
        stall: Some(Nanos(time * 20_000)),
        ..MethodResult::without_plan(method, Status::Ok, String::new())
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
