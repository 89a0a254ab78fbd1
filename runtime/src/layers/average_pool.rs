//! Global average pooling.

use super::Shape4;
use super::reduce::sum;

/// The mean of every channel of every sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalAveragePool {
    input: Shape4,
}

impl GlobalAveragePool {
    /// Global average pooling of `input`.
    pub fn new(input: Shape4) -> Self {
        Self { input }
    }

    /// Shape of the output: one element per channel.
    pub fn output(&self) -> Shape4 {
        Shape4 { h: 1, w: 1, ..self.input }
    }

    /// Floating-point operations of either direction.
    pub fn flops(&self) -> u64 {
        self.input.elements() as u64
    }

    /// The means.
    pub fn forward(&self, x: &[f32], y: &mut [f32]) {
        assert_eq!((x.len(), y.len()), (self.input.elements(), self.output().elements()));
        for (x, y) in x.chunks_exact(self.input.plane()).zip(y) {
            *y = (sum(x) / self.input.plane() as f64) as f32;
        }
    }

    /// The gradient of the input: an even share for every element of a channel.
    pub fn backward(&self, dy: &[f32], dx: &mut [f32]) {
        assert_eq!((dx.len(), dy.len()), (self.input.elements(), self.output().elements()));
        for (dx, dy) in dx.chunks_exact_mut(self.input.plane()).zip(dy) {
            dx.fill(dy / self.input.plane() as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, random};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(
            n in 1usize..3, c in 1usize..4, h in 1usize..7, w in 1usize..7, seed: u64,
        ) {
            let pool = GlobalAveragePool::new(Shape4 { n, c, h, w });
            let x = random(seed, pool.input.elements());
            let dy = random(seed ^ 1, pool.output().elements());
            let mut dx = vec![f32::NAN; x.len()];
            pool.backward(&dy, &mut dx);
            check_gradient(&x, &dx, 0.5, |x| {
                let mut y = vec![f32::NAN; dy.len()];
                pool.forward(x, &mut y);
                inner(&y, &dy)
            })?;
        }
    }
}
