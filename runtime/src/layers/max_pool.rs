//! Maximum pooling.

use super::{Shape4, ShapeError, Window, cell_from_index, index_from_cell};

/// Maximum pooling over a window that slides over each channel. The forward pass saves, for every
/// output, the position of its maximum in the channel's plane, so that the backward pass needs
/// neither input nor output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxPool {
    input: Shape4,
    output: Shape4,
    window: Window,
}

impl MaxPool {
    /// Maximum pooling of `input`.
    pub fn new(input: Shape4, window: Window) -> Result<Self, ShapeError> {
        let (h, w) = (window.positions(input.h)?, window.positions(input.w)?);
        Ok(Self { input, output: Shape4 { h, w, ..input }, window })
    }

    /// Shape of the output, and of the saved positions.
    pub fn output(&self) -> Shape4 {
        self.output
    }

    /// Comparisons of the forward pass.
    pub fn flops(&self) -> u64 {
        (self.output.elements() * self.window.kernel * self.window.kernel) as u64
    }

    /// The maxima and their positions, as [`cell_from_index`] stores them. Of equal values the
    /// first counts; a NaN is larger than anything.
    pub fn forward(&self, x: &[f32], y: &mut [f32], positions: &mut [f32]) {
        let (input, output) = (self.input, self.output);
        assert_eq!((x.len(), y.len()), (input.elements(), output.elements()));
        assert_eq!(positions.len(), output.elements());
        let maxima = y.chunks_exact_mut(output.plane());
        let positions = positions.chunks_exact_mut(output.plane());
        for (x, (y, positions)) in x.chunks_exact(input.plane()).zip(maxima.zip(positions)) {
            for (index, (y, position)) in y.iter_mut().zip(positions).enumerate() {
                let best = self.maximum(x, index / output.w, index % output.w);
                *y = x[best];
                // A plane has fewer than 2^31 elements: its bytes are addressable.
                *position = cell_from_index(best as u32);
            }
        }
    }

    /// Position in the plane of the maximum under one position of the window.
    fn maximum(&self, plane: &[f32], row: usize, column: usize) -> usize {
        let Window { kernel, stride, padding } = self.window;
        let side = |position: usize, extent: usize| {
            let start = position * stride;
            start.saturating_sub(padding)..(start + kernel - padding).min(extent)
        };
        let (rows, columns) = (side(row, self.input.h), side(column, self.input.w));
        let mut best = rows.start * self.input.w + columns.start;
        for y in rows {
            for position in y * self.input.w + columns.start..y * self.input.w + columns.end {
                if plane[position] > plane[best] || plane[position].is_nan() {
                    best = position;
                }
            }
        }
        best
    }

    /// The gradient of the input: each output's gradient goes to the input that was its maximum.
    pub fn backward(&self, positions: &[f32], dy: &[f32], dx: &mut [f32]) {
        let (input, output) = (self.input, self.output);
        assert_eq!((positions.len(), dy.len()), (output.elements(), output.elements()));
        assert_eq!(dx.len(), input.elements());
        dx.fill(0.0);
        let gradients = dy.chunks_exact(output.plane());
        let positions = positions.chunks_exact(output.plane());
        for (dx, (dy, positions)) in
            dx.chunks_exact_mut(input.plane()).zip(gradients.zip(positions))
        {
            for (dy, position) in dy.iter().zip(positions) {
                dx[index_from_cell(*position) as usize] += dy;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, random};
    use super::*;
    use proptest::prelude::*;

    fn pools() -> impl Strategy<Value = MaxPool> {
        let shape = (1usize..3, 1usize..3, 1usize..8, 1usize..8);
        let window = (1usize..4, 1usize..4, 0usize..2);
        (shape, window).prop_filter_map(
            "the window fits",
            |((n, c, h, w), (kernel, stride, padding))| {
                MaxPool::new(Shape4 { n, c, h, w }, Window { kernel, stride, padding }).ok()
            },
        )
    }

    fn forward(pool: &MaxPool, x: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut y = vec![f32::NAN; pool.output().elements()];
        let mut positions = y.clone();
        pool.forward(x, &mut y, &mut positions);
        (y, positions)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_output_is_the_maximum_under_the_window(pool in pools(), seed: u64) {
            let x = random(seed, pool.input.elements());
            let (y, _) = forward(&pool, &x);
            let Window { kernel, stride, padding } = pool.window;
            for (index, y) in y.iter().enumerate() {
                let (column, row) = (index % pool.output.w, index / pool.output.w % pool.output.h);
                let plane = &x[index / pool.output.plane() * pool.input.plane()..];
                let mut expected = f32::NEG_INFINITY;
                for cell in 0..kernel * kernel {
                    let r = (row * stride + cell / kernel).wrapping_sub(padding);
                    let c = (column * stride + cell % kernel).wrapping_sub(padding);
                    if r < pool.input.h && c < pool.input.w {
                        expected = expected.max(plane[r * pool.input.w + c]);
                    }
                }
                prop_assert_eq!(*y, expected);
            }
        }

        #[test]
        fn gradients_are_the_derivatives(pool in pools(), seed: u64) {
            // Distinct values, further apart than twice the step.
            let mut x: Vec<f32> = (0..pool.input.elements()).map(|i| i as f32 * 0.5).collect();
            let order = random(seed, x.len());
            x.sort_by(|a, b| order[(*a * 2.0) as usize].total_cmp(&order[(*b * 2.0) as usize]));
            let dy = random(seed ^ 1, pool.output().elements());
            let (_, positions) = forward(&pool, &x);
            let mut dx = vec![f32::NAN; x.len()];
            pool.backward(&positions, &dy, &mut dx);
            check_gradient(&x, &dx, 0.125, |x| inner(&forward(&pool, x).0, &dy))?;
        }
    }
}
