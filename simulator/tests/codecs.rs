//! What compression does to time and memory, on a network small enough for a head.

use checker::build;
use schema::{Bytes, CodecCost, Link, Nanos, OpId, OpKind, Phase, Role, TensorId, Trace};
use simulator::{
    CodecLane, Codecs, Evaluator, Infeasible, Materialised, Model, OffloadStart, Outcome, Policy,
    Residency, Treatment, Work,
};

/// Two ops forward, two backward, 100 ns each. `a` of 1000 bytes waits from op 0 to op 3, `b` of
/// 1000 bytes is made by op 1 and read by op 2.
fn trace() -> Trace {
    let tensors = ["a", "b"].map(|name| build::tensor(name, 1000, Role::Activation)).to_vec();
    let op = |name, phase, reads: &[u32], writes: &[u32]| {
        build::op(name, (OpKind::Other, phase), 100, [reads, writes, reads])
    };
    let ops = vec![
        op("a", Phase::Forward, &[], &[0]),
        op("b", Phase::Forward, &[], &[1]),
        op("b'", Phase::Backward, &[1], &[]),
        op("a'", Phase::Backward, &[0], &[]),
    ];
    build::unchecked("small", tensors, ops)
}

/// A byte takes a nanosecond, either way.
fn link() -> Link {
    build::link(1_000_000_000)
}

/// Codec 0 has outputs of varying size, codec 1 has not; a quarter of the tensor, 30 ns and 20 ns.
fn codecs() -> Codecs {
    let cost = |variable| CodecCost {
        reserved: Bytes(250),
        compress: Nanos(30),
        decompress: Nanos(20),
        variable,
    };
    let costs = [cost(true), cost(true), cost(false), cost(false)];
    Codecs::new(2, costs.into_iter().map(Some).collect())
}

const SMALLEST: Bytes = Bytes(1250);

fn evaluate(treatment: Treatment, budget: Bytes) -> Result<Outcome, Infeasible> {
    let (model, link, codecs) = (Model::of(&trace()), link(), codecs());
    Evaluator::new(&model, &link, Policy::EARLY, budget, Bytes(1 << 30))
        .with_codecs(&codecs)
        .evaluate(&[treatment])
}

#[test]
fn in_place_the_compressed_form_stays_and_codecs_take_compute_time() {
    let outcome = evaluate(Treatment::Compress(1), SMALLEST).expect("fits");
    assert_eq!(outcome.iteration, Nanos(450));
    assert_eq!((outcome.codec, outcome.stall), (Nanos(50), Nanos::ZERO));
    assert_eq!((outcome.peak, outcome.host_peak), (Bytes(1250), Bytes::ZERO));
}

/// As [`evaluate`], with a lane for codecs and a speed of compute beside them.
fn beside(
    treatment: Treatment,
    budget: Bytes,
    beside_codec_permille: u16,
    policy: Policy,
) -> Result<Outcome, Infeasible> {
    let (model, link) = (Model::of(&trace()), link());
    let codecs = codecs().with_lane(Some(CodecLane { beside_codec_permille }));
    Evaluator::new(&model, &link, policy, budget, Bytes(1 << 30))
        .with_codecs(&codecs)
        .evaluate(&[treatment])
}

#[test]
fn codecs_with_a_lane_of_their_own_take_no_compute_time() {
    // Small from 100 to 130 beside op 1; large again, just in time, beside op 2.
    let roomy = Bytes(2250);
    let outcome = beside(Treatment::Compress(1), roomy, 1000, Policy::EARLY).expect("fits");
    assert_eq!((outcome.iteration, outcome.codec), (Nanos(400), Nanos(50)));
    assert_eq!((outcome.peak, outcome.stall), (roomy, Nanos::ZERO));
    // At half of its speed for 50 ns, compute loses 25.
    let slowed = beside(Treatment::Compress(1), roomy, 500, Policy::EARLY).expect("fits");
    assert_eq!((slowed.iteration, slowed.stall), (Nanos(425), Nanos::ZERO));
    // A policy may want them on compute all the same.
    let policy = Policy { codecs_beside: false, ..Policy::EARLY };
    let on_compute = beside(Treatment::Compress(1), roomy, 1000, policy);
    assert_eq!(on_compute, evaluate(Treatment::Compress(1), roomy));
    assert_eq!(on_compute.expect("fits").iteration, Nanos(450));
}

#[test]
fn what_a_codec_is_to_make_room_for_waits_for_it() {
    // Op 1 waits for a's memory until 130; op 3 for what op 2 gives back at 330, and for a.
    let outcome = beside(Treatment::Compress(1), SMALLEST, 1000, Policy::EARLY).expect("fits");
    assert_eq!((outcome.iteration, outcome.stall), (Nanos(450), Nanos(50)));
    assert_eq!(outcome.peak, SMALLEST);
    // With room for b, but not for a's compressed form beside both, op 1 waits as well.
    let tight = beside(Treatment::Compress(1), Bytes(2249), 1000, Policy::EARLY).expect("fits");
    assert_eq!((tight.iteration, tight.stall), (Nanos(450), Nanos(50)));
}

#[test]
fn a_compressed_form_is_copied_out_when_its_lane_has_made_it() {
    // Small at 130, out at 380, back at 630, large again at 650; ops 1 and 2 end at 300.
    let roomy = Bytes(2250);
    let outcome = beside(Treatment::SwapCompressed(1), roomy, 1000, Policy::EARLY).expect("fits");
    assert_eq!((outcome.iteration, outcome.stall), (Nanos(750), Nanos(350)));
    assert_eq!(outcome.host_peak, Bytes(250));
}

#[test]
fn a_compressed_copy_takes_the_time_of_its_compressed_form() {
    // Made at 100, small at 130, out at 380, back at 630, large again at 650.
    let outcome = evaluate(Treatment::SwapCompressed(1), SMALLEST).expect("fits");
    assert_eq!(outcome.iteration, Nanos(750));
    assert_eq!((outcome.codec, outcome.stall), (Nanos(50), Nanos(300)));
    assert_eq!((outcome.peak, outcome.host_peak), (Bytes(1250), Bytes(250)));
    // As itself: out at 1100, so that op 1 has room; room again at 1300, back at 2300.
    let raw = evaluate(Treatment::Swap, SMALLEST).expect("fits");
    assert_eq!(raw.iteration, Nanos(2400));
}

#[test]
fn where_sizes_vary_the_host_has_room_for_the_tensor_itself() {
    for treatment in [Treatment::SwapCompressed(0), Treatment::Compress(0)] {
        let outcome = evaluate(treatment, SMALLEST).expect("fits");
        assert_eq!(outcome.host_peak, Bytes(1000), "{treatment:?}");
        let model = Model::of(&trace());
        let (link, codecs) = (link(), codecs());
        let little_host = Evaluator::new(&model, &link, Policy::EARLY, SMALLEST, Bytes(999))
            .with_codecs(&codecs)
            .evaluate(&[treatment]);
        assert_eq!(little_host, Err(Infeasible::HostMemory { needed: Bytes(1000) }));
    }
}

#[test]
fn both_forms_are_there_while_a_codec_runs() {
    for treatment in [Treatment::SwapCompressed(1), Treatment::Compress(1)] {
        let error = evaluate(treatment, Bytes(1249));
        assert_eq!(error, Err(Infeasible::Memory { needed: SMALLEST, op: OpId(0) }));
    }
}

#[test]
fn a_codec_that_does_not_help_is_an_error_and_not_remembered() {
    let (model, link, codecs) = (Model::of(&trace()), link(), codecs());
    let mut evaluator =
        Evaluator::new(&model, &link, Policy::EARLY, SMALLEST, Bytes(1 << 30)).with_codecs(&codecs);
    let unknown = evaluator.evaluate(&[Treatment::Compress(2)]);
    assert_eq!(unknown, Err(Infeasible::NotCompressible { tensor: TensorId(0) }));
    assert!(evaluator.evaluate(&[Treatment::Compress(1)]).is_ok());
}

/// As vDNN's: copies out start with the last use.
const WITH_LAST_USE: Policy = Policy { offload: OffloadStart::WithLastUse, ..Policy::EARLY };

/// `a` is also read by the second op: that is its last use before the gap.
fn read_by_the_next() -> Trace {
    let mut trace = trace();
    trace.ops[1].reads = vec![TensorId(0)];
    trace.ops[0].frees.clear();
    trace
}

#[test]
fn where_copies_start_with_the_last_use_the_compressed_form_is_made_before_it() {
    let (model, link, codecs) = (Model::of(&read_by_the_next()), link(), codecs());
    let with = |policy, budget| {
        Evaluator::new(&model, &link, policy, Bytes(budget), Bytes(1 << 30)).with_codecs(&codecs)
    };
    let compressed = [Treatment::SwapCompressed(1)];
    // Made at 100, small at 130, used until 230, out at 380, back at 630, large again at 650.
    let early = with(WITH_LAST_USE, 10_000).evaluate(&compressed).expect("fits");
    assert_eq!(early.iteration, Nanos(750));
    // Used until 200, small at 230, out at 480, back at 730, large again at 750.
    let late = with(Policy::EARLY, 10_000).evaluate(&compressed).expect("fits");
    assert_eq!(late.iteration, Nanos(850));
    // The tensor itself and its compressed form stay for the use, which makes another tensor; the
    // copy ends later.
    assert_eq!((early.peak, late.peak), (Bytes(2250), Bytes(2250)));
    let record = with(WITH_LAST_USE, 2250).record(&compressed).expect("fits");
    let work: Vec<(u32, Work)> = record.positions.iter().map(|p| (p.op, p.work)).collect();
    assert_eq!(work[..3], [(0, Work::Run), (1, Work::Compress(0)), (1, Work::Run)]);
    let raw = record.residencies.iter().find(|r| r.tensor == 0 && r.small.is_none());
    assert_eq!(raw.map(|r| (r.first, r.last, r.copied_out)), Some((0, 2, None)));
    // With less, the use waits until the compressed form is out at 380.
    let waits = with(WITH_LAST_USE, 2249).evaluate(&compressed).expect("fits");
    assert_eq!((waits.iteration, waits.peak), (Nanos(850), Bytes(2000)));
}

#[test]
fn what_the_host_packs_goes_over_the_link_as_it_is() {
    let (model, link) = (Model::of(&trace()), link());
    let there = |time| {
        let cost =
            CodecCost { reserved: Bytes(250), compress: time, decompress: time, variable: true };
        codecs().with_host(vec![Some(cost); 4])
    };
    let evaluate = |codecs: &Codecs, treatment| {
        Evaluator::new(&model, &link, Policy::EARLY, SMALLEST, Bytes(1 << 30))
            .with_codecs(codecs)
            .evaluate(&[treatment])
    };
    let packed = evaluate(&there(Nanos(40)), Treatment::SwapCompressedOnHost(0)).expect("fits");
    let raw = evaluate(&codecs(), Treatment::Swap).expect("fits");
    assert_eq!(packed.iteration, raw.iteration + Nanos(80), "out and in take 40 ns more each");
    assert_eq!((packed.host_peak, raw.host_peak), (Bytes(250), Bytes(1000)));
    assert_eq!((packed.peak, packed.codec), (raw.peak, Nanos::ZERO));
    let error = evaluate(&codecs(), Treatment::SwapCompressedOnHost(0));
    assert_eq!(error, Err(Infeasible::NotCompressible { tensor: TensorId(0) }));
}

#[test]
fn a_recording_says_where_the_compressed_form_is() {
    let (model, link, codecs) = (Model::of(&trace()), link(), codecs());
    let mut evaluator =
        Evaluator::new(&model, &link, Policy::EARLY, SMALLEST, Bytes(1 << 30)).with_codecs(&codecs);
    let record = evaluator.record(&[Treatment::SwapCompressed(0)]).expect("fits");
    let work: Vec<(u32, Work)> = record.positions.iter().map(|p| (p.op, p.work)).collect();
    let expected = [
        (0, Work::Run),
        (0, Work::Compress(0)),
        (1, Work::Run),
        (2, Work::Run),
        (3, Work::Decompress(0)),
        (3, Work::Run),
    ];
    assert_eq!(work[..6], expected);
    let of_a = |small: Option<u32>| -> Vec<(u32, u32, Materialised, Option<u32>)> {
        let here = |r: &&Residency| r.tensor == 0 && r.small == small;
        let mut all: Vec<_> = (record.residencies.iter().filter(here))
            .map(|r| (r.first, r.last, r.origin, r.copied_out))
            .collect();
        all.sort_by_key(|r| r.0);
        all
    };
    let written = Materialised::Written;
    assert_eq!(of_a(None), [(0, 1, written, None), (4, 5, written, None)]);
    let small = [(1, 1, written, Some(0)), (4, 4, Materialised::CopiedIn(0), None)];
    assert_eq!(of_a(Some(0)), small);
}
