//! The backward pass of what was written down.

use std::collections::BTreeMap;

use schema::{Dtype, Phase, Role, TensorId};

use super::{Builder, Op, Step};
use crate::layers::Movement;

/// What is known of gradients on the way back.
struct Backward {
    /// For every tensor, the tensor that holds its gradient.
    gradients: BTreeMap<TensorId, TensorId>,
    /// Whether a tensor depends on a parameter, and so needs a gradient.
    trained: Vec<bool>,
}

impl Builder {
    /// Adds the backward ops in reverse order of the forward ops, as autograd engines run them,
    /// and returns the gradient of every parameter.
    pub(super) fn backward(&mut self) -> Vec<(TensorId, TensorId)> {
        let is_parameter = |role| role == Role::Parameter;
        let mut trained: Vec<bool> =
            self.tensors.iter().map(|tensor| is_parameter(tensor.role)).collect();
        for op in &self.ops {
            if op.reads.iter().any(|tensor| trained[tensor.index()]) {
                op.writes.iter().for_each(|tensor| trained[tensor.index()] = true);
            }
        }
        let mut backward = Backward { gradients: BTreeMap::new(), trained };
        for index in (0..self.ops.len()).rev() {
            let forward = self.ops[index].clone();
            self.backward_of(&forward, &mut backward);
        }
        let all = backward.gradients.into_iter();
        all.filter(|(tensor, _)| is_parameter(self.tensors[tensor.index()].role)).collect()
    }

    fn backward_of(&mut self, forward: &Op, known: &mut Backward) {
        // Running statistics have no output.
        let Some(&output) = forward.writes.first() else { return };
        let reads = &forward.reads[..];
        let saved = forward.writes.get(1).copied().unwrap_or(output);
        let mut made = |what: &str, step, from: &[TensorId], of: &[TensorId]| {
            let name = format!("{}.backward{what}", forward.name);
            self.gradient_op(name, step, from, of, known);
        };
        match forward.step {
            Step::Loss(loss, rows) => {
                let step = Step::LossBackward(loss, rows);
                return made("", step, &[saved, reads[1]], &reads[..1]);
            }
            Step::BinaryLoss(loss, count) => {
                let step = Step::BinaryLossBackward(loss, count);
                return made("", step, &[saved, reads[1]], &reads[..1]);
            }
            _ => {}
        }
        // An output without a gradient has no influence on the loss.
        let Some(dy) = known.gradients.remove(&output) else { return };
        let mut made = |what: &str, step, from: &[TensorId], of: &[TensorId]| {
            let name = format!("{}.backward{what}", forward.name);
            self.gradient_op(name, step, from, of, known);
        };
        match forward.step {
            Step::Convolution(conv) => {
                made(".weights", Step::ConvolutionWeights(conv), &[reads[0], dy], &reads[1..]);
                made(".input", Step::ConvolutionInput(conv), &[reads[1], dy], &reads[..1]);
            }
            Step::Linear(linear) => {
                made(".weights", Step::LinearWeights(linear), &[reads[0], dy], &reads[1..]);
                made(".input", Step::LinearInput(linear), &[reads[1], dy], &reads[..1]);
            }
            Step::Product(product) => {
                made(".left", Step::ProductLeft(product), &[reads[1], dy], &reads[..1]);
                made(".right", Step::ProductRight(product), &[reads[0], dy], &reads[1..]);
            }
            Step::BatchNorm(norm) => {
                let from = [reads[0], reads[1], saved, dy];
                made("", Step::BatchNormBackward(norm), &from, reads);
            }
            Step::RowNorm(norm) => {
                let from = [reads[0], reads[1], saved, dy];
                made("", Step::RowNormBackward(norm), &from, reads);
            }
            Step::Activation(function, elements) => {
                let kept = if function.backward_reads_output() { output } else { reads[0] };
                made("", Step::ActivationBackward(function, elements), &[kept, dy], reads);
            }
            Step::MaxPool(pool) => made("", Step::MaxPoolBackward(pool), &[saved, dy], reads),
            Step::AveragePool(pool) => made("", Step::AveragePoolBackward(pool), &[dy], reads),
            Step::Dropout(..) => made("", forward.step, &[dy, reads[1]], &reads[..1]),
            Step::AddBroadcast(broadcast) => {
                made(".right", Step::SumRepeated(broadcast), &[dy], &reads[1..]);
                self.accumulate(reads[0], dy, known);
            }
            Step::Multiply(broadcast) => {
                made(".right", Step::MultiplyRight(broadcast), &[reads[0], dy], &reads[1..]);
                made(".left", Step::Multiply(broadcast), &[dy, reads[1]], &reads[..1]);
            }
            Step::Concat { outer, elements } => {
                made("", Step::Split { outer, elements }, &[dy], reads);
            }
            Step::Softmax { width, elements } => {
                made("", Step::SoftmaxBackward { width, elements }, &[output, dy], reads);
            }
            Step::Attention(attention) => {
                let from = [reads[0], reads[1], reads[2], output, saved, dy];
                made("", Step::AttentionBackward(attention), &from, reads);
            }
            Step::Embedding(table) => {
                made("", Step::EmbeddingBackward(table), &[reads[0], dy], &reads[1..]);
            }
            Step::Rotary(rotary, elements) => {
                made("", Step::RotaryBackward(rotary, elements), &[dy], reads);
            }
            Step::Movement(movement) => {
                made("", Step::MovementBackward(movement), &[dy], reads);
            }
            Step::Upsample(upsample) => {
                made("", Step::UpsampleBackward(upsample), &[dy], reads);
            }
            Step::Add { .. } => {
                for tensor in reads {
                    self.accumulate(*tensor, dy, known);
                }
            }
            // No other step stands in a forward pass.
            _ => {}
        }
    }

    /// Adds an op that makes gradients, unless none of them is needed.
    fn gradient_op(
        &mut self,
        name: String,
        step: Step,
        from: &[TensorId],
        of: &[TensorId],
        known: &mut Backward,
    ) {
        if !of.iter().any(|tensor| known.trained[tensor.index()]) {
            return;
        }
        self.op(Op::new(name, step, Phase::Backward, from.to_vec()));
        let made: Vec<_> =
            of.iter().map(|tensor| (*tensor, self.gradient(*tensor, "grad"))).collect();
        for (tensor, gradient) in made {
            self.accumulate(tensor, gradient, known);
        }
    }

    /// Gives the last op an output that is the gradient of `tensor`.
    fn gradient(&mut self, tensor: TensorId, what: &str) -> TensorId {
        let of = &self.tensors[tensor.index()];
        let (name, elements) = (format!("{}.{what}", of.name), of.elements);
        self.output(name, elements, Role::Gradient, Dtype::F32)
    }

    /// Takes note of a gradient, where it is needed. Where another branch has brought one already,
    /// an op adds them up.
    fn accumulate(&mut self, tensor: TensorId, gradient: TensorId, known: &mut Backward) {
        if !known.trained[tensor.index()] {
            return;
        }
        let Some(other) = known.gradients.get(&tensor).copied() else {
            known.gradients.insert(tensor, gradient);
            return;
        };
        let of = &self.tensors[tensor.index()];
        let (name, elements) = (format!("{}.accumulate", of.name), of.elements);
        let mut gradient = gradient;
        if gradient == other {
            // Sums hand their gradient on, so that it may come back twice; an op reads it once.
            let copy = Step::Movement(Movement::copy(elements));
            self.op(Op::new(format!("{name}.copy"), copy, Phase::Backward, vec![gradient]));
            gradient = self.gradient(tensor, "grad.copy");
        }
        let step = Step::Add { elements };
        self.op(Op::new(name, step, Phase::Backward, vec![gradient, other]));
        let total = self.gradient(tensor, "grad.total");
        known.gradients.insert(tensor, total);
    }
}
