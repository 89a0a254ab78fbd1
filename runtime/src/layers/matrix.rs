//! Slices as matrices, and their product.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};

/// `data` as a matrix of `rows` rows, each contiguous.
pub(super) fn matrix(data: &[f32], rows: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, data.len() / rows), data).expect("rows divide the length")
}

/// A matrix of some rows and columns that begins at `start` of `data` and whose neighbours in
/// either direction are so far apart.
pub(super) fn strided(
    data: &[f32],
    start: usize,
    [rows, columns]: [usize; 2],
    [row, column]: [usize; 2],
) -> ArrayView2<'_, f32> {
    let shape = (rows, columns).strides((row, column));
    ArrayView2::from_shape(shape, &data[start..]).expect("the matrix lies inside the data")
}

/// [`strided`], to be written to.
pub(super) fn strided_mut(
    data: &mut [f32],
    start: usize,
    [rows, columns]: [usize; 2],
    [row, column]: [usize; 2],
) -> ArrayViewMut2<'_, f32> {
    let shape = (rows, columns).strides((row, column));
    ArrayViewMut2::from_shape(shape, &mut data[start..]).expect("the matrix lies inside the data")
}

/// What a product does with what its output held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Overwrite,
    Accumulate,
}

/// `out = a b`, or `out += a b`.
pub(super) fn multiply(a: ArrayView2<f32>, b: ArrayView2<f32>, out: &mut [f32], output: Output) {
    let mut out = ArrayViewMut2::from_shape((a.nrows(), b.ncols()), out)
        .expect("the output fits the product");
    multiply_strided(1.0, a, b, &mut out, output);
}

/// `out = scale a b`, or `out += scale a b`.
pub(super) fn multiply_strided(
    scale: f32,
    a: ArrayView2<f32>,
    b: ArrayView2<f32>,
    out: &mut ArrayViewMut2<f32>,
    output: Output,
) {
    let beta = if output == Output::Overwrite { 0.0 } else { 1.0 };
    general_mat_mul(scale, &a, &b, beta, out);
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

    #[test]
    fn a_matrix_may_be_part_of_another() {
        let data: Vec<f32> = (0..12u8).map(f32::from).collect();
        let right = strided(&data, 2, [3, 2], [4, 1]);
        assert_eq!(right, ndarray::arr2(&[[2.0, 3.0], [6.0, 7.0], [10.0, 11.0]]));
        let mut out = vec![f32::NAN; 6];
        let mut view = strided_mut(&mut out, 1, [1, 2], [4, 2]);
        let ones = [1.0; 3];
        multiply_strided(0.5, matrix(&ones, 1), right, &mut view, Output::Overwrite);
        assert_eq!((out[1], out[3]), (9.0, 10.5));
        assert!(out[0].is_nan() && out[2].is_nan() && out[4].is_nan());
    }
}
