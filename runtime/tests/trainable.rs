//! Networks that train for real.

use networks::{NetworkOptions, network, network_from_toml, networks};
use runtime::network::{Measured, Network, NotTrainable, Operands};
use schema::{Document, OpId, Origin, Provenance, Role, TensorId, Trace};

/// Every tensor in memory of its own, and NaN wherever nothing was written yet.
struct Memory<'a> {
    network: &'a Network,
    tensors: Vec<Vec<f32>>,
    seed: u64,
    iteration: u64,
}

impl<'a> Memory<'a> {
    fn new(network: &'a Network, seed: u64) -> Self {
        let mut tensors = Vec::new();
        for (index, tensor) in network.tensors().iter().enumerate() {
            let mut data = vec![f32::NAN; tensor.elements];
            network.initialise(TensorId::from_index(index), seed, &mut data);
            tensors.push(data);
        }
        Self { network, tensors, seed, iteration: 0 }
    }

    /// Runs one op, over its input where it may. Where `twice`, first into memory that is thrown
    /// away: what a recomputation would do.
    fn run(&mut self, id: OpId, twice: bool) {
        let op = self.network.op(id);
        let mut outputs: Vec<Vec<f32>> = op
            .writes
            .iter()
            .map(|tensor| vec![f32::NAN; self.network.tensor(*tensor).elements])
            .collect();
        if twice && op.is_rerunnable() {
            self.compute(id, &mut outputs.clone(), false);
        }
        let pair = op.in_place;
        if let Some(pair) = pair {
            let place = op.writes.iter().position(|tensor| *tensor == pair.output);
            let input = std::mem::take(&mut self.tensors[pair.input.index()]);
            outputs[place.expect("the op writes its output")] = input;
        }
        self.compute(id, &mut outputs, pair.is_some());
        for (tensor, data) in op.writes.iter().zip(outputs) {
            self.tensors[tensor.index()] = data;
        }
        for tensor in &op.frees {
            self.tensors[tensor.index()].fill(f32::NAN);
        }
    }

    fn compute(&mut self, id: OpId, outputs: &mut [Vec<f32>], in_place: bool) {
        let op = self.network.op(id);
        let mut updates: Vec<Vec<f32>> =
            op.updates.iter().map(|t| std::mem::take(&mut self.tensors[t.index()])).collect();
        let over = op.in_place.filter(|_| in_place).map(|pair| pair.input);
        let reads = op.reads.iter();
        let operands = Operands {
            reads: reads
                .map(|t| (over != Some(*t)).then_some(&self.tensors[t.index()][..]))
                .collect(),
            updates: updates.iter_mut().map(Vec::as_mut_slice).collect(),
            writes: outputs.iter_mut().map(Vec::as_mut_slice).collect(),
            workspace: &mut vec![f32::NAN; op.step.workspace_floats()],
        };
        self.network.run_op(id, operands).unwrap_or_else(|error| panic!("{}: {error}", op.name));
        for (tensor, data) in op.updates.iter().zip(updates) {
            self.tensors[tensor.index()] = data;
        }
    }

    /// One iteration, and its loss.
    fn iterate(&mut self, twice: bool) -> f32 {
        if let Some(tensor) = self.network.dropout_seed() {
            let cells = &mut self.tensors[tensor.index()];
            self.network.reseed(self.seed, self.iteration, cells);
        }
        for index in 0..self.network.ops().len() {
            self.run(OpId::from_index(index), twice);
        }
        self.iteration += 1;
        self.tensors[self.network.loss().expect("it has a loss").index()][0]
    }

    /// What an iteration leaves behind.
    fn constants(&self) -> Vec<Vec<u32>> {
        let all = self.network.tensors().iter().zip(&self.tensors);
        let constants = all.filter(|(tensor, _)| tensor.is_constant());
        constants.map(|(_, data)| data.iter().map(|x| x.to_bits()).collect()).collect()
    }
}

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
    for info in networks() {
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

/// Trains for some iterations on one batch and holds what every converted network must hold.
fn learns(network: &Network, iterations: usize) {
    let mut memory = Memory::new(network, 5);
    let mut losses = Vec::new();
    let mut after_two = Vec::new();
    for iteration in 1..=iterations {
        losses.push(memory.iterate(false));
        if iteration == 2 {
            after_two = memory.constants();
        }
    }
    let (first, last) = (losses[0], losses[iterations - 1]);
    assert!(losses.iter().all(|loss| loss.is_finite()), "{}: {losses:?}", network.name);
    assert!(last < first, "{}: {losses:?}", network.name);
    // Running every op twice changes no bit: not of weights, and not of running statistics.
    let mut memory = Memory::new(network, 5);
    let again = [memory.iterate(true), memory.iterate(true)];
    assert_eq!(again, losses[..2], "{}", network.name);
    assert!(memory.constants() == after_two, "{}", network.name);
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
const EVERY_KIND: &str = r#"
input = [4, 8, 8, 8]

[[layer]]
name = "stem"
kind = "convolution"
channels = 6
kernel = 3
padding = 1

[[layer]]
name = "norm"
kind = "batch-norm"

[[layer]]
name = "leaky"
kind = "leaky-relu"

[[layer]]
name = "depthwise"
kind = "convolution"
channels = 6
groups = 6
kernel = 3
stride = 2
padding = 1
bias = false

[[layer]]
name = "tanh"
kind = "tanh"

[[layer]]
name = "up"
kind = "upsample"
factor = 2

[[layer]]
name = "twice"
kind = "add"
inputs = ["up", "up"]

[[layer]]
name = "square"
kind = "multiply"
inputs = ["twice", "twice"]

[[layer]]
name = "again"
kind = "add"
inputs = ["square", "leaky"]

[[layer]]
name = "once-more"
kind = "add"
inputs = ["again", "leaky"]

[[layer]]
name = "both"
kind = "concat"
inputs = ["once-more", "up"]

[[layer]]
name = "pool"
kind = "average-pool"
kernel = 2

[[layer]]
name = "max"
kind = "max-pool"
kernel = 2

[[layer]]
name = "mean"
kind = "adaptive-pool"
extent = 1

[[layer]]
name = "gate"
kind = "sigmoid"

[[layer]]
name = "gated"
kind = "multiply"
inputs = ["max", "gate"]

[[layer]]
name = "drop"
kind = "dropout"

[[layer]]
name = "flat"
kind = "flatten"

[[layer]]
name = "rms"
kind = "rms-norm"

[[layer]]
name = "fc"
kind = "linear"
width = 5
"#;

const SELF_ATTENTION: &str = r#"
input = [9]

[[layer]]
name = "words"
kind = "embedding"
rows = 20
width = 12

[[layer]]
name = "norm"
kind = "layer-norm"

[[layer]]
name = "attention"
kind = "attention"
inputs = ["norm", "norm", "norm"]
heads = 3
causal = true

[[layer]]
name = "add"
kind = "add"
inputs = ["attention", "words"]

[[layer]]
name = "silu"
kind = "silu"

[[layer]]
name = "logits"
kind = "linear"
width = 20
"#;

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
    let cut = EVERY_KIND.find("[[layer]]\nname = \"drop\"").unwrap();
    learns(&convert("segments", &EVERY_KIND[..cut], 2), 4);
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
        let mut memory = Memory::new(&network, 1);
        let labels = network.labels().unwrap();
        for input in network.inputs() {
            let value = match input == labels {
                true => runtime::layers::cell_from_index(label),
                false => pixel,
            };
            memory.tensors[input.index()].fill(value);
        }
        memory.iterate(false)
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
