//! Plans that no method would make: random decisions for every tensor, under random policies.

use std::time::Duration;

use planner::{CodecOptions, Decided, Problem, lower};
use runtime::device::host::{HostDevice, HostOptions};
use runtime::device::{Delays, Device};
use runtime::network::Random;
use schema::{Bytes, BytesPerSec, Choice, OpId, Processor, TensorId};
use simulator::{OffloadStart, Policy, PrefetchGate, Treatment};

use crate::networks;
use crate::problem::{self, SEED, zvc};
use crate::reference::{assert_left, left_in_core};

const ITERATIONS: usize = 2;

fn below(random: &mut Random, end: u64) -> u64 {
    random.next() % end
}

/// One treatment for each gap: most kept, the others as they may be treated.
fn treatments(problem: &Problem, random: &mut Random) -> Vec<Treatment> {
    let kept = 1 + below(random, 8);
    let gaps = 0..problem.model.gaps().len();
    let treatment = |gap| {
        let codec = problem.may_compress(gap).next().map(|(codec, _)| codec);
        match (below(random, 4 + kept), codec) {
            (0, _) => Treatment::Swap,
            (1, _) if problem.model.allows(gap, Choice::Recompute) => Treatment::Recompute,
            (2, Some(codec)) => Treatment::Compress(codec),
            (3, Some(codec)) => Treatment::SwapCompressed(codec),
            _ => Treatment::Keep,
        }
    };
    gaps.map(treatment).collect()
}

/// Half of the tensors that no op makes.
fn homes(problem: &Problem, random: &mut Random) -> Vec<TensorId> {
    let all = (0..problem.trace.tensors.len()).map(TensorId::from_index);
    let constants = all.filter(|id| problem.model.producer(*id).is_none());
    constants.filter(|_| below(random, 2) == 0).collect()
}

/// Half of the updates that the host's processor may run with these homes.
fn updates(problem: &Problem, homes: &[TensorId], random: &mut Random) -> Vec<OpId> {
    let may = |op: &OpId| {
        let mut read = problem.model.reads(*op);
        let is_there = |id| problem.model.producer(id).is_some() || homes.contains(&id);
        problem.update_time_there(*op).is_some() && read.all(is_there)
    };
    let ops = (0..problem.trace.ops.len()).map(OpId::from_index).filter(may);
    ops.filter(|_| below(random, 2) == 0).collect()
}

fn policy(random: &mut Random) -> Policy {
    let offload = [OffloadStart::AfterLastUse, OffloadStart::WithLastUse];
    let prefetch = [
        PrefetchGate::AsMemoryAllows,
        PrefetchGate::WithPrecedingOp,
        PrefetchGate::FromPrecedingConvolution,
    ];
    Policy {
        offload: offload[below(random, 4) as usize / 3],
        prefetch: prefetch[below(random, 3) as usize],
        synchronous: below(random, 4) == 0,
        codecs_beside: below(random, 2) == 0,
        copies_stay: below(random, 2) == 0,
    }
}

#[test]
fn random_plans_give_the_same_bits() {
    let cases = std::env::var("TIDEGATE_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases: u64 = cases.unwrap_or(120);
    let (mut ran, mut updated) = (0, 0);
    for name in ["alexnet", "vgg", "resnet", "unet", "transformer"] {
        let network = networks::small(name);
        let trace = problem::trace(&network);
        let mut machine = problem::machine(true);
        machine.host.updates = Some(BytesPerSec(1_000_000_000));
        let whole = simulator::in_core(&trace);
        let expected = left_in_core(&network, SEED, ITERATIONS);
        let options = CodecOptions::default();
        let problem = Problem::new(&trace, &machine, Bytes(3 * whole.peak.0));
        // So little is reserved that some data does worse.
        let problem = problem.with_codecs(&zvc(0), options);
        for seed in 0..cases {
            let at = format!("{name}, seed {seed}");
            let random = &mut Random::new(seed);
            // In some, what outlives the iteration begins and ends it on the host.
            let homes = homes(&problem, random);
            let there = updates(&problem, &homes, random);
            let moving = problem.clone().with_homes(&homes).with_updates_there(&there);
            let problem = if seed % 3 == 0 { &moving } else { &problem };
            let decided = Decided {
                treatments: treatments(problem, random),
                policy: policy(random),
                considered: Vec::new(),
                steps: None,
                as_recorded: false,
                from: None,
            };
            let percent = 80 + below(random, 150);
            let rest = (whole.peak.0 - whole.fixed.0) * percent / 100;
            let Ok(plan) = lower(problem, Bytes(whole.fixed.0 + rest), &decided) else { continue };
            let delays = Some(Delays { seed, longest: Duration::from_micros(50) });
            let link = problem::link(10_000);
            let options = HostOptions { seed: SEED, delays, ..HostOptions::new(link) };
            let mut device = HostDevice::new(&network, &trace, &plan, &options)
                .unwrap_or_else(|error| panic!("{at}: {error:?}"));
            for _ in 0..ITERATIONS {
                device.run().unwrap_or_else(|error| panic!("{at}: {error:?}"));
            }
            assert_left(&mut device, &expected, &at);
            let memory = device.memory();
            assert_eq!(memory.arena, plan.predicted.arena, "{at}");
            assert_eq!(memory.host_arena, plan.predicted.host_arena, "{at}");
            ran += 1;
            updated += plan.actions.iter().filter(|action| action.on == Processor::Host).count();
        }
    }
    println!("{ran} plans ran, with {updated} updates on the host");
    assert!(updated > ran as usize / 10);
    assert!(ran > cases / 2, "only {ran} of {} plans ran", 5 * cases);
}
