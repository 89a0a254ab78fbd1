//! Whole networks: what is written down is what runs.

use proptest::prelude::*;
use schema::{Document, OpId, Origin, Phase, Provenance, Role, TensorId};

use networks::{Activation, Builder, Built, NetworkOptions, Optimizer, Window};

use super::*;

/// A network of what `layers` add, the last of which are the logits.
pub(crate) fn built(
    name: &str,
    batch: u32,
    optimizer: Optimizer,
    layers: impl FnOnce(&mut Builder) -> Built,
) -> Network {
    let options = NetworkOptions { batch, ..NetworkOptions::default() };
    let mut net = Builder::new(name, &options, Dtype::F32, optimizer).unwrap();
    let logits = layers(&mut net).unwrap();
    Network::new(&net.finish(logits).unwrap(), None).unwrap()
}

/// A residual network of one block, for images of so many rows and columns.
pub(crate) fn tiny(batch: u32, image: u64) -> Network {
    built("tiny", batch, Optimizer::Momentum, |net| {
        let x = net.input("input", &[3, image, image])?;
        let x = net.conv("conv1", x, 4, [7, 2, 3])?;
        let x = net.batch_norm("bn1", x)?;
        let x = net.activation("relu", x, Activation::Relu)?;
        let x = net.max_pool("maxpool", x, Window::square(3, 2, 1))?;
        let y = net.conv("block.conv1", x, 8, [3, 2, 1])?;
        let y = net.batch_norm("block.bn1", y)?;
        let y = net.activation("block.relu1", y, Activation::Relu)?;
        let y = net.conv("block.conv2", y, 8, [3, 1, 1])?;
        let y = net.batch_norm("block.bn2", y)?;
        let x = net.conv("block.downsample", x, 8, [1, 2, 0])?;
        let y = net.sum("block.add", y, x)?;
        let y = net.activation("block.relu2", y, Activation::Relu)?;
        let y = net.adaptive_pool("avgpool", y, 1)?;
        let y = net.flatten("flat", y)?;
        net.linear("fc", y, 3, true)
    })
}

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

pub(crate) fn trace(network: &Network) -> schema::Trace {
    let provenance = Provenance::new(Origin::Modelled, "none", "test");
    let count = network.ops().len();
    let measured = Measured { durations: vec![schema::Nanos(1); count], sparsity: Vec::new() };
    network.trace(&measured, provenance)
}

#[test]
fn one_block_is_written_down_as_frameworks_run_it() {
    let network = built("block", 1, Optimizer::Momentum, |net| {
        let x = net.input("input", &[2, 4, 4])?;
        let x = net.convolution("stem", x, 2, Window::square(3, 1, 1), 1, true)?;
        let x = net.activation("relu", x, Activation::Relu)?;
        let y = net.conv("conv", x, 2, [3, 1, 1])?;
        let y = net.batch_norm("bn", y)?;
        let y = net.sum("add", y, x)?;
        let y = net.adaptive_pool("pool", y, 1)?;
        let y = net.flatten("flat", y)?;
        let y = net.dropout("dropout", y, 50)?;
        net.linear("fc", y, 2, true)
    });
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
    let described = networks::network("resnet18", &NetworkOptions::default()).unwrap();
    let network = Network::new(&described, None).unwrap();
    let parameters = network.tensors().iter().filter(|t| t.role == Role::Parameter);
    // As torchvision's documentation states them: parameters, and 1.81 G multiply-adds.
    assert_eq!(parameters.map(|t| t.elements).sum::<usize>(), 11_689_512);
    let products = network.ops().iter().filter(|op| {
        op.phase == Phase::Forward && matches!(op.step, Step::Convolution(_) | Step::Linear(_))
    });
    let multiply_adds = products.map(|op| op.work.flops).sum::<u64>() / 2;
    assert_eq!(multiply_adds / 10_000_000, 181);
}

/// A little of everything that bends nowhere, so that finite differences are exact.
fn smooth() -> Network {
    built("smooth", 4, Optimizer::Momentum, |net| {
        let x = net.input("input", &[3, 8, 8])?;
        let window = || Window::square(3, 1, 1);
        let x = net.convolution("stem", x, 4, window(), 1, true)?;
        let x = net.batch_norm("norm1", x)?;
        let x = net.activation("act1", x, Activation::Silu)?;
        let y = net.convolution("depthwise", x, 4, window(), 4, false)?;
        let y = net.activation("act2", y, Activation::Gelu)?;
        let gate = net.adaptive_pool("squeeze", y, 1)?;
        let gate = net.activation("gate", gate, Activation::Sigmoid)?;
        let y = net.multiply("scale", y, gate)?;
        let y = net.sum("add", y, x)?;
        let x = net.concat("concat", &[y, x])?;
        let x = net.average_pool("pool", x, Window::square(2, 2, 0))?;
        let x = net.view("rows", x, vec![4, 8, 16])?;
        let x = net.reorder("tokens", x, &[0, 2, 1])?;
        let x = net.row_norm("norm2", x, true)?;
        let q = net.linear("q", x, 8, true)?;
        let q = net.rotary("rotary", q, 4)?;
        let k = net.linear("k", x, 4, false)?;
        let y = net.attention("attention", [q, k, k], 2, 4, true)?;
        let x = net.sum("again", y, x)?;
        let x = net.sum("twice", x, x)?;
        let x = net.row_norm("norm3", x, false)?;
        let x = net.dropout("dropout", x, 25)?;
        let x = net.flatten("flat", x)?;
        net.linear("fc", x, 3, true)
    })
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
    let network = tiny(2, 32);
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
    let network = tiny(2, 32);
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
        batch in 1u32..4, image in 1u64..80,
    ) {
        let network = tiny(batch, image);
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
