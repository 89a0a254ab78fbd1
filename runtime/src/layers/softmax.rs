//! Softmax of the last dimension.

/// Makes each row of `width` elements add up to one. Where `x` is `None`, in place.
pub fn softmax(width: usize, x: Option<&[f32]>, y: &mut [f32]) {
    if let Some(x) = x {
        y.copy_from_slice(x);
    }
    for row in y.chunks_exact_mut(width) {
        softmax_row(row);
    }
}

/// Makes probabilities of one row and returns the logarithm of the sum of its exponentials.
pub(super) fn softmax_row(row: &mut [f32]) -> f32 {
    // The largest exponent becomes zero, so that nothing overflows.
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0f64;
    for value in &mut *row {
        *value = (*value - largest).exp();
        total += f64::from(*value);
    }
    let share = (1.0 / total) as f32;
    row.iter_mut().for_each(|value| *value *= share);
    (f64::from(largest) + total.ln()) as f32
}

/// The gradient of the input from the output and its gradient. Where `dy` is `None`, in place.
pub fn softmax_backward(width: usize, y: &[f32], dy: Option<&[f32]>, dx: &mut [f32]) {
    if let Some(dy) = dy {
        dx.copy_from_slice(dy);
    }
    for (y, dx) in y.chunks_exact(width).zip(dx.chunks_exact_mut(width)) {
        let mean: f32 = y.iter().zip(&*dx).map(|(y, dy)| y * dy).sum();
        dx.iter_mut().zip(y).for_each(|(dx, y)| *dx = y * (*dx - mean));
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    fn forward(width: usize, x: &[f32]) -> Vec<f32> {
        made(x.len(), |y| softmax(width, Some(x), y))
    }

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(rows in 1usize..4, width in 1usize..9, seed: u64) {
            let (x, dy) = (random(seed, rows * width), random(seed ^ 1, rows * width));
            let y = forward(width, &x);
            for row in y.chunks(width) {
                prop_assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            }
            let dx = made(x.len(), |dx| softmax_backward(width, &y, Some(&dy), dx));
            check_gradient(&x, &dx, 0.02, |x| inner(&forward(width, x), &dy))?;

            let (mut in_place, mut gradient) = (x.clone(), dy.clone());
            softmax(width, None, &mut in_place);
            softmax_backward(width, &y, None, &mut gradient);
            prop_assert_eq!(in_place, y);
            prop_assert_eq!(gradient, dx);
        }
    }

    #[test]
    fn large_values_do_not_overflow() {
        assert_eq!(forward(2, &[1000.0, -1000.0]), [1.0, 0.0]);
    }
}
