//! The backward pass of what was written down.

use std::collections::BTreeMap;

use schema::{Dtype, Phase, Role, TensorId};

use super::{Builder, Op, Step};

/// For every tensor, the tensor that holds its gradient.
type Gradients = BTreeMap<TensorId, TensorId>;

impl Builder {
    /// Adds the backward ops in reverse order of the forward ops, as autograd engines run them,
    /// and returns the gradient of every parameter.
    pub(super) fn backward(&mut self) -> Vec<(TensorId, TensorId)> {
        let mut gradients = Gradients::new();
        for index in (0..self.ops.len()).rev() {
            let forward = self.ops[index].clone();
            self.backward_of(&forward, &mut gradients);
        }
        let is_parameter = |t: &TensorId| self.tensors[t.index()].role == Role::Parameter;
        gradients.into_iter().filter(|(tensor, _)| is_parameter(tensor)).collect()
    }

    fn backward_of(&mut self, forward: &Op, gradients: &mut Gradients) {
        let read = |index: usize| forward.reads[index];
        let (output, saved) = (forward.writes[0], forward.writes.get(1).copied());
        let dy = gradients.remove(&output);
        // An output without a gradient has no influence on the loss.
        let (step, reads, gradients_of) = match (forward.step, dy, saved) {
            (Step::Convolution(conv), Some(dy), _) => {
                let reads = vec![read(0), read(1), dy];
                if self.tensors[read(0).index()].is_constant() {
                    (Step::ConvolutionBackwardWeights(conv), reads, vec![read(1)])
                } else {
                    (Step::ConvolutionBackward(conv), reads, vec![read(0), read(1)])
                }
            }
            (Step::BatchNorm(norm), Some(dy), Some(saved)) => {
                let reads = vec![read(0), read(1), saved, dy];
                (Step::BatchNormBackward(norm), reads, vec![read(0), read(1), read(2)])
            }
            (Step::Relu { elements }, Some(dy), _) => {
                (Step::ReluBackward { elements }, vec![output, dy], vec![read(0)])
            }
            (Step::MaxPool(pool), Some(dy), Some(positions)) => {
                (Step::MaxPoolBackward(pool), vec![positions, dy], vec![read(0)])
            }
            (Step::AveragePool(pool), Some(dy), _) => {
                (Step::AveragePoolBackward(pool), vec![dy], vec![read(0)])
            }
            (Step::Linear(linear), Some(dy), _) => {
                let reads = vec![read(0), read(1), dy];
                (Step::LinearBackward(linear), reads, vec![read(0), read(1), read(2)])
            }
            (Step::Add { .. }, Some(dy), _) => {
                for tensor in [read(0), read(1)] {
                    self.accumulate(tensor, dy, gradients);
                }
                return;
            }
            (Step::Loss(loss, batch), None, Some(probabilities)) => {
                (Step::LossBackward(loss, batch), vec![probabilities, read(1)], vec![read(0)])
            }
            _ => return,
        };
        self.op(Op::new(format!("{}.backward", forward.name), step, Phase::Backward, reads));
        let made: Vec<_> =
            gradients_of.iter().map(|tensor| (*tensor, self.gradient(*tensor, "grad"))).collect();
        for (tensor, gradient) in made {
            self.accumulate(tensor, gradient, gradients);
        }
    }

    /// Gives the last op an output that is the gradient of `tensor`.
    fn gradient(&mut self, tensor: TensorId, what: &str) -> TensorId {
        let of = &self.tensors[tensor.index()];
        let (name, elements) = (format!("{}.{what}", of.name), of.elements);
        self.output(name, elements, Role::Gradient, Dtype::F32)
    }

    /// Takes note of a gradient. Where another branch has brought one already, an op adds them
    /// up.
    fn accumulate(&mut self, tensor: TensorId, gradient: TensorId, gradients: &mut Gradients) {
        let total = match gradients.get(&tensor) {
            None => gradient,
            Some(other) => {
                let of = &self.tensors[tensor.index()];
                let (name, elements) = (format!("{}.accumulate", of.name), of.elements);
                let step = Step::Add { elements };
                self.op(Op::new(name, step, Phase::Backward, vec![gradient, *other]));
                self.gradient(tensor, "grad.total")
            }
        };
        gradients.insert(tensor, total);
    }
}
