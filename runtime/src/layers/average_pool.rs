//! Average pooling.

use super::reduce::sum;
use super::shape::SPACE;
use super::{Shape, ShapeError, Window};

/// Where the cells of a mean are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cells {
    Under(Window),
    /// In as many even parts as the output has.
    Parts,
}

/// The mean of every channel of every sample over windows that slide, or over even parts of it.
/// Padding is no part of a mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AveragePool {
    pub(crate) input: Shape,
    output: Shape,
    cells: Cells,
}

impl AveragePool {
    /// What a kernel is told, as [`Window::numbers`] has it.
    pub(crate) fn numbers(&self) -> [u64; 17] {
        let (window, parts) = match self.cells {
            Cells::Under(window) => (window, false),
            Cells::Parts => (Window::cube(1, 1, 0), true),
        };
        window.numbers(self.input, self.output, parts)
    }

    /// Means over a window that slides.
    pub fn new(input: Shape, window: Window) -> Result<Self, ShapeError> {
        let output = Shape { space: window.positions(input.space)?, ..input };
        Ok(Self { input, output, cells: Cells::Under(window) })
    }

    /// Means over parts, as even as can be, that leave `space`: adaptive pooling. Where a part
    /// ends within a cell, the cell counts for both.
    pub fn adaptive(input: Shape, space: [usize; SPACE]) -> Result<Self, ShapeError> {
        if let Some(value) = space.into_iter().find(|extent| *extent == 0) {
            return Err(ShapeError::Figure { what: "an extent", value, remedy: "1 or more" });
        }
        Ok(Self { input, output: Shape { space, ..input }, cells: Cells::Parts })
    }

    /// Shape of the output.
    pub fn output(&self) -> Shape {
        self.output
    }

    /// The means.
    pub fn forward(&self, x: &[f32], y: &mut [f32]) {
        assert_eq!((x.len(), y.len()), (self.input.elements(), self.output.elements()));
        let planes =
            x.chunks_exact(self.input.plane()).zip(y.chunks_exact_mut(self.output.plane()));
        for (x, y) in planes {
            if y.len() == 1 && self.cells == Cells::Parts {
                y[0] = (sum(x) / x.len() as f64) as f32;
                continue;
            }
            for (position, y) in y.iter_mut().enumerate() {
                let (mut total, mut count) = (0.0, 0);
                self.rows(position, |row| {
                    total += x[row.clone()].iter().sum::<f32>();
                    count += row.len();
                });
                *y = total / count as f32;
            }
        }
    }

    /// The gradient of the input: an even share for every cell of a mean.
    pub fn backward(&self, dy: &[f32], dx: &mut [f32]) {
        assert_eq!((dx.len(), dy.len()), (self.input.elements(), self.output.elements()));
        dx.fill(0.0);
        let planes =
            dx.chunks_exact_mut(self.input.plane()).zip(dy.chunks_exact(self.output.plane()));
        for (dx, dy) in planes {
            for (position, dy) in dy.iter().enumerate() {
                let mut count = 0;
                self.rows(position, |row| count += row.len());
                let share = dy / count as f32;
                self.rows(position, |row| dx[row].iter_mut().for_each(|dx| *dx += share));
            }
        }
    }

    /// The cells of one dimension that enter a mean.
    fn side(&self, axis: usize, position: usize) -> std::ops::Range<usize> {
        let (extent, parts) = (self.input.space[axis], self.output.space[axis]);
        match self.cells {
            Cells::Under(window) => window.under(axis, position, extent),
            Cells::Parts => position * extent / parts..((position + 1) * extent).div_ceil(parts),
        }
    }

    /// The rows of cells that enter a mean.
    fn rows(&self, position: usize, mut visit: impl FnMut(std::ops::Range<usize>)) {
        let [_, oh, ow] = self.output.space;
        let [_, ih, iw] = self.input.space;
        let columns = self.side(2, position % ow);
        for z in self.side(0, position / ow / oh) {
            for y in self.side(1, position / ow % oh) {
                let row = (z * ih + y) * iw;
                visit(row + columns.start..row + columns.end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::super::max_pool::tests::pooled;
    use super::*;
    use proptest::prelude::*;

    fn pools() -> impl Strategy<Value = AveragePool> {
        let adaptive = (pooled(), [1usize..5, 1usize..5, 1usize..5])
            .prop_map(|((input, _), space)| AveragePool::adaptive(input, space).unwrap());
        let windows = pooled().prop_filter_map("the window fits", |(input, window)| {
            AveragePool::new(input, window).ok()
        });
        prop_oneof![adaptive, windows]
    }

    fn forward(pool: &AveragePool, x: &[f32]) -> Vec<f32> {
        made(pool.output().elements(), |y| pool.forward(x, y))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn gradients_are_the_derivatives(pool in pools(), seed: u64) {
            let x = random(seed, pool.input.elements());
            let dy = random(seed ^ 1, pool.output().elements());
            let dx = made(x.len(), |dx| pool.backward(&dy, dx));
            check_gradient(&x, &dx, 0.5, |x| inner(&forward(&pool, x), &dy))?;
        }

        #[test]
        fn the_mean_of_a_constant_is_the_constant(pool in pools()) {
            for y in forward(&pool, &vec![2.5; pool.input.elements()]) {
                prop_assert!((y - 2.5).abs() < 1e-6, "{y}");
            }
        }
    }

    #[test]
    fn parts_are_those_of_frameworks() {
        let pool = AveragePool::adaptive(Shape::image(1, 1, 1, 5), [1, 1, 3]).unwrap();
        // Cells 0 and 1, 1 to 3, 3 and 4.
        assert_eq!(forward(&pool, &[0.0, 2.0, 4.0, 6.0, 8.0]), [1.0, 4.0, 7.0]);
        let window = Window { ceil: true, ..Window::square(2, 2, 0) };
        let pool = AveragePool::new(Shape::image(1, 1, 2, 3), window).unwrap();
        assert_eq!(forward(&pool, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), [2.0, 3.5]);
    }
}
