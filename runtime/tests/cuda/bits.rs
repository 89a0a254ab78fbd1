//! Plans leave the bits that keeping everything leaves: on the driver that is none, whose streams
//! go on in any order that events allow, handed out command by command and as graphs.

use planner::methods::by_name;
use runtime::cuda::{CudaDevice, CudaOptions, open};
use runtime::device::Device;
use runtime::network::Network;
use schema::{Basis, Document, Plan, Task};

use crate::inside::{BOTH, inside};
use crate::networks;
use crate::problem::{SEED, Subject, zfp, zvc};
use crate::reference::{bits, seed_of};

/// Runs iterations and returns what they leave, with dropout's seed of each.
fn outcome(device: &mut CudaDevice<'_>, network: &Network, plan: &Plan) -> Vec<Vec<u32>> {
    for iteration in 0..3 {
        if let Some((tensor, cells)) = seed_of(network, SEED, iteration) {
            device.write(tensor, &cells).unwrap();
        }
        let timeline = device.run().unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!((timeline.check(), timeline.basis), (Ok(()), Basis::Measured));
        assert_eq!(timeline.intervals.len(), plan.actions.len());
        for (interval, action) in timeline.intervals.iter().zip(&plan.actions) {
            for on in &action.after {
                assert!(timeline.intervals[on.index()].end <= interval.start);
            }
        }
        assert!(timeline.peak <= plan.predicted.arena);
    }
    let mut left: Vec<_> =
        plan.buffers.iter().filter(|b| b.at_end).filter_map(|b| b.tensor).collect();
    left.sort_unstable();
    let read = left.iter().map(|tensor| {
        let mut cells = vec![0.0; network.tensor(*tensor).elements];
        device.read(*tensor, &mut cells).unwrap();
        bits(&cells)
    });
    read.collect()
}

fn plain() -> CudaOptions {
    CudaOptions { seed: SEED, ..CudaOptions::default() }
}

fn as_graph() -> CudaOptions {
    CudaOptions { graph: true, ..plain() }
}

/// Plans of some methods, of so many percent and with a lane for codecs or without. They were told
/// of so much more zeros than there are: then those with codecs reserve too little for some.
fn check(network: Network, told: f64, options: &CudaOptions, methods: &[(&str, u64, bool)]) {
    let subject = Subject::new(network).told(told);
    let Subject { network, trace } = &subject;
    let whole = subject.plan("in-core", 130, false, None);
    let in_core = CudaOptions { graph: false, ..options.clone() };
    let expected = outcome(&mut open(network, trace, &whole, &in_core).unwrap(), network, &whole);
    for &(method, percent, codec_lane) in methods {
        let at = format!("{}, {method}", network.name);
        let models = zvc(if told > 1.0 { 0 } else { 300 });
        let compresses = by_name(method).unwrap().needs_codecs();
        let plan = subject.plan(method, percent, codec_lane, compresses.then_some(&models));
        assert!(plan.actions.iter().any(|action| !matches!(action.task, Task::Run(_))), "{at}");
        let mut device = open(network, trace, &plan, options).unwrap();
        assert!(outcome(&mut device, network, &plan) == expected, "{at}");
        let memory = device.memory();
        assert_eq!(memory.arena, plan.predicted.arena, "{at}");
        assert_eq!(memory.host_arena, plan.predicted.host_arena, "{at}");
        assert!(memory.live <= memory.arena && memory.outside.0 > 0, "{at}");
        assert_eq!(memory.fallbacks > 0, compresses && told > 1.0, "{at}");
    }
}

#[test]
fn plans_of_a_chain() {
    let Some(()) = inside(&[], &[]) else { return };
    let methods = [
        ("swap-all", 60, false),
        ("superneurons", 70, false),
        ("sqrt-n", 80, false),
        ("checkpoint-offload", 80, false),
        ("tide", 60, false),
    ];
    check(networks::small("vgg"), 1.0, &plain(), &methods);
}

#[test]
fn plans_that_compress() {
    let Some(()) = inside(&[], &[]) else { return };
    let methods = [("cswap", 70, true), ("cswap+", 70, false), ("sc", 70, true)];
    for told in [1.0, 1.6] {
        check(networks::small("vgg"), told, &plain(), &methods);
    }
}

/// The host makes tensors smaller on their way, and keeps what does not become as small as was
/// reserved.
#[test]
fn plans_that_the_host_compresses_for() {
    let Some(()) = inside(&[], &[]) else { return };
    for (told, options) in [(1.0, plain()), (1.6, plain()), (1.0, as_graph()), (1.6, as_graph())] {
        check(networks::small("vgg"), told, &options, &[("vdnn++", 70, false)]);
    }
}

#[test]
fn plans_of_networks_that_branch() {
    let Some(()) = inside(&[], &[]) else { return };
    check(networks::small("resnet"), 1.0, &plain(), &[("pooch", 70, false), ("tide", 60, true)]);
    check(networks::small("unet"), 1.0, &plain(), &[("tide", 60, false)]);
}

#[test]
fn plans_of_a_decoder() {
    let Some(()) = inside(&[], &[]) else { return };
    let methods = [("capuchin", 80, false), ("tide", 70, false)];
    check(networks::small("transformer"), 1.0, &plain(), &methods);
}

/// Other bits than kernels', perhaps, but the same ones for every plan.
#[test]
fn plans_with_cublas() {
    let Some(()) = inside(&BOTH[..1], &[]) else { return };
    for name in ["resnet", "transformer"] {
        check(networks::small(name), 1.0, &plain(), &[("tide", 70, false)]);
    }
}

/// What is recomputed is computed by the same algorithm, and nobody else has its memory to work in.
#[test]
fn plans_with_cudnn() {
    let Some(()) = inside(&BOTH, &[]) else { return };
    for (name, method) in [("vgg", "swap-all"), ("resnet", "tide"), ("unet", "tide")] {
        check(networks::small(name), 1.0, &plain(), &[(method, 60, false)]);
    }
}

/// The first iteration command by command, the second and third as one graph; with libraries,
/// copies both ways, a lane of codecs, and compressed forms that do not fit, of which kernels
/// decide.
#[test]
fn plans_as_graphs() {
    let Some(()) = inside(&BOTH, &[]) else { return };
    let chain = [("swap-all", 60, false), ("cswap", 70, true)];
    check(networks::small("vgg"), 1.6, &as_graph(), &chain);
    for name in ["resnet", "transformer"] {
        check(networks::small(name), 1.0, &as_graph(), &[("tide", 70, false)]);
    }
}

/// Swapped, recomputed and compressed, handed out and as graphs, with libraries and without.
#[test]
fn plans_in_16_bits() {
    let Some(()) = inside(&BOTH, &[]) else { return };
    let kernels = CudaOptions { blas: false, dnn: false, ..plain() };
    for (name, method, percent, codec_lane, options) in [
        ("vgg", "swap-all", 60, false, &as_graph()),
        ("vgg", "cswap", 70, true, &kernels),
        ("resnet", "tide", 70, false, &as_graph()),
        ("transformer", "tide", 75, false, &kernels),
        ("transformer", "swap-all", 75, false, &as_graph()),
    ] {
        let network = networks::small(name).in_bf16();
        check(network, 1.6, options, &[(method, percent, codec_lane)]);
    }
}

/// Fixed rates lose something, and the rest goes on with it.
#[test]
fn a_plan_with_zfp_comes_to_its_end() {
    let Some(()) = inside(&[], &[]) else { return };
    let subject = Subject::small("vgg");
    let plan = subject.plan("cswap+", 70, true, Some(&zfp()));
    assert!(plan.actions.iter().any(|action| matches!(action.task, Task::Compress(_))));
    let mut device = open(&subject.network, &subject.trace, &plan, &plain()).unwrap();
    device.run().unwrap();
    let mut loss = [f32::NAN];
    device.read(subject.network.loss().unwrap(), &mut loss).unwrap();
    assert!(loss[0].is_finite() && loss[0] > 0.0, "{loss:?}");
}
