//! Chains of stages, each a forward op and a backward op.

use schema::{OpKind, Phase, Role, Trace};

use super::build::{self, tensor};

/// Stage i's forward op reads output i-1 and writes output i and what it saves for its backward op,
/// which reads that, output i-1 and gradient i and writes gradient i-1.
pub struct Chain {
    /// Nanoseconds of each stage's forward op.
    pub forward: Vec<u64>,
    /// Nanoseconds of each stage's backward op.
    pub backward: Vec<u64>,
    /// Bytes of each stage's output.
    pub outputs: Vec<u64>,
    /// Bytes that each stage saves beside its output.
    pub saved: Vec<u64>,
    /// Bytes of each gradient, of an output or of the input.
    pub gradient: u64,
}

impl Chain {
    pub fn uniform(stages: usize) -> Self {
        Self {
            forward: vec![10; stages],
            backward: vec![20; stages],
            outputs: vec![10; stages],
            saved: vec![30; stages],
            gradient: 10,
        }
    }

    pub fn stages(&self) -> usize {
        self.forward.len()
    }
}

/// Tensor 0 is the input; stage i, counted from 0, makes its output `2 i + 1` and saves `2 i + 2`;
/// op i is its forward op. Then come the loss, the backward ops from the last stage on and the
/// gradients in the order in which they are made. The last outlives the iteration.
pub fn trace(chain: &Chain) -> Trace {
    let stages = chain.stages();
    type Ids = Vec<usize>;
    let op = |name: String, phase, duration: u64, lists: [Ids; 3]| {
        let lists = lists.map(|list| list.into_iter().map(|id| id as u32).collect::<Vec<_>>());
        let [reads, writes, frees] = &lists;
        build::op(name, (OpKind::Other, phase), duration, [reads, writes, frees])
    };
    let output = |stage: usize| 2 * stage + 1;
    let input = |stage: usize| if stage == 0 { 0 } else { output(stage - 1) };
    let saved = |stage: usize| 2 * stage + 2;
    let gradient = |stage: usize| 2 * stages + stages - stage;
    let mut tensors = vec![tensor("input", 0, Role::Input)];
    let mut ops = Vec::new();
    for i in 0..stages {
        tensors.push(tensor(format!("x{i}"), chain.outputs[i], Role::Activation));
        tensors.push(tensor(format!("y{i}"), chain.saved[i], Role::Activation));
        let writes = vec![output(i), saved(i)];
        let name = format!("f{i}");
        ops.push(op(name, Phase::Forward, chain.forward[i], [vec![input(i)], writes, vec![]]));
    }
    let last = output(stages - 1);
    tensors.push(tensor("dloss", chain.gradient, Role::Gradient));
    let made = vec![gradient(stages - 1)];
    ops.push(op("loss".into(), Phase::Backward, 0, [vec![last], made, vec![last]]));
    for i in (0..stages).rev() {
        let made = gradient(i) + 1;
        tensors.push(tensor(format!("d{i}"), chain.gradient, Role::Gradient));
        let reads = vec![input(i), saved(i), gradient(i)];
        let dies = reads.iter().copied().filter(|t| *t != 0).collect();
        let time = chain.backward[i];
        ops.push(op(format!("b{i}"), Phase::Backward, time, [reads, vec![made], dies]));
    }
    build::trace("chain", tensors, ops)
}
