//! Gradients against finite differences.

use proptest::test_runner::TestCaseError;

use crate::network::Random;

/// `count` values between -1 and 1.
pub(super) fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.uniform(1.0)).collect()
}

/// What a layer writes, of so many elements, over what is no number.
pub(super) fn made(elements: usize, layer: impl FnOnce(&mut [f32])) -> Vec<f32> {
    let mut made = vec![f32::NAN; elements];
    layer(&mut made);
    made
}

/// The inner product: a scalar loss whose gradient with respect to `a` is `b`.
pub(super) fn inner(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Checks every element of `gradient` against `(f(x + step) - f(x - step)) / 2 step`. The
/// tolerance grows as the step shrinks, because `f` is computed in single precision.
pub(super) fn check_gradient(
    x: &[f32],
    gradient: &[f32],
    step: f32,
    f: impl Fn(&[f32]) -> f64,
) -> Result<(), TestCaseError> {
    assert_eq!(x.len(), gradient.len());
    let mut moved = x.to_vec();
    for index in 0..x.len() {
        moved[index] = x[index] + step;
        let (above, right) = (f(&moved), moved[index]);
        moved[index] = x[index] - step;
        let (below, left) = (f(&moved), moved[index]);
        moved[index] = x[index];
        let expected = (above - below) / f64::from(right - left);
        let error = (f64::from(gradient[index]) - expected).abs();
        let tolerance = 1e-3 + 1e-3 * expected.abs() + 1e-5 / f64::from(step);
        if error.is_nan() || error > tolerance {
            return Err(TestCaseError::fail(format!(
                "element {index}: gradient {}, finite difference {expected}",
                gradient[index]
            )));
        }
    }
    Ok(())
}
