//! Fully connected layer.

use super::matrix::{Output, matrix, multiply};

/// `y = x w^T + b`, or without a bias. The input is `(rows, inputs)`, the weights are
/// `(outputs, inputs)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Samples of the batch, or tokens of all samples.
    pub rows: usize,
    /// Features of a row.
    pub inputs: usize,
    /// Outputs per row.
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
        2 * self.rows as u64 * self.weights() as u64
    }

    /// `y = x w^T + b`.
    pub fn forward(&self, x: &[f32], w: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        let (x, w) = (matrix(x, self.rows), matrix(w, self.outputs));
        let Some(bias) = bias else { return multiply(x, w.t(), y, Output::Overwrite) };
        for y in y.chunks_exact_mut(self.outputs) {
            y.copy_from_slice(bias);
        }
        multiply(x, w.t(), y, Output::Accumulate);
    }

    /// The gradients of the weights and of the bias, where there is one.
    pub fn backward_weights(
        &self,
        (x, dy): (&[f32], &[f32]),
        dw: &mut [f32],
        dbias: Option<&mut [f32]>,
    ) {
        multiply(matrix(dy, self.rows).t(), matrix(x, self.rows), dw, Output::Overwrite);
        if let Some(dbias) = dbias {
            dbias.fill(0.0);
            for dy in dy.chunks_exact(self.outputs) {
                super::add_assign(dbias, dy);
            }
        }
    }

    /// The gradient of the input.
    pub fn backward_input(&self, (w, dy): (&[f32], &[f32]), dx: &mut [f32]) {
        multiply(matrix(dy, self.rows), matrix(w, self.outputs), dx, Output::Overwrite);
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn gradients_are_the_derivatives(
            rows in 1usize..5, inputs in 1usize..10, outputs in 1usize..10, seed: u64,
        ) {
            let linear = Linear { rows, inputs, outputs };
            let (x, w) = (random(seed, rows * inputs), random(seed ^ 1, linear.weights()));
            let (bias, dy) = (random(seed ^ 2, outputs), random(seed ^ 3, rows * outputs));
            let mut dx = vec![f32::NAN; x.len()];
            let mut dw = vec![f32::NAN; w.len()];
            let mut dbias = vec![f32::NAN; outputs];
            linear.backward_input((&w, &dy), &mut dx);
            linear.backward_weights((&x, &dy), &mut dw, Some(&mut dbias));
            let forward = |x: &[f32], w: &[f32], bias: Option<&[f32]>| {
                made(dy.len(), |y| linear.forward(x, w, bias, y))
            };
            let loss = |x: &[f32], w: &[f32], bias: &[f32]| inner(&forward(x, w, Some(bias)), &dy);
            check_gradient(&x, &dx, 0.5, |x| loss(x, &w, &bias))?;
            check_gradient(&w, &dw, 0.5, |w| loss(&x, w, &bias))?;
            check_gradient(&bias, &dbias, 0.5, |bias| loss(&x, &w, bias))?;
            let zeros = vec![0.0; outputs];
            prop_assert_eq!(forward(&x, &w, None), forward(&x, &w, Some(&zeros)));
        }
    }
}
