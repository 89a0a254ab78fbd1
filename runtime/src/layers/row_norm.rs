//! Normalisation of the last dimension.

use super::reduce::{sum, sum_of_squares};

/// Added to the variance, as frameworks do by default.
const EPSILON: f64 = 1e-5;

/// Layer normalisation (Ba, Kiros and Hinton 2016) or RMS normalisation (Zhang and Sennrich 2019):
/// each row is divided by its standard deviation, or by the root of its mean square, and scaled by
/// `gamma`. Layer normalisation takes away the mean before and adds `beta` in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowNorm {
    /// Rows: tokens of all samples.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Whether the mean is taken away and `beta` added: layer normalisation.
    pub centred: bool,
}

impl RowNorm {
    /// Floats that the forward pass saves for the backward pass: the mean of every row where it
    /// is taken away, then the inverse deviation of every row.
    pub fn saved_floats(&self) -> usize {
        if self.centred { 2 * self.rows } else { self.rows }
    }

    /// The normalised rows, and what the backward pass needs to know of them.
    pub fn forward(
        &self,
        (x, gamma, beta): (&[f32], &[f32], Option<&[f32]>),
        y: &mut [f32],
        saved: &mut [f32],
    ) {
        let width = self.width as f64;
        let (means, inverses) = saved.split_at_mut(self.saved_floats() - self.rows);
        let rows = x.chunks_exact(self.width).zip(y.chunks_exact_mut(self.width));
        for (row, (x, y)) in rows.enumerate() {
            let mean = if self.centred { (sum(x) / width) as f32 } else { 0.0 };
            let inverse = (1.0 / (sum_of_squares(x, mean) / width + EPSILON).sqrt()) as f32;
            inverses[row] = inverse;
            if let Some(saved) = means.get_mut(row) {
                *saved = mean;
            }
            for ((y, x), gamma) in y.iter_mut().zip(x).zip(gamma) {
                *y = (x - mean) * inverse * gamma;
            }
            if let Some(beta) = beta {
                super::add_assign(y, beta);
            }
        }
    }

    /// The gradients of input, `gamma` and, where there is one, `beta`.
    pub fn backward(
        &self,
        (x, gamma, saved, dy): (&[f32], &[f32], &[f32], &[f32]),
        dx: &mut [f32],
        dgamma: &mut [f32],
        mut dbeta: Option<&mut [f32]>,
    ) {
        let width = self.width as f64;
        let (means, inverses) = saved.split_at(self.saved_floats() - self.rows);
        dgamma.fill(0.0);
        if let Some(dbeta) = &mut dbeta {
            dbeta.fill(0.0);
        }
        let rows = x.chunks_exact(self.width).zip(dy.chunks_exact(self.width));
        for (row, ((x, dy), dx)) in rows.zip(dx.chunks_exact_mut(self.width)).enumerate() {
            let (mean, inverse) = (means.get(row).copied().unwrap_or(0.0), inverses[row]);
            let (mut total, mut slope) = (0f64, 0f64);
            for (((x, dy), gamma), dgamma) in x.iter().zip(dy).zip(gamma).zip(&mut *dgamma) {
                let normal = (x - mean) * inverse;
                *dgamma += dy * normal;
                total += f64::from(dy * gamma);
                slope += f64::from(dy * gamma * normal);
            }
            if let Some(dbeta) = &mut dbeta {
                super::add_assign(dbeta, dy);
            }
            let total = if self.centred { (total / width) as f32 } else { 0.0 };
            let slope = (slope / width) as f32;
            for (((dx, x), dy), gamma) in dx.iter_mut().zip(x).zip(dy).zip(gamma) {
                *dx = inverse * (dy * gamma - total - (x - mean) * inverse * slope);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, random};
    use super::*;
    use proptest::prelude::*;

    fn forward(norm: &RowNorm, x: &[f32], gamma: &[f32], beta: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut y = vec![f32::NAN; x.len()];
        let mut saved = vec![f32::NAN; norm.saved_floats()];
        norm.forward((x, gamma, norm.centred.then_some(beta)), &mut y, &mut saved);
        (y, saved)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn rows_have_the_moments_that_were_asked_for(
            rows in 1usize..5, width in 4usize..40, seed: u64, centred: bool,
        ) {
            let norm = RowNorm { rows, width, centred };
            let x = random(seed, rows * width);
            let (y, _) = forward(&norm, &x, &vec![2.0; width], &vec![0.5; width]);
            for y in y.chunks(width) {
                let shift = if centred { 0.5 } else { 0.0 };
                let mean = sum(y) / width as f64;
                prop_assert!(!centred || (mean - 0.5).abs() < 1e-4, "{mean}");
                let square = sum_of_squares(y, shift) / width as f64;
                prop_assert!(square < 4.001 && square > 3.9, "{square}");
            }
        }

        #[test]
        fn gradients_are_the_derivatives(
            rows in 1usize..4, width in 4usize..12, seed: u64, centred: bool,
        ) {
            let norm = RowNorm { rows, width, centred };
            let x: Vec<f32> = random(seed, rows * width)
                .iter().enumerate().map(|(i, x)| x + (i % 4) as f32).collect();
            let (gamma, beta) = (random(seed ^ 1, width), random(seed ^ 2, width));
            let dy = random(seed ^ 3, rows * width);
            let (_, saved) = forward(&norm, &x, &gamma, &beta);
            let (mut dx, mut dgamma) = (vec![f32::NAN; x.len()], vec![f32::NAN; width]);
            let mut dbeta = vec![f32::NAN; width];
            let shift = centred.then_some(&mut dbeta[..]);
            norm.backward((&x, &gamma, &saved, &dy), &mut dx, &mut dgamma, shift);
            let loss = |x: &[f32], gamma: &[f32], beta: &[f32]| {
                inner(&forward(&norm, x, gamma, beta).0, &dy)
            };
            check_gradient(&x, &dx, 0.01, |x| loss(x, &gamma, &beta))?;
            check_gradient(&gamma, &dgamma, 0.5, |gamma| loss(&x, gamma, &beta))?;
            if centred {
                check_gradient(&beta, &dbeta, 0.5, |beta| loss(&x, &gamma, beta))?;
            }
        }
    }
}
