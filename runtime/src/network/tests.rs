//! Whole networks: what is written down is what runs.

use proptest::prelude::*;
use schema::{Document, OpId, Origin, Phase, Provenance, Role, TensorId};

use super::*;
use crate::layers::{Sgd, Shape4, Window};

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
    let (mut net, x) = Builder::new("block", Shape4 { n: 1, c: 2, h: 4, w: 4 });
    let window = Window { kernel: 3, stride: 1, padding: 1 };
    let x = net.convolution("stem", x, 2, window).unwrap();
    let x = net.relu("relu", x);
    let y = net.convolution("conv", x, 2, window).unwrap();
    let y = net.batch_norm("bn", y);
    let y = net.add("add", y, x);
    let y = net.average_pool("pool", y);
    let y = net.linear("fc", y, 2);
    let network = net.classify(y, Sgd::default());
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
    stem: input, stem.weight -> stem
    relu: stem -> relu, over stem
    conv: relu, conv.weight -> conv
    bn: conv, bn.weight, bn.bias -> bn, bn.saved
    add: bn, relu -> add, over bn
    pool: add -> pool
    fc: pool, fc.weight, fc.bias -> fc
    loss: fc, labels -> loss, loss.probabilities
    loss.backward: loss.probabilities, labels -> fc.grad
    fc.backward: pool, fc.weight, fc.grad -> pool.grad, fc.weight.grad, fc.bias.grad
    pool.backward: pool.grad -> add.grad
    bn.backward: conv, bn.weight, bn.saved, add.grad -> conv.grad, bn.weight.grad, bn.bias.grad
    conv.backward: relu, conv.weight, conv.grad -> relu.grad, conv.weight.grad
    relu.accumulate: relu.grad, add.grad -> relu.grad.total, over relu.grad
    relu.backward: relu, relu.grad.total -> stem.grad, over relu.grad.total
    stem.backward: input, stem.weight, stem.grad -> stem.weight.grad
    stem.weight.sgd: stem.weight.grad updates stem.weight, stem.weight.momentum
    conv.weight.sgd: conv.weight.grad updates conv.weight, conv.weight.momentum
    bn.weight.sgd: bn.weight.grad updates bn.weight, bn.weight.momentum
    bn.bias.sgd: bn.bias.grad updates bn.bias, bn.bias.momentum
    fc.weight.sgd: fc.weight.grad updates fc.weight, fc.weight.momentum
    fc.bias.sgd: fc.bias.grad updates fc.bias, fc.bias.momentum
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

#[test]
fn the_loss_falls_as_fast_as_the_gradients_say() {
    // Enough pixels in every channel of the last stage for its statistics to be smooth.
    let network = ResNet { batch: 8, image: 64, ..TINY }.build("tiny").unwrap();
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
        let step = 5e-4;
        let slope = (loss_at(step) - loss_at(-step)) / (2.0 * step);
        memory.0[parameter] = original;
        // A step across the bend of a ReLU changes the slope: hence a few per cent.
        assert!(
            (slope - length).abs() < 0.03 * length + 3e-3,
            "{}: gradient {length}, slope {slope}",
            op.name
        );
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
