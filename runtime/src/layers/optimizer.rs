//! Optimizers.

/// What updates parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd(Sgd),
    /// Adam.
    Adam(Adam),
}

impl Optimizer {
    /// Changes a parameter and the state, which begins as zeros.
    pub fn update(&self, gradient: &[f32], parameter: &mut [f32], state: &mut [f32]) {
        match self {
            Self::Sgd(sgd) => sgd.update(gradient, parameter, state),
            Self::Adam(adam) => adam.update(gradient, parameter, state),
        }
    }
}

/// Stochastic gradient descent with momentum and weight decay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    /// Learning rate.
    pub learning_rate: f32,
    /// Share of the previous step that is kept. Where it is zero there is no state.
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
    /// `v = momentum v + g + decay p`, then `p -= rate v`.
    pub fn update(&self, gradient: &[f32], parameter: &mut [f32], velocity: &mut [f32]) {
        assert_eq!(gradient.len(), parameter.len());
        if velocity.is_empty() {
            for (g, p) in gradient.iter().zip(parameter) {
                *p -= self.learning_rate * (g + self.weight_decay * *p);
            }
            return;
        }
        assert_eq!(velocity.len(), parameter.len());
        for ((g, p), v) in gradient.iter().zip(parameter).zip(velocity) {
            *v = self.momentum * *v + (g + self.weight_decay * *p);
            *p -= self.learning_rate * *v;
        }
    }
}

/// Adam (Kingma and Ba 2015, algorithm 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Step size, the paper's alpha.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// What keeps the quotient finite.
    pub epsilon: f32,
}

impl Default for Adam {
    /// The paper's figures.
    fn default() -> Self {
        Self { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl Adam {
    /// The state has the first moments, the second moments, and a cell that counts the steps,
    /// exactly up to 2^24.
    pub fn update(&self, gradient: &[f32], parameter: &mut [f32], state: &mut [f32]) {
        let count = parameter.len();
        assert_eq!((gradient.len(), state.len()), (count, 2 * count + 1));
        let (moments, steps) = state.split_at_mut(2 * count);
        let (first, second) = moments.split_at_mut(count);
        steps[0] += 1.0;
        let step = f64::from(steps[0]);
        let unbiased = |beta: f32| (1.0 / (1.0 - f64::from(beta).powf(step))) as f32;
        let (scale1, scale2) = (unbiased(self.beta1), unbiased(self.beta2));
        for (((g, p), m), v) in gradient.iter().zip(parameter).zip(first).zip(second) {
            *m = self.beta1 * *m + (1.0 - self.beta1) * g;
            *v = self.beta2 * *v + (1.0 - self.beta2) * g * g;
            *p -= self.learning_rate * (*m * scale1) / ((*v * scale2).sqrt() + self.epsilon);
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

    #[test]
    fn without_momentum_there_is_no_state() {
        let sgd = Sgd { learning_rate: 0.5, momentum: 0.0, weight_decay: 0.25 };
        let mut p = [4.0];
        sgd.update(&[1.0], &mut p, &mut []);
        assert_eq!(p, [3.0]);
    }

    #[test]
    fn adam_steps_by_its_rate_whatever_the_gradients_size() {
        let adam = Adam::default();
        let mut state = vec![0.0; 5];
        let mut p = [1.0, 1.0];
        for step in 1..=3u8 {
            adam.update(&[1000.0, -0.001], &mut p, &mut state);
            let moved = 1e-3 * f32::from(step);
            assert!((p[0] - (1.0 - moved)).abs() < 1e-6, "{p:?}");
            assert!((p[1] - (1.0 + moved)).abs() < 2e-6, "{p:?}");
        }
        assert_eq!(state[4], 3.0);
    }
}
