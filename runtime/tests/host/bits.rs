//! Every lossless plan of every method gives the bits that in-core execution gives, in the memory
//! that it predicts.

use std::collections::BTreeMap;

use planner::methods::{Method, Tide, all};
use planner::{CodecOptions, NoMonitor, Problem, least_budget, plan};
use runtime::device::host::{HostDevice, HostOptions};
use runtime::device::{Device, HostTensors};
use runtime::network::Network;
use schema::{Action, Basis, Bytes, Document, Plan, Task, TensorId, Trace};

use crate::networks;
use crate::problem::{self, SEED};
use crate::reference::{assert_left, outcome, seed_of};

const ITERATIONS: u64 = 10;

/// What in-core execution leaves after some iterations.
fn in_core(network: &Network) -> BTreeMap<TensorId, Vec<u32>> {
    let mut reference = HostTensors::new(network, SEED);
    for iteration in 0..ITERATIONS {
        if let Some((tensor, cells)) = seed_of(network, SEED, iteration) {
            reference.tensors[tensor.index()] = cells;
        }
        reference.iterate().unwrap();
    }
    outcome(network, &reference)
}

/// Runs a plan as long, and holds it against what in-core execution left.
fn check(
    network: &Network,
    trace: &Trace,
    plan: &Plan,
    expected: &BTreeMap<TensorId, Vec<u32>>,
    at: &str,
) {
    let options = HostOptions { seed: SEED, ..HostOptions::new(problem::link(20_000)) };
    let mut device = HostDevice::new(network, trace, plan, &options)
        .unwrap_or_else(|error| panic!("{at}: {error:?}"));
    for iteration in 0..ITERATIONS {
        if let Some((tensor, cells)) = seed_of(network, SEED, iteration) {
            device.write(tensor, &cells).unwrap();
        }
        let timeline = device.run().unwrap_or_else(|error| panic!("{at}: {error:?}"));
        assert_eq!(timeline.check(), Ok(()), "{at}");
        assert_eq!(timeline.basis, Basis::Measured);
        assert!(timeline.peak <= plan.predicted.arena, "{at}");
    }
    assert_left(&mut device, expected, at);
    let memory = device.memory();
    assert_eq!(memory.arena, plan.predicted.arena, "{at}");
    assert!(memory.arena <= plan.budget && memory.live <= memory.arena, "{at}");
    assert_eq!(memory.host_arena, plan.predicted.host_arena, "{at}");
}

/// Every method, with and without a lane for codecs, at two budgets. Returns how often each made a
/// plan, and how many compressed forms there are in them.
fn check_all(network: &Network) -> (BTreeMap<&'static str, usize>, usize) {
    let trace = problem::trace(network);
    let expected = in_core(network);
    let whole = simulator::in_core(&trace);
    let (mut plans, mut compressions) = (BTreeMap::new(), 0);
    for (percent, codec_lane, margin) in [(105, true, 300), (80, false, 300), (60, true, 0)] {
        let machine = problem::machine(codec_lane);
        let rest = whole.peak.0 - whole.fixed.0;
        let budget = Bytes(whole.fixed.0 + rest * percent / 100);
        // With room for everything, the others are in-core, too.
        let wanted = |method: &dyn Method| match percent {
            105 => method.name() == "in-core",
            _ => !method.only_on_request(),
        };
        for method in all().into_iter().filter(|method| wanted(method.as_ref())) {
            let mut problem = Problem::new(&trace, &machine, budget);
            problem.limits.evaluations = 100;
            if method.needs_codecs() {
                let (models, options) = (problem::zvc(margin), CodecOptions::default());
                problem = problem.with_codecs(&models, options).with_host_codecs(&models, options);
            }
            // Not every method fits every budget.
            let Ok(plan) = plan(method.as_ref(), &problem, &NoMonitor) else { continue };
            *plans.entry(method.name()).or_insert(0) += 1;
            let packs = |action: &Action| {
                matches!(action.task, Task::Compress(_)) || plan.packed_by_host(action).is_some()
            };
            compressions += plan.actions.iter().filter(|action| packs(action)).count();
            let at = format!("{}, {}, {percent} %", network.name, method.name());
            check(network, &trace, &plan, &expected, &at);
        }
    }
    (plans, compressions)
}

/// Holds what a network's plans must hold, and that there were plans of all kinds.
fn holds(network: &Network) {
    let (plans, compressions) = check_all(network);
    let count: usize = plans.values().sum();
    println!("{}: {count} plans, {compressions} compressed forms: {plans:?}", network.name);
    assert!(plans.contains_key("in-core") && plans.len() > 12, "{}: {plans:?}", network.name);
    // Those with ReLUs have zeros to leave away.
    let has_zeros = network.ops().iter().any(|op| op.name.starts_with("relu"));
    assert!(compressions > 0 || !has_zeros, "{}", network.name);
}

#[test]
fn bits_of_chains_of_convolutions() {
    holds(&networks::small("alexnet"));
    holds(&networks::small("vgg"));
}

#[test]
fn bits_of_residual_networks() {
    holds(&networks::small("resnet"));
    holds(&networks::published("plain20-cifar10", 8, Some(20), None));
}

#[test]
fn bits_of_networks_that_join_branches() {
    holds(&networks::small("unet"));
    // Nothing but the gradients, which are then what an iteration leaves.
    holds(&networks::without_optimizer());
}

#[test]
fn bits_of_transformers() {
    holds(&networks::small("transformer"));
}

/// Parameters and Adam's state on the host between iterations and between their uses, with room on the
/// device for half of them.
#[test]
fn bits_of_training_whose_state_moves() {
    for (name, in_backward) in [("vgg", false), ("transformer", false), ("transformer", true)] {
        let network = networks::with_adam(name, in_backward);
        let trace = problem::trace(&network);
        let machine = problem::machine(false);
        let expected = in_core(&network);
        let problem = |budget| {
            let problem = Problem::new(&trace, &machine, budget).with_evaluations(200);
            problem.with_host_budget(Bytes(1 << 32))
        };
        let (fixed, least) = (simulator::in_core(&trace).fixed, least_budget(&problem(Bytes(0))).0);
        assert!(least < fixed, "{name}: {least} of {fixed}");
        let budget = least + Bytes((fixed - least).0 / 2);
        let plan = plan(&Tide, &problem(budget), &NoMonitor).unwrap();
        let moved = plan.host_buffers.iter().filter(|host| host.at_start).count();
        assert!(moved > 0, "{name}");
        check(&network, &trace, &plan, &expected, &format!("{name}, {budget} of {fixed}"));
    }
}

/// Networks that come along, at sizes that take minutes.
#[test]
fn bits_of_published_networks() {
    if std::env::var_os("TIDEGATE_THOROUGH").is_none() {
        return println!("skipped: set TIDEGATE_THOROUGH to run published networks");
    }
    holds(&networks::published("stories260k", 2, None, Some(32)));
    holds(&networks::published("plain20-cifar10", 16, Some(32), None));
    holds(&networks::published("resnet32", 16, Some(32), None));
    holds(&networks::published("squeezenet-cifar10", 32, Some(32), None));
}

/// Activations and gradients in 16 bits: half of the memory, and the same rounded values wherever
/// they are kept, moved, recomputed or compressed.
#[test]
fn bits_of_networks_in_16_bits() {
    for name in ["vgg", "unet", "transformer"] {
        let (wide, narrow) = (networks::small(name), networks::small(name).in_bf16());
        let peaks = [&wide, &narrow].map(|network| {
            let whole = simulator::in_core(&problem::trace(network));
            whole.peak.0 - whole.fixed.0
        });
        assert!(peaks[1] < peaks[0] * 3 / 4, "{name}: {peaks:?}");
        holds(&narrow);
    }
}
