//! The loss of a classifier.

use super::index_from_cell;

/// Softmax and cross-entropy in one, averaged over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftmaxCrossEntropy {
    /// Classes.
    pub classes: usize,
}

/// A label that is not a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sample {sample} has label {label}, but there are {classes} classes")]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct LabelError {
    pub sample: usize,
    pub label: u32,
    pub classes: usize,
}

impl SoftmaxCrossEntropy {
    /// The mean loss, and the probabilities that the backward pass needs. Labels are stored as
    /// by [`cell_from_index`](super::cell_from_index).
    pub fn forward(
        &self,
        logits: &[f32],
        labels: &[f32],
        loss: &mut [f32],
        probabilities: &mut [f32],
    ) -> Result<(), LabelError> {
        let mut total = 0f64;
        let samples =
            logits.chunks_exact(self.classes).zip(probabilities.chunks_exact_mut(self.classes));
        for (sample, (logits, probabilities)) in samples.enumerate() {
            let class = self.class(labels, sample)?;
            // The largest exponent becomes zero, so that nothing overflows.
            let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut normaliser = 0f64;
            for (logit, probability) in logits.iter().zip(&mut *probabilities) {
                *probability = (logit - largest).exp();
                normaliser += f64::from(*probability);
            }
            for probability in probabilities {
                *probability = (f64::from(*probability) / normaliser) as f32;
            }
            total += normaliser.ln() - f64::from(logits[class] - largest);
        }
        loss[0] = (total / labels.len() as f64) as f32;
        Ok(())
    }

    /// The gradient of the logits: the probabilities, less one at the label, over the batch.
    pub fn backward(
        &self,
        probabilities: &[f32],
        labels: &[f32],
        dlogits: &mut [f32],
    ) -> Result<(), LabelError> {
        let share = 1.0 / labels.len() as f32;
        for (dlogit, probability) in dlogits.iter_mut().zip(probabilities) {
            *dlogit = probability * share;
        }
        for (sample, dlogits) in dlogits.chunks_exact_mut(self.classes).enumerate() {
            dlogits[self.class(labels, sample)?] -= share;
        }
        Ok(())
    }

    fn class(&self, labels: &[f32], sample: usize) -> Result<usize, LabelError> {
        let label = index_from_cell(labels[sample]);
        if label as usize >= self.classes {
            return Err(LabelError { sample, label, classes: self.classes });
        }
        Ok(label as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell_from_index;
    use super::super::gradient_check::{check_gradient, random};
    use super::*;
    use proptest::prelude::*;

    fn forward(logits: &[f32], labels: &[f32]) -> (f32, Vec<f32>) {
        let loss = SoftmaxCrossEntropy { classes: logits.len() / labels.len() };
        let (mut value, mut probabilities) = ([f32::NAN], vec![f32::NAN; logits.len()]);
        loss.forward(logits, labels, &mut value, &mut probabilities).unwrap();
        (value[0], probabilities)
    }

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(batch in 1usize..5, classes in 1usize..8, seed: u64) {
            let logits = random(seed, batch * classes);
            let labels: Vec<f32> =
                (0..batch).map(|n| cell_from_index(((seed >> n) % classes as u64) as u32)).collect();
            let (_, probabilities) = forward(&logits, &labels);
            let mut gradient = vec![f32::NAN; logits.len()];
            SoftmaxCrossEntropy { classes }.backward(&probabilities, &labels, &mut gradient).unwrap();
            check_gradient(&logits, &gradient, 0.02, |x| f64::from(forward(x, &labels).0))?;
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let (loss, probabilities) = forward(&[1000.0, -1000.0], &[cell_from_index(0)]);
        assert_eq!((loss, probabilities), (0.0, vec![1.0, 0.0]));
    }

    #[test]
    fn a_label_that_is_no_class_is_refused() {
        let loss = SoftmaxCrossEntropy { classes: 2 };
        let labels = [cell_from_index(1), cell_from_index(2)];
        let refused = Err(LabelError { sample: 1, label: 2, classes: 2 });
        assert_eq!(loss.forward(&[0.0; 4], &labels, &mut [0.0], &mut [0.0; 4]), refused);
        assert_eq!(loss.backward(&[0.5; 4], &labels, &mut [0.0; 4]), refused);
    }
}
