//! Sums over slices, in a fixed order that vector units can follow.

/// Partial sums that run side by side. Floating-point addition is not associative, so a compiler
/// may not split one running sum; with the split written out, it uses vector registers.
const LANES: usize = 16;

/// Sum of `term(a, b)` over two slices of equal length.
fn sum_of(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f64 {
    assert_eq!(a.len(), b.len());
    let mut lanes = [0f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_chunks.remainder(), b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] += term(a[lane], b[lane]);
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane += term(*a, *b);
    }
    lanes.iter().map(|lane| f64::from(*lane)).sum()
}

pub(super) fn sum(values: &[f32]) -> f64 {
    sum_of(values, values, |value, _| value)
}

/// Sum of `(x - mean)^2`.
pub(super) fn sum_of_squares(values: &[f32], mean: f32) -> f64 {
    sum_of(values, values, |value, _| (value - mean) * (value - mean))
}

/// Sum of `weight (x - mean)`.
pub(super) fn weighted_sum(weights: &[f32], values: &[f32], mean: f32) -> f64 {
    sum_of(weights, values, |weight, value| weight * (value - mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_reach_the_last_element_of_every_length() {
        for length in 0..70u16 {
            let values: Vec<f32> = (0..length).map(f32::from).collect();
            let expected: f64 = (0..length).map(f64::from).sum();
            assert_eq!(sum(&values), expected, "length {length}");
            let squares: f64 = (0..length).map(|x| (f64::from(x) - 1.0).powi(2)).sum();
            assert_eq!(sum_of_squares(&values, 1.0), squares, "length {length}");
            assert_eq!(weighted_sum(&values, &values, 0.0), sum_of_squares(&values, 0.0));
        }
    }
}
