//! Plans that no method would make: random decisions for every tensor, under random policies.

use std::time::Duration;

use planner::{CodecOptions, Decided, Problem, lower};
use runtime::device::host::{HostDevice, HostOptions};
use runtime::device::{Delays, Device};
use schema::{Bytes, BytesPerSec, Processor};
use simulator::Treatment;

use crate::networks;
use crate::problem::{self, SEED, zvc};
use crate::random::{self, Random};
use crate::reference::{assert_left, left_in_core};

const ITERATIONS: usize = 2;

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
            let homes = random::homes(&problem, random);
            let there = random::updates(&problem, &homes, random);
            let moving = problem.clone().with_homes(&homes).with_updates_there(&there);
            let problem = if seed % 3 == 0 { &moving } else { &problem };
            let mut treatments = random::treatments(random, problem);
            // Most are kept, so that there are addresses.
            let kept = 2 + random.below(8);
            for treatment in &mut treatments {
                if !random.one_in(kept) {
                    *treatment = Treatment::Keep;
                }
            }
            let decided = Decided::new(treatments, random::policy(random), Vec::new());
            let percent = 80 + random.below(150);
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
