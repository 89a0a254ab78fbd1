//! Slices as matrices, and their product.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

/// `data` as a matrix of `rows` rows, each contiguous.
pub(super) fn matrix(data: &[f32], rows: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, data.len() / rows), data).expect("rows divide the length")
}

/// What a product does with what its output held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// It is overwritten, and not read.
    Overwrite,
    /// The product is added to it.
    Accumulate,
}

/// `out = a b`, or `out += a b`.
pub(super) fn multiply(a: ArrayView2<f32>, b: ArrayView2<f32>, out: &mut [f32], output: Output) {
    let beta = if output == Output::Overwrite { 0.0 } else { 1.0 };
    let mut out = ArrayViewMut2::from_shape((a.nrows(), b.ncols()), out)
        .expect("the output fits the product");
    general_mat_mul(1.0, &a, &b, beta, &mut out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwriting_does_not_read_the_output() {
        let mut out = [f32::NAN; 4];
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        multiply(matrix(&a, 2), matrix(&b, 2).t(), &mut out, Output::Overwrite);
        assert_eq!(out, [17.0, 23.0, 39.0, 53.0]);
        multiply(matrix(&a, 2), matrix(&b, 2).t(), &mut out, Output::Accumulate);
        assert_eq!(out, [34.0, 46.0, 78.0, 106.0]);
    }
}
