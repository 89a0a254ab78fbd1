//! The loss of a yes or no for each element.

use super::{LabelError, index_from_cell};

/// Sigmoid and cross-entropy in one, averaged over all elements: what segments an image into one
/// class and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SigmoidCrossEntropy;

impl SigmoidCrossEntropy {
    /// The mean loss, and the probabilities that the backward pass needs. Labels are 0 or 1,
    /// stored as by [`cell_from_index`](super::cell_from_index).
    pub fn forward(
        &self,
        logits: &[f32],
        labels: &[f32],
        loss: &mut [f32],
        probabilities: &mut [f32],
    ) -> Result<(), LabelError> {
        let mut total = 0f64;
        for (index, (x, probability)) in logits.iter().zip(probabilities).enumerate() {
            let target = target(labels, index)?;
            *probability = 1.0 / (1.0 + (-x).exp());
            // log(1 + e^x) - target x, without overflow.
            total += f64::from(x.max(0.0) - x * target + (-x.abs()).exp().ln_1p());
        }
        loss[0] = (total / logits.len() as f64) as f32;
        Ok(())
    }

    /// The gradient of the logits.
    pub fn backward(
        &self,
        probabilities: &[f32],
        labels: &[f32],
        dlogits: &mut [f32],
    ) -> Result<(), LabelError> {
        let share = 1.0 / labels.len() as f32;
        for (index, (dlogit, probability)) in dlogits.iter_mut().zip(probabilities).enumerate() {
            *dlogit = (probability - target(labels, index)?) * share;
        }
        Ok(())
    }
}

fn target(labels: &[f32], sample: usize) -> Result<f32, LabelError> {
    match index_from_cell(labels[sample]) {
        0 => Ok(0.0),
        1 => Ok(1.0),
        label => Err(LabelError { sample, label, classes: 2 }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell_from_index;
    use super::super::gradient_check::{check_gradient, random};
    use super::*;
    use proptest::prelude::*;

    fn forward(logits: &[f32], labels: &[f32]) -> (f32, Vec<f32>) {
        let (mut loss, mut probabilities) = ([f32::NAN], vec![f32::NAN; logits.len()]);
        SigmoidCrossEntropy.forward(logits, labels, &mut loss, &mut probabilities).unwrap();
        (loss[0], probabilities)
    }

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(count in 1usize..20, seed: u64) {
            let logits = random(seed, count);
            let labels: Vec<f32> =
                (0..count).map(|n| cell_from_index((seed >> n & 1) as u32)).collect();
            let (_, probabilities) = forward(&logits, &labels);
            let mut gradient = vec![f32::NAN; count];
            SigmoidCrossEntropy.backward(&probabilities, &labels, &mut gradient).unwrap();
            check_gradient(&logits, &gradient, 0.02, |x| f64::from(forward(x, &labels).0))?;
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let labels = [cell_from_index(1), cell_from_index(0)];
        assert_eq!(forward(&[1000.0, -1000.0], &labels), (0.0, vec![1.0, 0.0]));
    }

    #[test]
    fn a_label_that_is_neither_is_refused() {
        let refused = Err(LabelError { sample: 0, label: 2, classes: 2 });
        let labels = [cell_from_index(2)];
        let loss = SigmoidCrossEntropy;
        assert_eq!(loss.forward(&[0.0], &labels, &mut [0.0], &mut [0.0]), refused);
        assert_eq!(loss.backward(&[0.0], &labels, &mut [0.0]), refused);
    }
}
