//! Element-wise sums: residual connections, and gradients that arrive from two branches.

/// `sum = a + b`.
pub fn add(a: &[f32], b: &[f32], sum: &mut [f32]) {
    assert_eq!((a.len(), b.len()), (sum.len(), sum.len()));
    for ((a, b), sum) in a.iter().zip(b).zip(sum) {
        *sum = a + b;
    }
}

/// `a += b`: [`add`] over its first input.
pub fn add_assign(a: &mut [f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_agree() {
        let (a, b) = ([1.0, -2.0, 0.5], [0.25, 4.0, -0.5]);
        let (mut sum, mut over) = ([f32::NAN; 3], a);
        add(&a, &b, &mut sum);
        add_assign(&mut over, &b);
        assert_eq!(sum, [1.25, 2.0, 0.0]);
        assert_eq!(over, sum);
    }
}
