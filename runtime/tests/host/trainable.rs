//! Networks that train for real.

use networks::{NetworkOptions, network, network_from_toml, networks};
use runtime::device::HostTensors;
use runtime::network::{Measured, Network, NotTrainable};
use runtime::profile::InCore;
use schema::{Document, OpId, Origin, Provenance, Role, TensorId, Trace};

/// Runs an iteration with everything in memory, outputs over inputs where they may be, and returns its
/// loss.
fn iterate(network: &Network, in_core: &mut InCore, iteration: u64) -> f32 {
    if let Some(cells) = network.dropout_seed().and_then(|tensor| in_core.get_mut(tensor)) {
        network.reseed(SEED, iteration, cells);
    }
    for (index, op) in network.ops().iter().enumerate() {
        let id = OpId::from_index(index);
        in_core.run(id).unwrap_or_else(|error| panic!("{}: {error}", op.name));
        in_core.free(id);
    }
    in_core.get(network.loss().expect("it has a loss")).expect("it was made")[0]
}

fn bits(data: &[f32]) -> Vec<u32> {
    data.iter().map(|x| x.to_bits()).collect()
}

const SEED: u64 = 5;

fn options(batch: u32, image: Option<u32>) -> NetworkOptions {
    NetworkOptions { batch, image: image.map(|side| [side; 2]), ..NetworkOptions::default() }
}

/// The learning rate of networks without normalisations: a batch of two is a steep place.
const CAREFUL: Option<f32> = Some(1e-3);

fn named(name: &str, rate: Option<f32>, options: &NetworkOptions) -> Network {
    let network = network(name, options).unwrap_or_else(|error| panic!("{name}: {error}"));
    Network::new(&network, rate).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn trace(network: &Network) -> Trace {
    let provenance = Provenance::new(Origin::Modelled, "none", "test");
    network.trace(&Measured { durations: Vec::new(), sparsity: Vec::new() }, provenance)
}

#[test]
fn every_network_that_comes_along_is_trainable_and_has_a_well_formed_trace() {
    for info in networks().filter(|info| info.size_of.is_none()) {
        for fused_attention in [true, false] {
            let options = NetworkOptions { fused_attention, ..options(2, None) };
            let described = network(info.name, &options).unwrap();
            let converted = Network::new(&described, None).unwrap();
            let trace = trace(&converted);
            assert_eq!(trace.check(), Ok(()), "{}", info.name);
            let of = |role: Role| converted.tensors().iter().filter(move |t| t.role == role);
            let parameters: usize = of(Role::Parameter).map(|tensor| tensor.elements).sum();
            assert_eq!(parameters as u64, described.parameter_count(), "{}", info.name);
            // Every parameter is updated once.
            let updated = converted.ops().iter().filter(|op| op.phase == schema::Phase::Update);
            assert_eq!(updated.count(), of(Role::Parameter).count(), "{}", info.name);
            // All but constants and the loss is free in the end.
            let freed: usize = trace.ops.iter().map(|op| op.frees.len()).sum();
            let written: usize = trace.ops.iter().map(|op| op.writes.len()).sum();
            assert_eq!(freed + 1, written, "{}", info.name);
        }
    }
}

/// Runs an iteration with every tensor in memory of its own, and each op that may run again a second time,
/// as a recomputation would: that changes no bit.
fn runs_twice(network: &Network, host: &mut HostTensors, iteration: u64) {
    if let Some(tensor) = network.dropout_seed() {
        network.reseed(SEED, iteration, &mut host.tensors[tensor.index()]);
    }
    for (index, op) in network.ops().iter().enumerate() {
        let id = OpId::from_index(index);
        host.advance(id).unwrap();
        if op.is_rerunnable() {
            for (tensor, again) in op.writes.iter().zip(host.run(id).unwrap()) {
                assert!(bits(&again) == bits(&host.tensors[tensor.index()]), "{}", op.name);
            }
        }
    }
}

/// Trains for some iterations on one batch and holds what every converted network must hold.
fn learns(network: &Network, iterations: u64) {
    let mut in_core = InCore::new(network, SEED).unwrap();
    let mut apart = HostTensors::new(network, SEED);
    let mut losses = Vec::new();
    for iteration in 0..iterations {
        losses.push(iterate(network, &mut in_core, iteration));
        if iteration < 2 {
            runs_twice(network, &mut apart, iteration);
            let constants = network.tensors().iter().zip(&apart.tensors).enumerate();
            for (index, (tensor, cells)) in
                constants.filter(|(_, (tensor, _))| tensor.is_constant())
            {
                let found = in_core.get(TensorId::from_index(index)).expect("it is always there");
                assert!(bits(found) == bits(cells), "{}, {}", network.name, tensor.name);
            }
        }
    }
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert!(losses.iter().all(|loss| loss.is_finite()), "{}: {losses:?}", network.name);
    assert!(last < first, "{}: {losses:?}", network.name);
}

#[test]
fn chains_of_convolutions_learn() {
    learns(&named("alexnet-cifar10", CAREFUL, &options(2, Some(16))), 3);
    learns(&named("vgg16-cifar10", CAREFUL, &options(1, Some(32))), 3);
    learns(&named("plain20-cifar10", CAREFUL, &options(4, Some(16))), 4);
    learns(&named("squeezenet-cifar10", CAREFUL, &options(2, Some(32))), 4);
}

#[test]
fn residual_networks_learn() {
    learns(&named("resnet18-cifar10", CAREFUL, &options(2, Some(16))), 2);
    learns(&named("resnet32", CAREFUL, &options(2, Some(32))), 3);
    learns(&named("resnet50-cifar10", CAREFUL, &options(2, Some(8))), 2);
    let video = NetworkOptions { frames: Some(4), ..options(2, Some(32)) };
    learns(&named("resnext101-3d", CAREFUL, &video), 2);
}

#[test]
fn networks_of_many_branches_learn() {
    learns(&named("mobilenet-v1-cifar10", CAREFUL, &options(2, Some(32))), 4);
    learns(&named("mobilenet-v2", CAREFUL, &options(2, Some(64))), 4);
    learns(&named("efficientnet-b0", CAREFUL, &options(2, Some(64))), 4);
    learns(&named("densenet121", CAREFUL, &options(2, Some(32))), 3);
    learns(&named("inceptionv4", CAREFUL, &options(2, Some(80))), 2);
    learns(&named("unet", CAREFUL, &options(1, Some(32))), 3);
}

fn tokens(batch: u32, sequence: u32, fused_attention: bool) -> NetworkOptions {
    NetworkOptions { sequence: Some(sequence), fused_attention, ..options(batch, None) }
}

#[test]
fn transformers_learn() {
    for fused in [true, false] {
        learns(&named("bert-tiny", None, &tokens(1, 12, fused)), 3);
        learns(&named("gpt2-characters", None, &tokens(1, 12, fused)), 2);
        learns(&named("stories260k", None, &tokens(2, 24, fused)), 4);
        let images = NetworkOptions { fused_attention: fused, ..options(2, Some(32)) };
        learns(&named("vit-ti16", None, &images), 3);
    }
}

/// Every kind of layer that a file may have, those that no network that comes along has too.
const EVERY_KIND: &str = include_str!("networks/every-kind.toml");

const SELF_ATTENTION: &str = include_str!("networks/self-attention.toml");

#[test]
fn networks_from_files_learn() {
    let convert = |name: &str, text: &str, batch: u32| {
        let file = std::path::PathBuf::from(format!("{name}.toml"));
        let described = network_from_toml(text, &file, &options(batch, None)).unwrap();
        Network::new(&described, None).unwrap()
    };
    for (name, text) in [("every-kind", EVERY_KIND), ("self-attention", SELF_ATTENTION)] {
        let network = convert(name, text, 3);
        assert_eq!(trace(&network).check(), Ok(()), "{name}");
        learns(&network, 4);
    }
    // Without a flattening, a class for each position.
    let (segments, _) = EVERY_KIND.split_once("  { name = \"drop\"").unwrap();
    learns(&convert("segments", &format!("{segments}]"), 2), 4);
}

#[test]
fn without_an_optimizer_the_gradients_stay() {
    let optimizer = Some(networks::Optimizer::None);
    let options = NetworkOptions { optimizer, ..options(1, Some(16)) };
    let network = named("alexnet-cifar10", CAREFUL, &options);
    let trace = trace(&network);
    assert_eq!(trace.check(), Ok(()));
    assert!(trace.ops.iter().all(|op| op.phase != schema::Phase::Update));
    let written: usize = trace.ops.iter().map(|op| op.writes.len()).sum();
    let freed: usize = trace.ops.iter().map(|op| op.frees.len()).sum();
    let parameters = trace.tensors.iter().filter(|t| t.role == Role::Parameter).count();
    assert_eq!(written - freed, 1 + parameters, "the loss and every gradient");
}

#[test]
fn data_and_labels_are_the_callers() {
    let network = named("plain20-cifar10", CAREFUL, &options(2, Some(8)));
    let loss = |label: u32, pixel: f32| {
        let mut in_core = InCore::new(&network, 1).unwrap();
        let labels = network.labels().unwrap();
        for input in network.inputs() {
            let value = match input == labels {
                true => runtime::layers::cell_from_index(label),
                false => pixel,
            };
            in_core.get_mut(input).unwrap().fill(value);
        }
        iterate(&network, &mut in_core, 0)
    };
    assert_eq!(network.inputs().count(), 2);
    assert_eq!(loss(3, 0.5), loss(3, 0.5));
    assert_ne!(loss(3, 0.5), loss(4, 0.5));
    assert_ne!(loss(3, 0.5), loss(3, -0.5));
}

#[test]
fn dropout_drops_otherwise_in_every_iteration() {
    let network = named("alexnet-cifar10", CAREFUL, &options(1, Some(16)));
    let seed = |iteration: u64| {
        let tensor = network.dropout_seed().expect("it drops");
        let mut cells = vec![f32::NAN; network.tensor(tensor).elements];
        network.reseed(9, iteration, &mut cells);
        let mut first = cells.clone();
        network.initialise(tensor, 9, &mut first);
        (cells, first)
    };
    let (now, first) = seed(0);
    assert_eq!(now, first, "the first iteration's seed is there from the beginning");
    assert_ne!(seed(1).0, now);
    assert_eq!(seed(1), seed(1));
}

#[test]
fn what_the_host_does_not_compute_is_refused_by_name() {
    let refused = |input: &str, layer: &str| {
        let text =
            format!("input = {input}\n[[layer]]\nname = \"odd\"\nkind = \"convolution\"\n{layer}");
        let file = std::path::Path::new("odd-one.toml");
        let described = network_from_toml(&text, file, &options(1, None)).unwrap();
        Network::new(&described, None).unwrap_err()
    };
    let error = refused("[1, 4, 4, 4, 4]", "channels = 2\nkernel = 1");
    assert!(matches!(error, NotTrainable::Layer { .. }), "{error:?}");
    insta::assert_snapshot!(error, @"odd-one: layer `odd` cannot be trained on the host: its window has more than three dimensions");
    let error = refused("[1, 4, 4]", "channels = 2\nkernel = 1\npadding = 1");
    assert!(matches!(error, NotTrainable::Shape { .. }), "{error:?}");
    insta::assert_snapshot!(error, @"odd-one: layer `odd` cannot be trained on the host");
}
