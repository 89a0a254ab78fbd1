//! Fully connected layer.

use super::matrix::{Output, matrix, multiply};

/// `y = x w^T + b`. The input is `(batch, inputs)`, the weights are `(outputs, inputs)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Samples in the batch.
    pub batch: usize,
    /// Features of a sample.
    pub inputs: usize,
    /// Outputs per sample.
    pub outputs: usize,
}

impl Linear {
    /// Number of weights, without the bias.
    pub fn weights(&self) -> usize {
        self.inputs * self.outputs
    }

    /// Floating-point operations of the forward pass, and of each of the gradients of input and
    /// weights.
    pub fn flops(&self) -> u64 {
        2 * (self.batch * self.weights()) as u64
    }

    /// `y = x w^T + b`.
    pub fn forward(&self, x: &[f32], w: &[f32], bias: &[f32], y: &mut [f32]) {
        for y in y.chunks_exact_mut(self.outputs) {
            y.copy_from_slice(bias);
        }
        multiply(matrix(x, self.batch), matrix(w, self.outputs).t(), y, Output::Accumulate);
    }

    /// The gradients of input, weights and bias.
    pub fn backward(
        &self,
        (x, w, dy): (&[f32], &[f32], &[f32]),
        dx: &mut [f32],
        dw: &mut [f32],
        dbias: &mut [f32],
    ) {
        let gradient = matrix(dy, self.batch);
        multiply(gradient, matrix(w, self.outputs), dx, Output::Overwrite);
        multiply(gradient.t(), matrix(x, self.batch), dw, Output::Overwrite);
        dbias.fill(0.0);
        for dy in dy.chunks_exact(self.outputs) {
            super::add_assign(dbias, dy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, random};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn gradients_are_the_derivatives(
            batch in 1usize..5, inputs in 1usize..10, outputs in 1usize..10, seed: u64,
        ) {
            let linear = Linear { batch, inputs, outputs };
            let (x, w) = (random(seed, batch * inputs), random(seed ^ 1, linear.weights()));
            let (bias, dy) = (random(seed ^ 2, outputs), random(seed ^ 3, batch * outputs));
            let mut dx = vec![f32::NAN; x.len()];
            let mut dw = vec![f32::NAN; w.len()];
            let mut dbias = vec![f32::NAN; outputs];
            linear.backward((&x, &w, &dy), &mut dx, &mut dw, &mut dbias);
            let loss = |x: &[f32], w: &[f32], bias: &[f32]| {
                let mut y = vec![f32::NAN; dy.len()];
                linear.forward(x, w, bias, &mut y);
                inner(&y, &dy)
            };
            check_gradient(&x, &dx, 0.5, |x| loss(x, &w, &bias))?;
            check_gradient(&w, &dw, 0.5, |w| loss(&x, w, &bias))?;
            check_gradient(&bias, &dbias, 0.5, |bias| loss(&x, &w, bias))?;
        }
    }
}
