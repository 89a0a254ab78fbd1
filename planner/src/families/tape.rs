//! A trace that is being made up: forward ops are noted, so that backward ops can follow from them.

use std::collections::BTreeMap;

use schema::{
    Bytes, InPlace, Nanos, Op, OpKind, Origin, Phase, Provenance, Role, Tensor, TensorId, Trace,
};

use crate::split_mix::SplitMix;

/// What an op is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Much arithmetic: convolutions and products. Backward reads the inputs.
    Dear,
    /// As fast as memory: activations, which backward knows by their outputs.
    Pointwise,
    /// As fast as memory, with tiny statistics that backward reads beside the input.
    Norm,
    /// Sums and joins, of which backward reads nothing.
    Join,
}

/// What backward needs to know of an op.
#[derive(Clone)]
struct Noted {
    work: Work,
    inputs: Vec<TensorId>,
    output: TensorId,
    /// Statistics, and the parameter.
    saved: Vec<TensorId>,
    parameter: Option<TensorId>,
}

/// A trace that is being made up.
pub(super) struct Tape {
    pub random: SplitMix,
    /// About how many ops it is to have.
    pub ops: usize,
    trace: Trace,
    noted: Vec<Noted>,
    /// Gradients of parameters that no update has taken yet.
    gradients: BTreeMap<TensorId, TensorId>,
    /// Bytes of an output of usual size.
    usual: f64,
    phase: Phase,
}

/// Bytes per nanosecond of what is as fast as memory.
const BANDWIDTH: f64 = 400.0;

/// Bytes of saved statistics.
const TINY: u64 = 4096;

impl Tape {
    pub fn new(mut random: SplitMix, ops: usize) -> Self {
        let usual = f64::from(1u32 << 18) * 64f64.powf(random.unit());
        Self {
            random,
            ops,
            trace: Trace {
                network: String::new(),
                batch: None,
                provenance: Provenance {
                    notes: vec!["sizes and times are drawn from a seed".into()],
                    ..Provenance::new(Origin::Modelled, "a made-up device", "made up")
                },
                tensors: Vec::new(),
                ops: Vec::new(),
            },
            noted: Vec::new(),
            gradients: BTreeMap::new(),
            usual,
            phase: Phase::Forward,
        }
    }

    /// Whether there are as many ops as this share of those wanted.
    pub fn has(&self, share: f64) -> bool {
        self.trace.ops.len() as f64 >= share * self.ops as f64
    }

    /// Where noting stands, for [`Tape::backward`].
    pub fn mark(&self) -> usize {
        self.noted.len()
    }

    fn tensor(&mut self, bytes: u64, role: Role) -> TensorId {
        let id = TensorId::from_index(self.trace.tensors.len());
        self.trace.tensors.push(Tensor::new(format!("t{}", id.0), Bytes(bytes), role));
        id
    }

    /// Samples, which are there from the start.
    pub fn input(&mut self) -> TensorId {
        let bytes = self.usual as u64;
        self.tensor(bytes, Role::Input)
    }

    pub fn parameter(&mut self) -> TensorId {
        let bytes = (16_384.0 * 256f64.powf(self.random.unit())) as u64;
        self.tensor(bytes, Role::Parameter)
    }

    /// Outputs are larger or smaller from here on.
    pub fn scale(&mut self, factor: f64) {
        self.usual = (self.usual * factor).clamp(16_384.0, 1e9);
    }

    fn push(&mut self, kind: OpKind, time: f64, reads: &[TensorId], writes: Vec<TensorId>) {
        let mut reads: Vec<TensorId> = reads.to_vec();
        reads.sort_unstable();
        reads.dedup();
        let workspace = match kind == OpKind::Convolution && self.random.below(4) == 0 {
            true => (self.usual * self.random.unit()) as u64,
            false => 0,
        };
        let name = format!("op{}", self.trace.ops.len());
        let duration = Nanos((5_000.0 + time) as u64);
        self.trace.ops.push(Op {
            reads,
            writes,
            workspace: Bytes(workspace),
            ..Op::new(name, (kind, self.phase), duration)
        });
    }

    /// One op with an output of about the usual size.
    pub fn apply(&mut self, work: Work, inputs: &[TensorId]) -> TensorId {
        let parameter = (work == Work::Dear).then(|| self.parameter());
        self.apply_with(work, inputs, parameter)
    }

    /// As [`Tape::apply`], with a parameter that others may have, too.
    pub fn apply_with(
        &mut self,
        work: Work,
        inputs: &[TensorId],
        parameter: Option<TensorId>,
    ) -> TensorId {
        let bytes = self.usual * 3f64.powf(2.0 * self.random.unit() - 1.0);
        let output = self.tensor(bytes as u64, Role::Activation);
        let mut writes = vec![output];
        if work == Work::Norm {
            writes.push(self.tensor(TINY, Role::Activation));
        }
        let moved = bytes * (1 + inputs.len()) as f64 / BANDWIDTH;
        let (kind, time) = match work {
            Work::Dear => (OpKind::Convolution, moved * 30f64.powf(self.random.unit())),
            Work::Pointwise => (OpKind::Activation, moved),
            Work::Norm => (OpKind::Other, 1.5 * moved),
            Work::Join => (OpKind::Other, moved),
        };
        let saved = writes[1..].to_vec();
        let reads: Vec<TensorId> = inputs.iter().copied().chain(parameter).collect();
        self.push(kind, time, &reads, writes);
        self.noted.push(Noted { work, inputs: inputs.to_vec(), output, saved, parameter });
        output
    }

    /// Any op that takes one tensor, as networks have them: mostly the three kinds in turn.
    pub fn any(&mut self, input: TensorId) -> TensorId {
        let work = [Work::Dear, Work::Dear, Work::Norm, Work::Pointwise, Work::Pointwise];
        let work = work[self.random.below(5) as usize];
        self.apply(work, &[input])
    }

    /// Backward through all that was noted since a mark, from a result on. Where that is noted itself, it can be
    /// gone through once more. Returns the gradients of what no op since the mark has made.
    pub fn backward(
        &mut self,
        since: usize,
        result: TensorId,
        noting: bool,
    ) -> BTreeMap<TensorId, TensorId> {
        let before = std::mem::replace(&mut self.phase, Phase::Backward);
        let noted: Vec<Noted> = self.noted[since..].to_vec();
        let bytes = self.trace.tensors[result.index()].bytes.0;
        let first = self.tensor(bytes, Role::Gradient);
        self.push(OpKind::Other, bytes as f64 / BANDWIDTH, &[result], vec![first]);
        let mut gradients = BTreeMap::from([(result, first)]);
        for op in noted.iter().rev() {
            let Some(gradient) = gradients.remove(&op.output) else { continue };
            let mut reads = vec![gradient];
            match op.work {
                Work::Dear => reads.extend(op.inputs.iter().chain(&op.parameter)),
                Work::Norm => reads.extend(op.inputs.iter().chain(&op.saved)),
                Work::Pointwise => reads.push(op.output),
                Work::Join => {}
            }
            for input in &op.inputs {
                if self.trace.tensors[input.index()].role != Role::Input {
                    let part = self.gradient(op.work, *input, &reads, noting);
                    self.accumulate(&mut gradients, *input, part);
                }
            }
            if let Some(parameter) = op.parameter {
                let mut reads = op.inputs.clone();
                reads.push(gradient);
                let part = self.gradient(Work::Dear, parameter, &reads, false);
                let mut all = std::mem::take(&mut self.gradients);
                self.accumulate(&mut all, parameter, part);
                self.gradients = all;
            }
        }
        self.phase = before;
        gradients
    }

    fn gradient(&mut self, work: Work, of: TensorId, reads: &[TensorId], noting: bool) -> TensorId {
        let bytes = self.trace.tensors[of.index()].bytes.0;
        let gradient = self.tensor(bytes, Role::Gradient);
        let moved = bytes as f64 * (1 + reads.len()) as f64 / BANDWIDTH;
        let (kind, time) = match work {
            Work::Dear => (OpKind::Convolution, moved * 20f64.powf(self.random.unit())),
            _ => (OpKind::Other, moved),
        };
        self.push(kind, time, reads, vec![gradient]);
        if noting {
            let is_made = |t: &TensorId| self.trace.tensors[t.index()].role != Role::Parameter;
            let inputs = reads.iter().copied().filter(is_made).collect();
            let (output, saved) = (gradient, Vec::new());
            self.noted.push(Noted { work, inputs, output, saved, parameter: None });
        }
        gradient
    }

    fn accumulate(&mut self, all: &mut BTreeMap<TensorId, TensorId>, of: TensorId, part: TensorId) {
        let Some(sum) = all.get(&of).copied() else {
            all.insert(of, part);
            return;
        };
        let bytes = self.trace.tensors[of.index()].bytes.0;
        let output = self.tensor(bytes, Role::Gradient);
        self.push(OpKind::Other, 3.0 * bytes as f64 / BANDWIDTH, &[sum, part], vec![output]);
        all.insert(of, output);
    }

    /// Updates all parameters that have gradients.
    pub fn update(&mut self) {
        let before = std::mem::replace(&mut self.phase, Phase::Update);
        for (parameter, gradient) in std::mem::take(&mut self.gradients) {
            let bytes = self.trace.tensors[parameter.index()].bytes.0 as f64;
            self.push(OpKind::Other, 3.0 * bytes / BANDWIDTH, &[parameter, gradient], Vec::new());
            self.trace.ops.last_mut().expect("it was put there").rerunnable = false;
        }
        self.phase = before;
    }

    /// The trace, in which everything is freed after its last use, but for gradients that no update took.
    pub fn finish(mut self, name: &str) -> Trace {
        let tensors = self.trace.tensors.len();
        let mut last_use = vec![None; tensors];
        let mut is_made = vec![false; tensors];
        for (index, op) in self.trace.ops.iter().enumerate() {
            op.reads.iter().chain(&op.writes).for_each(|t| last_use[t.index()] = Some(index));
            op.writes.iter().for_each(|t| is_made[t.index()] = true);
        }
        self.gradients.values().for_each(|t| last_use[t.index()] = None);
        for tensor in 0..tensors {
            let Some(last) = last_use[tensor].filter(|_| is_made[tensor]) else { continue };
            let id = TensorId::from_index(tensor);
            let bytes = self.trace.tensors[tensor].bytes;
            let op = &mut self.trace.ops[last];
            op.frees.push(id);
            let fits = |t: &TensorId| self.trace.tensors[t.index()].bytes <= bytes;
            let output = op.writes.first().copied().filter(fits);
            if let Some(output) = output
                && output != id
                && matches!(op.kind, OpKind::Activation | OpKind::Other)
                && op.in_place.is_empty()
                && self.random.below(3) == 0
            {
                op.in_place.push(InPlace { input: id, output });
            }
        }
        self.trace.network = name.to_string();
        self.trace
    }
}
