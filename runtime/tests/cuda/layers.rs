//! Kernels of layers against the host's layers, on an emulator.
//!
//! Sums and functions such as `exp` are rounded differently: what is computed may differ by
//! [`TOLERANCE`] of the largest value of its tensor. Indices may not differ, and neither may bits
//! between two runs whose threads go in another order and of which there are more or fewer.

use std::collections::BTreeSet;

use codecs::kernels::{Launch, Launches, Program};
use runtime::cuda::launches::{
    Argument, BLAS, BLAS_HALVES, Cells, Halves, Means, NoKernel, OpOperands, launches,
};
use runtime::cuda::programs;
use runtime::device::HostTensors;
use runtime::layers::{Convolution, Shape, Window, cell_from_index};
use runtime::network::{Network, Op, Step};
use schema::{Bytes, OpId, TensorId};

use crate::emulator::{Emulator, Value};
use crate::models;

/// Largest difference, as a share of the largest value in a tensor.
const TOLERANCE: f64 = 2e-6;

/// Kernels alone.
pub const KERNELS: Means = Means::kernels(8);

/// What cuBLAS promises, one product after the other.
const CUBLAS: Program = Program::new(
    BLAS.0,
    &["
struct Half {
    unsigned short bits;
    operator float() const { return __uint_as_float((unsigned)bits << 16); }
};
template <class T> static void multiply(u64 ta, u64 tb, u64 m, u64 n, u64 k, u64 alpha, const T* a, u64 lda,
    u64 apart_a, const T* b, u64 ldb, u64 apart_b, u64 beta, float* c, u64 ldc, u64 apart_c, u64 batch) {
    if (threadIdx.x != 0) return;
    for (u64 i = 0; i < batch * m * n; i++) {
        u64 one = i / m / n, row = i % m, column = i / m % n;
        float sum = 0;
        for (u64 l = 0; l < k; l++) {
            sum += a[one * apart_a + (ta ? l + row * lda : row + l * lda)]
                * b[one * apart_b + (tb ? column + l * ldb : l + column * ldb)];
        }
        float* to = c + one * apart_c + row + column * ldc;
        *to = __uint_as_float(alpha) * sum + (beta == 0 ? 0.0f : __uint_as_float(beta) * *to);
    }
}
KERNEL sgemm(u64 ta, u64 tb, u64 m, u64 n, u64 k, u64 alpha, const float* a, u64 lda, u64 apart_a,
    const float* b, u64 ldb, u64 apart_b, u64 beta, float* c, u64 ldc, u64 apart_c, u64 batch) {
    multiply(ta, tb, m, n, k, alpha, a, lda, apart_a, b, ldb, apart_b, beta, c, ldc, apart_c, batch);
}
KERNEL gemm_ex(u64 ta, u64 tb, u64 m, u64 n, u64 k, u64 alpha, const Half* a, u64 lda, u64 apart_a,
    const Half* b, u64 ldb, u64 apart_b, u64 beta, float* c, u64 ldc, u64 apart_c, u64 batch) {
    multiply(ta, tb, m, n, k, alpha, a, lda, apart_a, b, ldb, apart_b, beta, c, ldc, apart_c, batch);
}
"],
);

/// Every program, running, and cuBLAS; nothing where there is no compiler.
pub fn emulator() -> Option<Emulator> {
    let all: Vec<Program> = programs().into_iter().chain([CUBLAS]).collect();
    Emulator::new(&all)
}

/// Launches on buffers, of which the last is the status.
fn run(
    emulator: &mut Emulator,
    seed: u64,
    buffers: &mut [Vec<u8>],
    launches: &[Launch<Argument<usize>>],
) {
    let status = buffers.len() - 1;
    let value = |argument: &Argument<usize>| match *argument {
        Argument::Address(buffer, at) => Value::Buffer(buffer, at),
        Argument::Nothing => Value::Number(0),
        Argument::Status => Value::Buffer(status, 0),
        Argument::Number(number) => Value::Number(number),
    };
    let launches: Vec<_> = launches
        .iter()
        .map(|launch| Launch {
            program: launch.program,
            kernel: launch.kernel.clone(),
            blocks: launch.blocks,
            threads: launch.threads,
            arguments: launch.arguments.iter().map(value).collect(),
        })
        .collect();
    emulator.run(seed, buffers, &launches);
}

/// What an op changes and writes with kernels, an output over an input where `in_place`.
fn on_device(
    host: &HostTensors<'_>,
    emulator: &mut Emulator,
    network: &Network,
    id: OpId,
    (seed, means, in_place): (u64, Means, bool),
) -> Vec<Vec<f32>> {
    let op = network.op(id);
    let pair = op.in_place.filter(|_| in_place);
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    let mut add = |data: Vec<u8>| {
        buffers.push(data);
        buffers.len() - 1
    };
    let cells = |tensor: &TensorId, at| Cells::of(network, *tensor, at);
    let stored = |tensor: &TensorId| host.stored(*tensor);
    let mut reads = Vec::new();
    for tensor in &op.reads {
        let gone = pair.is_some_and(|pair| pair.input == *tensor);
        reads.push((!gone).then(|| cells(tensor, add(stored(tensor)))));
    }
    let updates = op.updates.iter().map(|tensor| cells(tensor, add(stored(tensor))));
    let updates: Vec<_> = updates.collect();
    let writes = op.writes.iter().map(|tensor| {
        let data = match pair.filter(|pair| pair.output == *tensor) {
            Some(pair) => stored(&pair.input),
            None => vec![0xff; stored(tensor).len()],
        };
        cells(tensor, add(data))
    });
    let writes: Vec<_> = writes.collect();
    let workspace = add(vec![0xff; 4 * op.step.workspace_floats()]);
    let scratch = add(Vec::new());
    let operands =
        OpOperands { reads: &reads, updates: &updates, writes: &writes, workspace, scratch };
    let Launches { launches, scratch_bytes } = launches(&op.step, id, &operands, means).unwrap();
    buffers[scratch] = vec![0xff; scratch_bytes as usize];
    buffers.push(u64::MAX.to_le_bytes().to_vec());
    run(emulator, seed, &mut buffers, &launches);
    assert_eq!(buffers.last().unwrap(), &u64::MAX.to_le_bytes(), "{}", op.name);
    let read = |place: &Cells<usize>| -> Vec<f32> {
        let bytes = &buffers[place.at];
        let wide = |half: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*half)) << 16);
        match place.narrow {
            true => bytes.as_chunks::<2>().0.iter().map(wide).collect(),
            false => {
                bytes.as_chunks::<4>().0.iter().map(|cell| f32::from_le_bytes(*cell)).collect()
            }
        }
    };
    updates.iter().chain(&writes).map(read).collect()
}

fn bits(tensors: &[Vec<f32>]) -> Vec<Vec<u32>> {
    tensors.iter().map(|tensor| tensor.iter().map(|cell| cell.to_bits()).collect()).collect()
}

/// Runs an iteration op by op, on both, each op from what the host made before, with so much memory
/// for attention's scores.
fn check(network: &Network, scores: Bytes) -> Option<f64> {
    let mut emulator = emulator()?;
    let mut host = HostTensors::new(network, 3).with_random_parameters();
    let mut worst = 0f64;
    for (index, op) in network.ops().iter().enumerate() {
        let id = OpId::from_index(index);
        let expected = host.run(id).unwrap();
        let mut on_device = |seed, means, in_place| {
            on_device(&host, &mut emulator, network, id, (seed, means, in_place))
        };
        let kernels = |blocks| Means { scores, ..Means::kernels(blocks) };
        let blas = |halves| Means { blas: true, halves, ..kernels(40) };
        let found = on_device(index as u64, kernels(40), false);
        let again = on_device(!(index as u64), kernels(3), true);
        let with_blas = on_device(index as u64, blas(Halves::None), false);
        let in_halves = on_device(index as u64, blas(Halves::WithWeights), false);
        assert!(bits(&found) == bits(&again), "`{}` differs between two runs", op.name);
        let tensors: Vec<TensorId> = op.updates.iter().chain(&op.writes).copied().collect();
        let all = found.into_iter().zip(with_blas).zip(in_halves);
        for ((tensor, expected), ((found, with_blas), in_halves)) in
            tensors.iter().zip(expected).zip(all)
        {
            for found in [found, with_blas, in_halves] {
                let off = host.difference(*tensor, &expected, &found);
                let name = &network.tensor(*tensor).name;
                assert!(off <= TOLERANCE, "`{name}` of `{}`: {off:e}", op.name);
                worst = worst.max(off);
            }
            host.tensors[tensor.index()] = expected;
        }
    }
    Some(worst)
}

pub fn check_and_say(network: &Network) {
    check_within(network, KERNELS.scores);
}

/// The same with so much memory for attention's scores.
pub fn check_within(network: &Network, scores: Bytes) {
    if let Some(worst) = check(network, scores) {
        eprintln!("{}: differences of {worst:e} at most", network.name);
    }
}

#[test]
fn a_residual_network() {
    check_and_say(&models::resnet());
}

#[test]
fn layers_of_images() {
    check_and_say(&models::images());
}

#[test]
fn layers_of_volumes() {
    check_and_say(&models::volumes());
}

#[test]
fn layers_of_tokens() {
    check_and_say(&models::tokens());
}

/// What is stored in 16 bits is what the host makes, or the next value beside it.
#[test]
fn layers_in_16_bits() {
    for network in models::all() {
        let network = network.in_bf16();
        assert!(network.tensors().iter().any(|tensor| tensor.is_narrow()));
        check_and_say(&network);
    }
}

/// What is launched for each op of a network with these means, and its name.
pub fn launches_of(network: &Network, means: Means) -> Vec<(String, Launches<Argument<usize>>)> {
    let place = |tensor: &TensorId| Cells::of(network, *tensor, 0usize);
    let of_op = |(index, op): (usize, &Op)| {
        let reads: Vec<_> = op.reads.iter().map(|tensor| Some(place(tensor))).collect();
        let updates: Vec<_> = op.updates.iter().map(place).collect();
        let writes: Vec<_> = op.writes.iter().map(place).collect();
        let operands = OpOperands {
            reads: &reads,
            updates: &updates,
            writes: &writes,
            workspace: 0,
            scratch: 0,
        };
        (op.name.clone(), launches(&op.step, OpId::from_index(index), &operands, means).unwrap())
    };
    network.ops().iter().enumerate().map(of_op).collect()
}

fn launched(network: &Network, means: Means) -> Vec<(String, Vec<(&'static str, String)>)> {
    let named = |launches: Launches<Argument<usize>>| {
        launches.launches.into_iter().map(|launch| (launch.program, launch.kernel)).collect()
    };
    launches_of(network, means)
        .into_iter()
        .map(|(name, launches)| (name, named(launches)))
        .collect()
}

/// What a network has not is no kernel, and each kernel is launched by some network.
#[test]
fn every_kernel_is_launched() {
    let in_halves = Means { blas: true, halves: Halves::WithWeights, ..KERNELS };
    let with_blas = Means { blas: true, ..KERNELS };
    let networks = [KERNELS, with_blas]
        .into_iter()
        .flat_map(|means| models::all().map(|network| (network, means)));
    let in_bf16 = [KERNELS, in_halves]
        .into_iter()
        .flat_map(|means| models::all().map(|network| (network.in_bf16(), means)));
    let all = networks.chain(in_bf16).flat_map(|(network, means)| launched(&network, means));
    let kernels = all.flat_map(|(_, launches)| launches);
    let launched: BTreeSet<String> = kernels
        .filter(|(program, _)| *program != BLAS.0)
        .map(|(program, kernel)| format!("{program}/{kernel}"))
        .collect();
    let codecs = codecs::kernels::programs();
    // Compressed forms are those of plans; zeros are counted behind any op.
    let of_layers = programs().into_iter().filter(|program| !codecs.contains(program));
    let of_layers = of_layers.filter(|program| !["forms", "zeros"].contains(&program.name()));
    let named = |program: Program| {
        program.kernels().into_iter().map(move |kernel| format!("{}/{kernel}", program.name()))
    };
    let all: BTreeSet<String> = of_layers.flat_map(named).collect();
    assert_eq!(launched, all);
}

/// All products are cuBLAS's: those that hide keys are told what to hide by a kernel, and those of
/// heads that share an operand which is summed up are told head by head.
#[test]
fn products_are_told_to_cublas() {
    let means = Means { blas: true, ..KERNELS };
    for network in models::all() {
        for (name, launches) in launched(&network, means) {
            let ours = launches.iter().any(|(_, kernel)| kernel == "product");
            assert!(!ours, "`{name}` of `{}` is not told to cuBLAS", network.name);
        }
    }
}

/// Products of operands that are stored in 16 bits are told so, and those with weights where that
/// pays: what is left to floats is attention's, which has its scores in floats, and convolutions of
/// one cell.
#[test]
fn products_of_16_bits_are_told_to_cublas() {
    let networks = models::all().map(Network::in_bf16);
    let by = |halves, kernel: &str| -> BTreeSet<String> {
        let means = Means { blas: true, halves, ..KERNELS };
        let all = networks.iter().flat_map(|network| launched(network, means));
        let has = |launches: &[(&str, String)]| {
            launches.iter().any(|(program, name)| *program == BLAS.0 && name == kernel)
        };
        all.filter(|(_, launches)| has(launches)).map(|(name, _)| name).collect()
    };
    let (floats, halves) = (BLAS.1, BLAS_HALVES.1);
    assert!(by(Halves::None, halves).is_empty());
    let (before, stored, all) =
        (by(Halves::None, floats), by(Halves::Stored, halves), by(Halves::WithWeights, halves));
    assert!(stored.is_subset(&all) && all.is_subset(&before));
    let weights: Vec<&String> = all.difference(&stored).collect();
    assert!(weights.iter().any(|name| name.ends_with("backward.input")), "{weights:?}");
    let left = by(Halves::WithWeights, floats);
    assert_eq!(left, before.difference(&all).cloned().collect());
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    assert_eq!(left, ["attention", "attention.backward", "pointwise.backward.input"]);
}

#[test]
fn what_kernels_cannot_count_is_refused_by_name() {
    let shape = Shape::image(1 << 20, 1, 1 << 10, 1 << 10);
    let window = Window::square(1, 1, 0);
    let step = Step::Convolution(Convolution::new(shape, 1, window, 1).unwrap());
    let place = Cells::new(0usize, 4);
    let operands = OpOperands {
        reads: &[Some(place)],
        updates: &[],
        writes: &[place],
        workspace: 0,
        scratch: 0,
    };
    let refused = launches(&step, OpId(0), &operands, KERNELS);
    assert_eq!(refused, Err(NoKernel { what: "a convolution of 2^32 positions or more" }));
}

/// Labels that are no class are said, and nothing is read outside of a row.
#[test]
fn wrong_labels_are_said() {
    let Some(mut emulator) = emulator() else { return };
    let network = models::volumes();
    let (id, op) =
        network.ops().iter().enumerate().find(|(_, op)| matches!(op.step, Step::Loss(..))).unwrap();
    let host = HostTensors::new(&network, 3);
    let elements = |tensor: TensorId| network.tensor(tensor).elements;
    let mut labels = host.tensors[op.reads[1].index()].clone();
    labels[1] = cell_from_index(4_000_000_000);
    let bytes = |cells: &[f32]| cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
    let mut buffers = vec![bytes(&vec![0.5; elements(op.reads[0])]), bytes(&labels)];
    buffers.extend(op.writes.iter().map(|tensor| vec![0; 4 * elements(*tensor)]));
    let place = |at| Cells::new(at, 0);
    let operands = OpOperands {
        reads: &[Some(place(0)), Some(place(1))],
        updates: &[],
        writes: &[place(2), place(3)],
        workspace: 0,
        scratch: 4,
    };
    let launches = launches(&op.step, OpId::from_index(id), &operands, KERNELS).unwrap();
    buffers.push(vec![0; launches.scratch_bytes as usize]);
    buffers.push(u64::MAX.to_le_bytes().to_vec());
    run(&mut emulator, 1, &mut buffers, &launches.launches);
    assert_eq!(buffers[5], (id as u64).to_le_bytes());
}
