//! Rectified linear unit.

/// `y = max(x, 0)`. A NaN stays NaN, as in frameworks, so that a broken training run shows.
pub fn relu(x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len());
    for (x, y) in x.iter().zip(y) {
        *y = if *x <= 0.0 { 0.0 } else { *x };
    }
}

/// [`relu`] over its input.
pub fn relu_in_place(values: &mut [f32]) {
    for value in values {
        *value = if *value <= 0.0 { 0.0 } else { *value };
    }
}

/// The gradient of the input from the *output* and its gradient: the output is positive exactly
/// where the input was, so the input need not be kept.
pub fn relu_backward(y: &[f32], dy: &[f32], dx: &mut [f32]) {
    assert_eq!((y.len(), dy.len()), (dx.len(), dx.len()));
    for ((y, dy), dx) in y.iter().zip(dy).zip(dx) {
        *dx = if *y <= 0.0 { 0.0 } else { *dy };
    }
}

/// [`relu_backward`] over the gradient of the output.
pub fn relu_backward_in_place(y: &[f32], gradient: &mut [f32]) {
    assert_eq!(y.len(), gradient.len());
    for (y, gradient) in y.iter().zip(gradient) {
        *gradient = if *y <= 0.0 { 0.0 } else { *gradient };
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, random};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(seed: u64, count in 1usize..100) {
            let step = 0.125f32;
            // No input within a step of the bend.
            let x: Vec<f32> = random(seed, count).iter().map(|x| x + step.copysign(*x) * 2.0).collect();
            let dy = random(seed ^ 1, count);
            let forward = |x: &[f32]| {
                let mut y = vec![f32::NAN; count];
                relu(x, &mut y);
                y
            };
            let y = forward(&x);
            let mut dx = vec![f32::NAN; count];
            relu_backward(&y, &dy, &mut dx);
            check_gradient(&x, &dx, step, |x| inner(&forward(x), &dy))?;

            let (mut in_place, mut gradient) = (x.clone(), dy.clone());
            relu_in_place(&mut in_place);
            relu_backward_in_place(&y, &mut gradient);
            prop_assert_eq!(in_place, y);
            prop_assert_eq!(gradient, dx);
        }
    }

    #[test]
    fn zero_has_no_gradient_and_nan_stays() {
        let mut y = [0.0; 4];
        relu(&[-1.0, -0.0, 2.0, f32::NAN], &mut y);
        assert_eq!(y[..3], [0.0, 0.0, 2.0]);
        assert!(y[3].is_nan());
        let mut gradient = [1.0; 4];
        relu_backward_in_place(&y, &mut gradient);
        assert_eq!(gradient, [0.0, 0.0, 1.0, 1.0]);
    }
}
