//! The hot loops allocate nothing once they have seen a problem of their size.

#![allow(unsafe_code, reason = "a counting allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use checker::build;
use schema::{Bytes, CodecCost, Link, Nanos, Op, OpKind, Phase, Role, Trace};
use simulator::replay::{Schedule, replay};
use simulator::{CodecLane, Codecs, Evaluator, Model, Policy, Program, Treatment};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// A chain of `layers` ops forward and as many backward, each backward op reading its layer's map.
fn chain(layers: u32) -> Trace {
    let op = |name: String, phase, lists: [&[u32]; 3]| {
        let op = build::op(name, (OpKind::Convolution, phase), 1000, lists);
        Op { workspace: Bytes(100), ..op }
    };
    let tensor = |i| build::tensor(format!("x{i}"), 1000 + u64::from(i), Role::Activation);
    let forward = (0..layers).map(|i| {
        let input: &[u32] = if i > 0 { &[i - 1] } else { &[] };
        op(format!("f{i}"), Phase::Forward, [input, &[i], &[]])
    });
    let backward =
        (0..layers).rev().map(|i| op(format!("b{i}"), Phase::Backward, [&[i], &[], &[i]]));
    let ops = forward.chain(backward).collect();
    build::unchecked("chain", (0..layers).map(tensor).collect(), ops)
}

#[test]
fn a_replay_into_the_same_schedule_allocates_nothing() {
    let program = Program::in_core(&chain(300));
    let mut schedule = Schedule::default();
    replay(&program, &mut schedule);
    assert_eq!(allocations(|| replay(&program, &mut schedule)), 0);
}

#[test]
fn an_evaluation_like_those_before_allocates_nothing() {
    let trace = chain(300);
    let model = Model::of(&trace);
    let link = build::link(1_000_000_000);
    let link = Link { latency: Nanos(10), both_directions: 0.9, beside_copy: 0.8, ..link };
    let cost = |bytes: Bytes| CodecCost {
        reserved: Bytes(bytes.0 / 3),
        compress: Nanos(50),
        decompress: Nanos(40),
        variable: true,
    };
    let costs = trace.tensors.iter().map(|tensor| Some(cost(tensor.bytes))).collect();
    let kinds = [
        Treatment::Swap,
        Treatment::SwapEachTime,
        Treatment::Recompute,
        Treatment::RecomputeEachTime,
        Treatment::Keep,
        Treatment::SwapCompressed(0),
        Treatment::SwapAtNoCost,
        Treatment::Compress(0),
    ];
    let decisions = |round: usize| -> Vec<Treatment> {
        (0..model.gaps().len()).map(|gap| kinds[(gap + round) % kinds.len()]).collect()
    };
    let on_compute = Codecs::new(trace.tensors.len(), costs);
    let lane = CodecLane { beside_codec_permille: 700 };
    for (codecs, policy) in [
        (on_compute.clone(), Policy::EARLY),
        (on_compute.clone(), Policy::EARLY_COPIES_STAY),
        (on_compute.with_lane(Some(lane)), Policy::EARLY_COPIES_STAY),
    ] {
        let mut evaluator = Evaluator::new(&model, &link, policy, Bytes(150_000), Bytes(1 << 40))
            .with_codecs(&codecs);
        let mut treatments = decisions(0);
        let mut search = |treatments: &mut Vec<Treatment>| {
            for gap in 0..treatments.len() {
                for kind in kinds {
                    treatments[gap] = kind;
                    let _ = std::hint::black_box(evaluator.evaluate(treatments));
                }
            }
        };
        search(&mut treatments);
        assert_eq!(allocations(|| search(&mut treatments)), 0, "{policy:?} {:?}", codecs.lane());
    }
}
