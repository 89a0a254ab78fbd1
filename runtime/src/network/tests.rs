//! Whole networks: what is written down is what runs.

use proptest::prelude::*;
use schema::{Document, OpId, Origin, Phase, Provenance, Role, TensorId};

use super::*;
use crate::layers::{Activation, Optimizer, Sgd, Window};

const TINY: ResNet = ResNet { batch: 2, image: 32, width: 2, blocks: 1, classes: 3 };

/// Memory in which every tensor has a place of its own for ever.
struct Memory(Vec<Vec<f32>>);

impl Memory {
    fn new(network: &Network, seed: u64) -> Self {
        let tensors = network.tensors().iter().enumerate().map(|(index, tensor)| {
            let mut data = vec![f32::NAN; tensor.elements];
            network.initialise(TensorId::from_index(index), seed, &mut data);
            data
        });
        Self(tensors.collect())
    }

    /// Runs an op, laying outputs over inputs where `in_place`.
    fn run(&mut self, network: &Network, id: OpId, in_place: bool) {
        let op = network.op(id);
        let pair = op.in_place.filter(|_| in_place);
        if let Some(pair) = pair {
            self.0[pair.output.index()] = std::mem::take(&mut self.0[pair.input.index()]);
        }
        let mut take = |ids: &[TensorId]| -> Vec<Vec<f32>> {
            ids.iter().map(|id| std::mem::take(&mut self.0[id.index()])).collect()
        };
        let (mut writes, mut updates) = (take(&op.writes), take(&op.updates));
        let gone = |id: &TensorId| pair.is_some_and(|pair| pair.input == *id);
        let operands = Operands {
            reads: op.reads.iter().map(|t| (!gone(t)).then_some(&self.0[t.index()][..])).collect(),
            updates: updates.iter_mut().map(Vec::as_mut_slice).collect(),
            writes: writes.iter_mut().map(Vec::as_mut_slice).collect(),
            workspace: &mut vec![f32::NAN; op.step.workspace_floats()],
        };
        network.run_op(id, operands).unwrap();
        for (id, data) in op.writes.iter().zip(writes).chain(op.updates.iter().zip(updates)) {
            self.0[id.index()] = data;
        }
    }

    fn run_phase(&mut self, network: &Network, phase: Phase, in_place: bool) {
        for (index, op) in network.ops().iter().enumerate() {
            if op.phase == phase {
                self.run(network, OpId::from_index(index), in_place);
            }
        }
    }

    fn loss(&mut self, network: &Network) -> f64 {
        self.run_phase(network, Phase::Forward, false);
        f64::from(self.0[network.loss().unwrap().index()][0])
    }
}

/// The bits of every constant: what an iteration leaves behind.
fn constants(network: &Network, memory: &Memory) -> Vec<Vec<u32>> {
    let tensors = network.tensors().iter().zip(&memory.0);
    let constants = tensors.filter(|(tensor, _)| tensor.is_constant());
    constants.map(|(_, data)| data.iter().map(|x| x.to_bits()).collect()).collect()
}

fn trace(network: &Network) -> schema::Trace {
    let provenance = Provenance {
        settings: Default::default(),
        origin: Origin::Modelled,
        device: "none".into(),
        framework: None,
        source: "test".into(),
        date: None,
        notes: Vec::new(),
    };
    let count = network.ops().len();
    let measured = Measured { durations: vec![schema::Nanos(1); count], sparsity: Vec::new() };
    network.trace(&measured, provenance)
}

#[test]
fn one_block_is_written_down_as_frameworks_run_it() {
    let mut net = Builder::new("block", 1);
    let x = net.input("input", &[1, 2, 4, 4], Initial::normalised());
    let window = (Window::square(3, 1, 1), 1);
    let x = net.convolution("stem", &x, 2, window, true).unwrap();
    let x = net.activation("relu", &x, Activation::Relu);
    let y = net.convolution("conv", &x, 2, window, false).unwrap();
    let y = net.batch_norm("bn", &y).unwrap();
    let y = net.add("add", &y, &x).unwrap();
    let y = net.adaptive_pool("pool", &y, &[1]).unwrap();
    let y = net.view(&y, &[1, 2]).unwrap();
    let y = net.dropout("dropout", &y, 50);
    let y = net.linear("fc", &y, 2, true).unwrap();
    let network = net.classify(&y, Some(Optimizer::Sgd(Sgd::default())));
    let names = |ids: &[TensorId]| {
        ids.iter().map(|id| network.tensor(*id).name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let lines = network.ops().iter().map(|op| {
        let mut line = format!("{}: {}", op.name, names(&op.reads));
        for (what, tensors) in [("->", &op.writes), ("updates", &op.updates)] {
            if !tensors.is_empty() {
                line = format!("{line} {what} {}", names(tensors));
            }
        }
        op.in_place
            .into_iter()
            .for_each(|pair| line += &format!(", over {}", names(&[pair.input])));
        line + "\n"
    });
    insta::assert_snapshot!(lines.collect::<String>(), @r"
    stem: input, stem.weight, stem.bias -> stem
    relu: stem -> relu, over stem
    conv: relu, conv.weight -> conv
    bn: conv, bn.weight, bn.bias -> bn, bn.saved
    bn.running: bn.saved updates bn.running_mean, bn.running_variance
    add: bn, relu -> add, over bn
    pool: add -> pool
    dropout: pool, dropout.seed -> dropout, over pool
    fc: dropout, fc.weight, fc.bias -> fc
    loss: fc, labels -> loss, loss.probabilities
    loss.backward: loss.probabilities, labels -> fc.grad
    fc.backward.weights: dropout, fc.grad -> fc.weight.grad, fc.bias.grad
    fc.backward.input: fc.weight, fc.grad -> dropout.grad
    dropout.backward: dropout.grad, dropout.seed -> pool.grad, over dropout.grad
    pool.backward: pool.grad -> add.grad
    bn.backward: conv, bn.weight, bn.saved, add.grad -> conv.grad, bn.weight.grad, bn.bias.grad
    conv.backward.weights: relu, conv.grad -> conv.weight.grad
    conv.backward.input: conv.weight, conv.grad -> relu.grad
    relu.accumulate: relu.grad, add.grad -> relu.grad.total, over relu.grad
    relu.backward: relu, relu.grad.total -> stem.grad, over relu.grad.total
    stem.backward.weights: input, stem.grad -> stem.weight.grad, stem.bias.grad
    stem.weight.update: stem.weight.grad updates stem.weight, stem.weight.momentum
    stem.bias.update: stem.bias.grad updates stem.bias, stem.bias.momentum
    conv.weight.update: conv.weight.grad updates conv.weight, conv.weight.momentum
    bn.weight.update: bn.weight.grad updates bn.weight, bn.weight.momentum
    bn.bias.update: bn.bias.grad updates bn.bias, bn.bias.momentum
    fc.weight.update: fc.weight.grad updates fc.weight, fc.weight.momentum
    fc.bias.update: fc.bias.grad updates fc.bias, fc.bias.momentum
    ");
}

#[test]
fn resnet18_has_the_size_that_is_known() {
    let network = ResNet::resnet18(1, 224).build("resnet18").unwrap();
    let parameters = network.tensors().iter().filter(|t| t.role == Role::Parameter);
    // As torchvision's documentation states them: parameters, and 1.81 G multiply-adds.
    assert_eq!(parameters.map(|t| t.elements).sum::<usize>(), 11_689_512);
    let products = network.ops().iter().filter(|op| {
        op.phase == Phase::Forward && matches!(op.step, Step::Convolution(_) | Step::Linear(_))
    });
    let multiply_adds = products.map(|op| op.step.flops()).sum::<u64>() / 2;
    assert_eq!(multiply_adds / 10_000_000, 181);
}

#[test]
fn sizes_that_no_network_has_are_refused() {
    for (network, what) in [
        (ResNet { batch: 0, ..TINY }, "batch"),
        (ResNet { image: 0, ..TINY }, "image"),
        (ResNet { image: usize::MAX, ..TINY }, "image"),
        (ResNet { width: 0, ..TINY }, "width"),
        (ResNet { blocks: 0, ..TINY }, "blocks"),
        (ResNet { classes: usize::MAX, ..TINY }, "classes"),
    ] {
        let refused = network.build("tiny").unwrap_err();
        assert!(matches!(refused, ResNetError::Size { what: w, .. } if w == what), "{refused}");
    }
}

/// A little of everything that bends nowhere, so that finite differences are exact.
fn smooth() -> Network {
    let mut net = Builder::new("smooth", 4);
    let x = net.input("input", &[4, 3, 8, 8], Initial::normalised());
    let window = (Window::square(3, 1, 1), 1);
    let x = net.convolution("stem", &x, 4, window, true).unwrap();
    let x = net.batch_norm("norm1", &x).unwrap();
    let x = net.activation("act1", &x, Activation::Silu);
    let y = net.convolution("depthwise", &x, 4, (Window::square(3, 1, 1), 4), false).unwrap();
    let y = net.activation("act2", &y, Activation::Gelu);
    let gate = net.adaptive_pool("squeeze", &y, &[1]).unwrap();
    let gate = net.activation("gate", &gate, Activation::Sigmoid);
    let y = net.multiply("scale", &y, &gate).unwrap();
    let y = net.add("add", &y, &x).unwrap();
    let x = net.concat("concat", &[&y, &x], 1).unwrap();
    let x = net.average_pool("pool", &x, Window::square(2, 2, 0)).unwrap();
    let x = net.view(&x, &[4, 8, 16]).unwrap();
    let x = net.reorder("tokens", &x, &[0, 2, 1]).unwrap();
    let x = net.row_norm("norm2", &x, true);
    let q = net.linear("q", &x, 8, true).unwrap();
    let q = net.rotary("rotary", &q, 4).unwrap();
    let k = net.linear("k", &x, 4, false).unwrap();
    let y = net.attention("attention", [&q, &k, &k], 2, true).unwrap();
    let x = net.add("again", &y, &x).unwrap();
    let x = net.add("twice", &x, &x).unwrap();
    let x = net.row_norm("norm3", &x, false);
    let x = net.dropout("dropout", &x, 25);
    let x = net.view(&x, &[4, 128]).unwrap();
    let logits = net.linear("fc", &x, 3, true).unwrap();
    net.classify(&logits, Some(Optimizer::Sgd(Sgd::default())))
}

#[test]
fn the_loss_falls_as_fast_as_the_gradients_say() {
    let network = smooth();
    let mut memory = Memory::new(&network, 7);
    memory.run_phase(&network, Phase::Forward, false);
    memory.run_phase(&network, Phase::Backward, false);
    for op in network.ops().iter().filter(|op| op.phase == Phase::Update) {
        let parameter = op.updates[0].index();
        let gradient = memory.0[op.reads[0].index()].clone();
        let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let original = memory.0[parameter].clone();
        let mut loss_at = |distance: f64| {
            for (p, (o, g)) in memory.0[parameter].iter_mut().zip(original.iter().zip(&gradient)) {
                *p = (f64::from(*o) + distance * f64::from(*g) / length) as f32;
            }
            memory.loss(&network)
        };
        let step = 4e-3;
        let slope = (loss_at(step) - loss_at(-step)) / (2.0 * step);
        memory.0[parameter] = original;
        let error = (slope - length).abs();
        assert!(error < 0.002 * length + 2e-4, "{}: gradient {length}, slope {slope}", op.name);
    }
}

#[test]
fn in_place_or_not_and_run_again_or_not_gives_the_same_bits() {
    let network = TINY.build("tiny").unwrap();
    let run = |twice: bool| {
        let mut memory = Memory::new(&network, 7);
        for index in (0..network.ops().len()).chain(0..network.ops().len()) {
            let id = OpId::from_index(index);
            memory.run(&network, id, false);
            if twice && network.op(id).is_rerunnable() {
                memory.run(&network, id, false);
            }
        }
        constants(&network, &memory)
    };
    let expected = run(false);
    assert_eq!(run(true), expected);
    assert_ne!(expected, constants(&network, &Memory::new(&network, 7)), "nothing was learnt");

    // In place, an input is gone after the op, so that every iteration begins afresh.
    let mut memory = Memory::new(&network, 7);
    for _ in 0..2 {
        for (tensor, data) in network.tensors().iter().zip(&mut memory.0) {
            if !tensor.is_constant() {
                *data = vec![f32::NAN; tensor.elements];
            }
        }
        for phase in [Phase::Forward, Phase::Backward, Phase::Update] {
            memory.run_phase(&network, phase, true);
        }
    }
    assert_eq!(constants(&network, &memory), expected);
}

#[test]
fn wrong_operands_are_refused() {
    let network = TINY.build("tiny").unwrap();
    let conv = OpId(0);
    assert!(matches!(network.op(conv).step, Step::Convolution(_)));
    let memory = Memory::new(&network, 1);
    let op = network.op(conv);
    let reads = || op.reads.iter().map(|t| Some(&memory.0[t.index()][..])).collect::<Vec<_>>();
    let mut output = vec![0.0; network.tensor(op.writes[0]).elements];
    let mut workspace = vec![0.0; op.step.workspace_floats()];
    let mut run = |reads: Vec<Option<&[f32]>>, output_short: usize, workspace_short: usize| {
        let (output, workspace) =
            (output.split_at_mut(output_short).1, &mut workspace[workspace_short..]);
        let operands = Operands { reads, updates: Vec::new(), writes: vec![output], workspace };
        network.run_op(conv, operands)
    };
    assert_eq!(run(reads(), 0, 0), Ok(()));
    assert!(matches!(run(reads(), 1, 0), Err(RunError::Length { .. })));
    assert!(matches!(run(reads(), 0, 1), Err(RunError::Workspace { .. })));
    assert!(matches!(run(vec![None, reads()[1]], 0, 0), Err(RunError::Operands { .. })));
    let nothing = Operands { reads: vec![], updates: vec![], writes: vec![], workspace: &mut [] };
    let count = network.ops().len();
    let unknown = OpId::from_index(count);
    assert_eq!(network.run_op(unknown, nothing), Err(RunError::UnknownOp { op: unknown, count }));
    assert!(matches!(run(reads()[..1].to_vec(), 0, 0), Err(RunError::Operands { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_trace_is_well_formed_and_frees_all_but_constants_and_the_loss(
        batch in 1usize..4, image in 1usize..80, width in 1usize..5, blocks in 1usize..4,
    ) {
        let network = ResNet { batch, image, width, blocks, classes: 3 }.build("any").unwrap();
        let trace = trace(&network);
        prop_assert_eq!(trace.check(), Ok(()));
        let mut freed = vec![false; trace.tensors.len()];
        for tensor in trace.ops.iter().flat_map(|op| &op.frees) {
            freed[tensor.index()] = true;
        }
        for (index, tensor) in network.tensors().iter().enumerate() {
            let stays = tensor.is_constant() || network.loss() == Some(TensorId::from_index(index));
            prop_assert_eq!(freed[index], !stays, "{}", tensor.name);
        }
    }
}
