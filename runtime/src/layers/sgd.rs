//! Stochastic gradient descent.

/// Stochastic gradient descent with momentum and weight decay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    /// Learning rate.
    pub learning_rate: f32,
    /// Share of the previous step that is kept.
    pub momentum: f32,
    /// Pull of every parameter towards zero.
    pub weight_decay: f32,
}

impl Default for Sgd {
    /// The usual setting for image classification, with a learning rate for small batches.
    fn default() -> Self {
        Self { learning_rate: 0.01, momentum: 0.9, weight_decay: 1e-4 }
    }
}

impl Sgd {
    /// Floating-point operations per parameter.
    pub const FLOPS: u64 = 6;

    /// `v = momentum v + g + decay p`, then `p -= rate v`.
    pub fn update(&self, gradient: &[f32], parameter: &mut [f32], velocity: &mut [f32]) {
        assert_eq!((gradient.len(), velocity.len()), (parameter.len(), parameter.len()));
        for ((g, p), v) in gradient.iter().zip(parameter).zip(velocity) {
            *v = self.momentum * *v + (g + self.weight_decay * *p);
            *p -= self.learning_rate * *v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_by_hand() {
        let sgd = Sgd { learning_rate: 0.5, momentum: 0.5, weight_decay: 0.25 };
        let (mut p, mut v) = ([4.0], [0.0]);
        sgd.update(&[1.0], &mut p, &mut v);
        assert_eq!((p, v), ([3.0], [2.0]));
        sgd.update(&[0.25], &mut p, &mut v);
        assert_eq!((p, v), ([2.0], [2.0]));
    }
}
