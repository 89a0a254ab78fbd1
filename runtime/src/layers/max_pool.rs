//! Maximum pooling.

use super::{Shape, ShapeError, Window, cell_from_index, index_from_cell};

/// Maximum pooling over a window that slides over each channel. The forward pass saves, for every
/// output, the position of its maximum in the channel, so that the backward pass needs neither
/// input nor output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxPool {
    pub(crate) input: Shape,
    output: Shape,
    window: Window,
}

impl MaxPool {
    /// What a kernel is told, as [`Window::numbers`] has it.
    pub(crate) fn numbers(&self) -> [u64; 17] {
        self.window.numbers(self.input, self.output, false)
    }

    /// Maximum pooling of `input`.
    pub fn new(input: Shape, window: Window) -> Result<Self, ShapeError> {
        let output = Shape { space: window.positions(input.space)?, ..input };
        Ok(Self { input, output, window })
    }

    /// Shape of the output, and of the saved positions.
    pub fn output(&self) -> Shape {
        self.output
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
            self.maxima(x, y, positions);
        }
    }

    fn maxima(&self, x: &[f32], y: &mut [f32], positions: &mut [f32]) {
        let [_, oh, ow] = self.output.space;
        let [id, ih, iw] = self.input.space;
        let rows = y.chunks_exact_mut(ow).zip(positions.chunks_exact_mut(ow));
        for (row, (y, positions)) in rows.enumerate() {
            let depths = self.window.under(0, row / oh, id);
            let lines = self.window.under(1, row % oh, ih);
            for (column, (y, position)) in y.iter_mut().zip(positions).enumerate() {
                let cells = self.window.under(2, column, iw);
                let mut best = (depths.start * ih + lines.start) * iw + cells.start;
                let mut largest = x[best];
                for line in depths.clone().flat_map(|z| lines.clone().map(move |y| z * ih + y)) {
                    let start = line * iw + cells.start;
                    for (value, at) in x[start..start + cells.len()].iter().zip(start..) {
                        if *value > largest || value.is_nan() {
                            (largest, best) = (*value, at);
                        }
                    }
                }
                *y = largest;
                // A plane has fewer than 2^31 elements: its bytes are addressable.
                *position = cell_from_index(best as u32);
            }
        }
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
pub(super) mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    /// What is pooled and a window, which may not fit.
    pub fn pooled() -> impl Strategy<Value = (Shape, Window)> {
        let axis = || (1usize..4, 1usize..4, 0usize..2);
        let space = prop_oneof![
            (1usize..8, 1usize..8).prop_map(|(h, w)| [1, h, w]),
            (2usize..4, 1usize..5, 1usize..5).prop_map(|(d, h, w)| [d, h, w]),
        ];
        (1usize..3, 1usize..3, space, [axis(), axis(), axis()], any::<bool>()).prop_map(
            |(n, c, space, axes, ceil)| {
                let mut window = Window { ceil, ..Window::cube(1, 1, 0) };
                for (axis, (kernel, stride, padding)) in axes.into_iter().enumerate() {
                    if space[axis] > 1 {
                        window.kernel[axis] = kernel;
                        window.stride[axis] = stride;
                        window.padding[axis] = padding;
                    }
                }
                (Shape { n, c, space }, window)
            },
        )
    }

    fn pools() -> impl Strategy<Value = MaxPool> {
        pooled()
            .prop_filter_map("the window fits", |(input, window)| MaxPool::new(input, window).ok())
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
            let (window, [id, ih, iw]) = (pool.window, pool.input.space);
            let [od, oh, ow] = pool.output.space;
            for (index, y) in y.iter().enumerate() {
                let at = [index / ow / oh % od, index / ow % oh, index % ow];
                let plane = &x[index / pool.output.plane() * pool.input.plane()..];
                let mut expected = f32::NEG_INFINITY;
                for cell in 0..window.volume() {
                    let [_, kh, kw] = window.kernel;
                    let offset = [cell / kw / kh, cell / kw % kh, cell % kw];
                    let [z, r, c] = [0, 1, 2].map(|axis| {
                        (at[axis] * window.stride[axis] + offset[axis])
                            .wrapping_sub(window.padding[axis])
                    });
                    if z < id && r < ih && c < iw {
                        expected = expected.max(plane[(z * ih + r) * iw + c]);
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
            let dx = made(x.len(), |dx| pool.backward(&positions, &dy, dx));
            check_gradient(&x, &dx, 0.125, |x| inner(&forward(&pool, x).0, &dy))?;
        }
    }
}
