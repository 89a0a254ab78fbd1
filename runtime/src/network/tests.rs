//! Whole networks: what is written down is what runs.

use schema::{OpId, Origin, Phase, Provenance, TensorId};

use networks::{Activation, Builder, Built, NetworkOptions, Optimizer, Window};

use super::*;
use crate::device::HostTensors;

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

/// Runs the ops of a phase, and keeps what they make.
fn run_phase(network: &Network, host: &mut HostTensors, phase: Phase) {
    let ops = network.ops().iter().enumerate().filter(|(_, op)| op.phase == phase);
    for (index, op) in ops {
        host.advance(OpId::from_index(index))
            .unwrap_or_else(|error| panic!("{}: {error}", op.name));
    }
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
    // As torchvision's documentation states it: 1.81 G multiply-adds.
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
    let mut host = HostTensors::new(&network, 7);
    run_phase(&network, &mut host, Phase::Forward);
    run_phase(&network, &mut host, Phase::Backward);
    for op in network.ops().iter().filter(|op| op.phase == Phase::Update) {
        let parameter = op.updates[0].index();
        let gradient = host.tensors[op.reads[0].index()].clone();
        let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let original = host.tensors[parameter].clone();
        let mut loss_at = |distance: f64| {
            let moved = original.iter().zip(&gradient);
            let moved =
                moved.map(|(o, g)| (f64::from(*o) + distance * f64::from(*g) / length) as f32);
            host.tensors[parameter] = moved.collect();
            run_phase(&network, &mut host, Phase::Forward);
            f64::from(host.tensors[network.loss().unwrap().index()][0])
        };
        let step = 4e-3;
        let slope = (loss_at(step) - loss_at(-step)) / (2.0 * step);
        host.tensors[parameter] = original;
        let error = (slope - length).abs();
        assert!(error < 0.002 * length + 2e-4, "{}: gradient {length}, slope {slope}", op.name);
    }
}

#[test]
fn wrong_operands_are_refused() {
    let network = tiny(2, 32);
    let conv = OpId(0);
    assert!(matches!(network.op(conv).step, Step::Convolution(_)));
    let host = HostTensors::new(&network, 1);
    let op = network.op(conv);
    let reads = || op.reads.iter().map(|t| Some(&host.tensors[t.index()][..])).collect::<Vec<_>>();
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
