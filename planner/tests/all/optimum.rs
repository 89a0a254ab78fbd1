//! Bounds against the best of *all* plans of tiny problems, not only of those that methods can
//! express: dead tensors held, copies as early as they can be, ops run again for nobody's sake. Of so
//! few ops, all are places where several are looked at together.
//!
//! `TIDEGATE_CASES=100000 cargo test --release -p tidegate-planner --test all optimum` runs more;
//! `TIDEGATE_SEED=N` with `TIDEGATE_CASES=1` replays case N.

use std::collections::BTreeMap;

use crate::common::build;
use crate::common::optimum::optimum;
use crate::common::random::{self, Random};
use crate::common::seeds;
use planner::families::family;
use planner::{
    Allowed, Bound, CodecOptions, Monitor, NoMonitor, Problem, Progress, bound, least_budget,
    moving_bound, tightened,
};
use schema::{Bytes, CodecModels, Machine, Nanos, Op, OpKind, Phase, Role, Trace};
use simulator::{Policy, in_core};

/// Problems whose search goes through more states than this are left aside.
const MOST_STATES: usize = 40_000;

const fn kind(swap: bool, recompute: bool, compress: bool) -> Allowed {
    Allowed { swap, recompute, compress }
}

const KINDS: [(&str, Allowed); 6] = [
    ("recompute", kind(false, true, false)),
    ("swap", kind(true, false, false)),
    ("joint", kind(true, true, false)),
    ("compress", kind(false, false, true)),
    ("no copies", kind(false, true, true)),
    ("all", kind(true, true, true)),
];

/// A trace of few ops, in which constants change or do not.
fn small_trace(random: &mut Random, most_tensors: usize, trains: bool) -> Trace {
    loop {
        let trace = match trains {
            true => random::training(random, 5),
            false => random::trace(random, 7),
        };
        if trace.ops.len() > 2 && (2..=most_tensors).contains(&trace.tensors.len()) {
            return trace;
        }
    }
}

/// A machine on which no lane slows another, of which the optimum knows nothing, with one codec.
fn surroundings(random: &mut Random) -> (Machine, CodecModels, CodecOptions) {
    let mut machine = random::machine(random);
    machine.link.both_directions = 1.0;
    machine.link.beside_copy = 1.0;
    machine.device.compute.beside_codec = 1.0;
    let mut models = random::codec_models(random);
    models.models.truncate(1);
    let options = CodecOptions { sparsity: Some(0.5), lossy: random.one_in(2) };
    (machine, models, options)
}

/// Something between the least that could do and what keeping all takes.
fn some_budget(problem: &Problem, random: &mut Random) -> Bytes {
    let kept = problem.evaluator(Policy::EARLY, problem.budget).evaluate(&problem.keep_all());
    let most = kept.expect("memory is plenty").peak.0;
    let fewest = least_budget(problem).0.0.min(most);
    Bytes(fewest + (most - fewest) * random.below(1000) / 1000)
}

/// What there was of one kind: cases, those whose optimum takes more than the ops, of these those
/// in which the bound does, too, and the sum of its shares of the optimum's overhead.
#[derive(Debug, Default)]
struct Count {
    cases: u64,
    slowed: u64,
    binding: u64,
    shares: f64,
}

#[test]
fn no_plan_at_all_beats_the_bound() {
    let seeds = seeds(600);
    let cases = seeds.end - seeds.start;
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for seed in seeds {
        let random = &mut Random::new(seed);
        let (kind, allowed) = KINDS[(seed % KINDS.len() as u64) as usize];
        let trains = seed / KINDS.len() as u64 % 3 == 2;
        let trace = small_trace(random, if allowed.compress { 5 } else { 7 }, trains);
        let (machine, models, options) = surroundings(random);
        let mut problem =
            Problem::new(&trace, &machine, Bytes(1 << 40)).with_codecs(&models, options);
        problem.allowed = allowed;
        problem.budget = some_budget(&problem, random);
        let count = counts.entry(kind).or_default();
        let Ok(optimum) = optimum(&problem, MOST_STATES) else { continue };
        count.cases += 1;
        let Some(optimum) = optimum else { continue };
        let at = "replay with TIDEGATE_CASES=1 TIDEGATE_SEED=";
        let Bound::Time(least) = tightened(&problem, &NoMonitor) else {
            panic!("{kind}: {optimum} is possible, the bound says that nothing is\n{at}{seed}");
        };
        assert!(least <= optimum, "{kind}: {optimum} beats {least}\n{at}{seed}");
        // What outlives the iteration may move and need not.
        let moving = moving_bound(&problem).time();
        assert!(
            moving.is_some_and(|least| least <= optimum),
            "{kind}: {optimum} beats {moving:?}, which is for more plans\n{at}{seed}"
        );
        let [time, optimum] =
            [least, optimum].map(|time| time.saturating_sub(trace.total_time()).0);
        if optimum > 0 {
            count.slowed += 1;
            count.binding += u64::from(time > 0);
            count.shares += time as f64 / optimum as f64;
        }
    }
    eprintln!("{counts:#?}");
    for (kind, count) in counts.iter().filter(|_| cases >= 600) {
        assert!(count.slowed > 0 && count.binding * 5 > count.slowed, "{kind}: {count:?}");
    }
}

struct Impatient;

impl Monitor for Impatient {
    fn proceed(&self, _: Progress) -> bool {
        false
    }
}

#[test]
fn several_places_say_more_than_one_and_less_when_told_to_stop() {
    let cases = [
        ("second-order:seed=9,ops=300", 50, 5000, false),
        ("u-shaped:seed=3,ops=285", 30, 20_000, true),
    ];
    for (name, percent, evaluations, swap) in cases {
        let trace = family(name).unwrap();
        let machine = scenarios::machine("titan-v").unwrap();
        let budget = Bytes(in_core(&trace).peak.0 / 100 * percent);
        let problem = || {
            let problem = Problem::new(&trace, &machine, budget).with_evaluations(evaluations);
            problem.with_allowed(kind(swap, true, false))
        };
        let one = bound(&problem()).time().unwrap();
        let stopped = tightened(&problem(), &Impatient).time().unwrap();
        let several = tightened(&problem(), &NoMonitor).time().unwrap();
        let all = format!("{name}: {one} {stopped} {several}");
        assert!(one <= stopped && stopped <= several && one < several, "{all}");
        assert_eq!(tightened(&problem(), &NoMonitor).time(), Some(several), "{name}");
    }
}

/// Three tensors wait while an op works, beside which there is room for one and a half: of two halves none is held, and two
/// are made again.
#[test]
fn what_is_held_is_held_whole() {
    let tensors = ["a", "b", "c"].map(|name| build::tensor(name, 1024, Role::Activation)).to_vec();
    let op = |name, reads: &[u32], writes: &[u32]| {
        build::op(name, (OpKind::Other, Phase::Forward), 100, [reads, writes, reads])
    };
    let mut ops: Vec<Op> = (0..3).map(|tensor| op("make", &[], &[tensor])).collect();
    ops.push(Op { workspace: Bytes(2048), ..op("work", &[], &[]) });
    ops.extend((0..3).map(|tensor| op("read", &[tensor], &[])));
    let trace = build::trace("three wait", tensors, ops);
    let machine = build::machine(1_000_000_000);
    let problem = Problem::new(&trace, &machine, Bytes(2048 + 1024 + 512));
    let problem = problem.with_allowed(kind(false, true, false));
    let extra = |bound: Bound| bound.time().map(|time| time.0 - 700);
    assert_eq!(extra(bound(&problem)), Some(150));
    assert_eq!(extra(tightened(&problem, &NoMonitor)), Some(200));
    assert_eq!(optimum(&problem, MOST_STATES), Ok(Some(Nanos(900))));
}

/// Plans that move state are left aside: the optimum knows none. Sizes are whole aligned blocks, so that
/// what fits byte for byte mostly has addresses.
#[test]
fn tide_mostly_finds_the_best_of_all_plans() {
    let seeds = seeds(600);
    let cases = seeds.end - seeds.start;
    // By kind: slowed cases, and those in which tide's plan is the optimum.
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for seed in seeds {
        let random = &mut Random::new(seed);
        let (kind, allowed) = KINDS[(seed % KINDS.len() as u64) as usize];
        let mut trace = small_trace(random, if allowed.compress { 5 } else { 7 }, false);
        let aligned = |bytes: Bytes| Bytes(bytes.0.next_multiple_of(1024));
        trace.tensors.iter_mut().for_each(|tensor| tensor.bytes = aligned(tensor.bytes));
        trace.ops.iter_mut().for_each(|op| op.workspace = aligned(op.workspace));
        let (machine, models, options) = surroundings(random);
        let mut problem = Problem::new(&trace, &machine, Bytes(1 << 40))
            .with_codecs(&models, options)
            .with_evaluations(500);
        problem.allowed = allowed;
        problem.budget = aligned(some_budget(&problem, random));
        let Ok(Some(optimum)) = optimum(&problem, MOST_STATES) else { continue };
        let tide = planner::methods::by_name("tide").expect("it is a method");
        let Ok(plan) = planner::plan(tide.as_ref(), &problem, &NoMonitor) else { continue };
        let moves_state = plan.host_buffers.iter().any(|host| host.at_start);
        if optimum > trace.total_time() && !moves_state {
            let count = counts.entry(kind).or_default();
            count.0 += 1;
            count.1 += u64::from(plan.predicted.iteration <= optimum);
        }
    }
    eprintln!("slowed, and as fast as the optimum: {counts:?}");
    let [slowed, best]: [u64; 2] =
        [counts.values().map(|count| count.0).sum(), counts.values().map(|count| count.1).sum()];
    assert!(cases < 600 || slowed > 50 && best * 5 >= slowed * 4, "{counts:?}");
}
