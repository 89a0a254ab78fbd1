//! Batch normalisation.

use super::Shape;
use super::reduce::{sum, sum_of_squares, weighted_sum};

/// Added to the variance, as frameworks do by default.
const EPSILON: f64 = 1e-5;

/// Share of a batch in the running statistics.
const RUNNING_SHARE: f32 = 0.1;

/// Batch normalisation in training mode (Ioffe and Szegedy 2015): each channel is normalised by
/// its own mean and variance over the batch, then scaled by `gamma` and shifted by `beta`.
///
/// The layer has no lasting effect and can be run again. The running statistics that inference
/// uses are brought up to date by [`BatchNorm::track`], which must run once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchNorm {
    pub(crate) shape: Shape,
}

impl BatchNorm {
    /// Batch normalisation of `shape`.
    pub fn new(shape: Shape) -> Self {
        Self { shape }
    }

    /// Floats that the forward pass saves for the backward pass: the mean of every channel, then
    /// the inverse standard deviation of every channel.
    pub fn saved_floats(&self) -> usize {
        2 * self.shape.c
    }

    /// `y = gamma (x - mean) / sqrt(variance + epsilon) + beta`, per channel.
    pub fn forward(
        &self,
        (x, gamma, beta): (&[f32], &[f32], &[f32]),
        y: &mut [f32],
        saved: &mut [f32],
    ) {
        let (means, inverses) = saved.split_at_mut(self.shape.c);
        for channel in 0..self.shape.c {
            let total: f64 = self.planes(x, channel).map(sum).sum();
            let mean = (total / self.count()) as f32;
            let squares: f64 = self.planes(x, channel).map(|x| sum_of_squares(x, mean)).sum();
            let inverse = (1.0 / (squares / self.count() + EPSILON).sqrt()) as f32;
            means[channel] = mean;
            inverses[channel] = inverse;

            let scale = gamma[channel] * inverse;
            let shift = beta[channel] - mean * scale;
            for (x, y) in self.planes(x, channel).zip(self.planes_mut(y, channel)) {
                for (x, y) in x.iter().zip(y) {
                    *y = x * scale + shift;
                }
            }
        }
    }

    /// The gradients of input, `gamma` and `beta`, from the input, `gamma`, what the forward pass
    /// saved and the gradient of the output.
    pub fn backward(
        &self,
        (x, gamma, saved, dy): (&[f32], &[f32], &[f32], &[f32]),
        dx: &mut [f32],
        dgamma: &mut [f32],
        dbeta: &mut [f32],
    ) {
        let (means, inverses) = saved.split_at(self.shape.c);
        for channel in 0..self.shape.c {
            let (mean, inverse) = (means[channel], inverses[channel]);
            let pairs = || self.planes(x, channel).zip(self.planes(dy, channel));
            let dy_sum: f64 = self.planes(dy, channel).map(sum).sum();
            let dy_x_sum: f64 = pairs().map(|(x, dy)| weighted_sum(dy, x, mean)).sum();
            dbeta[channel] = dy_sum as f32;
            dgamma[channel] = (dy_x_sum * f64::from(inverse)) as f32;

            let scale = gamma[channel] * inverse;
            let dy_mean = (dy_sum / self.count()) as f32;
            let slope = (dy_x_sum / self.count() * f64::from(inverse) * f64::from(inverse)) as f32;
            for ((x, dy), dx) in pairs().zip(self.planes_mut(dx, channel)) {
                for ((x, dy), dx) in x.iter().zip(dy).zip(dx) {
                    *dx = scale * (dy - dy_mean - (x - mean) * slope);
                }
            }
        }
    }

    /// Moves running means and variances a tenth of the way to those of the batch, as frameworks
    /// do by default, with the variance of the population, from what the forward pass saved.
    pub fn track(&self, saved: &[f32], running_mean: &mut [f32], running_variance: &mut [f32]) {
        let (means, inverses) = saved.split_at(self.shape.c);
        let unbiased = self.count() / (self.count() - 1.0).max(1.0);
        for (running, mean) in running_mean.iter_mut().zip(means) {
            *running += (mean - *running) * RUNNING_SHARE;
        }
        for (running, inverse) in running_variance.iter_mut().zip(inverses) {
            let deviation = 1.0 / f64::from(*inverse);
            let variance = ((deviation * deviation - EPSILON).max(0.0) * unbiased) as f32;
            *running += (variance - *running) * RUNNING_SHARE;
        }
    }

    /// Elements of one channel over the whole batch.
    fn count(&self) -> f64 {
        (self.shape.n * self.shape.plane()) as f64
    }

    /// The parts of a batch that belong to one channel, one per image.
    fn planes<'a>(
        &self,
        data: &'a [f32],
        channel: usize,
    ) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        assert_eq!(data.len(), self.shape.elements());
        data.chunks_exact(self.shape.plane()).skip(channel).step_by(self.shape.c)
    }

    fn planes_mut<'a>(
        &self,
        data: &'a mut [f32],
        channel: usize,
    ) -> impl Iterator<Item = &'a mut [f32]> + use<'a> {
        assert_eq!(data.len(), self.shape.elements());
        data.chunks_exact_mut(self.shape.plane()).skip(channel).step_by(self.shape.c)
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, random};
    use super::*;
    use proptest::prelude::*;

    fn forward(norm: &BatchNorm, x: &[f32], gamma: &[f32], beta: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut y = vec![f32::NAN; x.len()];
        let mut saved = vec![f32::NAN; norm.saved_floats()];
        norm.forward((x, gamma, beta), &mut y, &mut saved);
        (y, saved)
    }

    fn backward(
        norm: &BatchNorm,
        (x, gamma, saved, dy): (&[f32], &[f32], &[f32], &[f32]),
    ) -> [Vec<f32>; 3] {
        let mut dx = vec![f32::NAN; x.len()];
        let mut dgamma = vec![f32::NAN; gamma.len()];
        let mut dbeta = vec![f32::NAN; gamma.len()];
        norm.backward((x, gamma, saved, dy), &mut dx, &mut dgamma, &mut dbeta);
        [dx, dgamma, dbeta]
    }

    /// At least four elements per channel: the curvature of two is beyond finite differences.
    fn shapes() -> impl Strategy<Value = Shape> {
        (1usize..4, 1usize..4, 1usize..6, 4usize..9)
            .prop_map(|(n, c, h, w)| Shape::image(n, c, h, w))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn the_output_has_the_mean_and_deviation_that_were_asked_for(shape in shapes(), seed: u64) {
            let norm = BatchNorm::new(shape);
            let x = random(seed, shape.elements());
            let beta = random(seed ^ 1, shape.c);
            let (y, _) = forward(&norm, &x, &vec![2.0; shape.c], &beta);
            for (channel, beta) in beta.iter().enumerate() {
                let mean = norm.planes(&y, channel).map(sum).sum::<f64>() / norm.count();
                let squares = norm.planes(&y, channel).map(|y| sum_of_squares(y, *beta));
                let variance = squares.sum::<f64>() / norm.count();
                prop_assert!((mean - f64::from(*beta)).abs() < 1e-4);
                // Epsilon makes the variance fall short of 4 where the input's is small.
                prop_assert!(variance < 4.001 && variance > 3.5, "{variance}");
            }
        }

        #[test]
        fn gradients_are_the_derivatives(shape in shapes(), seed: u64) {
            let norm = BatchNorm::new(shape);
            let x: Vec<f32> = random(seed, shape.elements())
                .iter().enumerate().map(|(i, x)| x + (i % 4) as f32).collect();
            let (gamma, beta) = (random(seed ^ 1, shape.c), random(seed ^ 2, shape.c));
            let dy = random(seed ^ 3, shape.elements());
            let (_, saved) = forward(&norm, &x, &gamma, &beta);
            let [dx, dgamma, dbeta] = backward(&norm, (&x, &gamma, &saved, &dy));
            let loss = |x: &[f32], gamma: &[f32], beta: &[f32]| {
                inner(&forward(&norm, x, gamma, beta).0, &dy)
            };
            check_gradient(&x, &dx, 0.01, |x| loss(x, &gamma, &beta))?;
            check_gradient(&gamma, &dgamma, 0.5, |gamma| loss(&x, gamma, &beta))?;
            check_gradient(&beta, &dbeta, 0.5, |beta| loss(&x, &gamma, beta))?;
        }

        #[test]
        fn running_statistics_move_a_tenth_of_the_way(shape in shapes(), seed: u64) {
            let norm = BatchNorm::new(shape);
            let x = random(seed, shape.elements());
            let (_, saved) = forward(&norm, &x, &vec![1.0; shape.c], &vec![0.0; shape.c]);
            let (mut mean, mut variance) = (vec![0.0; shape.c], vec![1.0; shape.c]);
            norm.track(&saved, &mut mean, &mut variance);
            for channel in 0..shape.c {
                let values: Vec<f64> =
                    norm.planes(&x, channel).flatten().map(|x| f64::from(*x)).collect();
                let count = values.len() as f64;
                let expected = values.iter().sum::<f64>() / count;
                let squares: f64 = values.iter().map(|x| (x - expected).powi(2)).sum();
                prop_assert!((f64::from(mean[channel]) - 0.1 * expected).abs() < 1e-5);
                let expected = 0.9 + 0.1 * squares / (count - 1.0);
                prop_assert!((f64::from(variance[channel]) - expected).abs() < 1e-5);
            }
        }
    }
}
