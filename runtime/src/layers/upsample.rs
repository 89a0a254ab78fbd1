//! Linear up-sampling.

use super::shape::SPACE;
use super::{Shape, ShapeError};

/// Up-sampling by a factor, linear in each dimension in space: bilinear on images. Pixels are
/// areas, so that the first output lies a little before the first input's centre, as frameworks
/// have it unless corners are to be aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upsample {
    input: Shape,
    output: Shape,
}

/// Where a coordinate of the output lies: two neighbours of the input and the second one's weight.
#[derive(Debug, Clone, Copy)]
struct Between {
    cells: [usize; 2],
    weights: [f32; 2],
}

impl Upsample {
    /// Planes, and extents of input and output, for a kernel.
    pub(crate) fn numbers(&self) -> [u64; 7] {
        let planes = std::iter::once(self.input.n * self.input.c);
        let mut all = planes.chain(self.input.space).chain(self.output.space);
        std::array::from_fn(|_| all.next().unwrap_or(0) as u64)
    }

    /// Up-sampling to `space`, each extent of which is a multiple of the input's.
    pub fn new(input: Shape, space: [usize; SPACE]) -> Result<Self, ShapeError> {
        if input.space.iter().zip(space).any(|(from, to)| to == 0 || !to.is_multiple_of(*from)) {
            let (left, right) = (input.space.to_vec(), space.to_vec());
            return Err(ShapeError::Mismatch { left, right });
        }
        Ok(Self { input, output: Shape { space, ..input } })
    }

    /// Shape of the output.
    pub fn output(&self) -> Shape {
        self.output
    }

    /// The values between.
    pub fn forward(&self, x: &[f32], y: &mut [f32]) {
        assert_eq!((x.len(), y.len()), (self.input.elements(), self.output.elements()));
        let planes =
            x.chunks_exact(self.input.plane()).zip(y.chunks_exact_mut(self.output.plane()));
        for (x, y) in planes {
            y.fill(0.0);
            self.rows(|row, start, weight| {
                let out = &mut y[row * self.output.space[2]..][..self.output.space[2]];
                for (column, y) in out.iter_mut().enumerate() {
                    let Between { cells, weights } = self.between(2, column);
                    let value = weights[0] * x[start + cells[0]] + weights[1] * x[start + cells[1]];
                    *y += weight * value;
                }
            });
        }
    }

    /// The gradient of the input.
    pub fn backward(&self, dy: &[f32], dx: &mut [f32]) {
        assert_eq!((dx.len(), dy.len()), (self.input.elements(), self.output.elements()));
        dx.fill(0.0);
        let planes =
            dx.chunks_exact_mut(self.input.plane()).zip(dy.chunks_exact(self.output.plane()));
        for (dx, dy) in planes {
            self.rows(|row, start, weight| {
                let dy = &dy[row * self.output.space[2]..][..self.output.space[2]];
                for (column, dy) in dy.iter().enumerate() {
                    let Between { cells, weights } = self.between(2, column);
                    dx[start + cells[0]] += weight * weights[0] * dy;
                    dx[start + cells[1]] += weight * weights[1] * dy;
                }
            });
        }
    }

    fn between(&self, axis: usize, position: usize) -> Between {
        let (extent, factor) =
            (self.input.space[axis], self.output.space[axis] / self.input.space[axis]);
        let at = (position as f32 + 0.5) / factor as f32 - 0.5;
        let at = at.max(0.0);
        let low = (at as usize).min(extent - 1);
        let high = (low + 1).min(extent - 1);
        let weight = at - low as f32;
        Between { cells: [low, high], weights: [1.0 - weight, weight] }
    }

    /// Calls `visit` with every row of the output and each row of the input that it is made of:
    /// where that begins, and its weight.
    fn rows(&self, mut visit: impl FnMut(usize, usize, f32)) {
        let [od, oh, _] = self.output.space;
        let [_, ih, iw] = self.input.space;
        for row in 0..od * oh {
            let (depth, line) = (self.between(0, row / oh), self.between(1, row % oh));
            for (z, depth_weight) in depth.cells.into_iter().zip(depth.weights) {
                for (y, weight) in line.cells.into_iter().zip(line.weights) {
                    let weight = depth_weight * weight;
                    if weight > 0.0 {
                        visit(row, (z * ih + y) * iw, weight);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    fn forward(upsample: &Upsample, x: &[f32]) -> Vec<f32> {
        made(upsample.output().elements(), |y| upsample.forward(x, y))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn gradients_are_the_derivatives(
            n in 1usize..3, c in 1usize..3, space in [1usize..3, 1usize..4, 1usize..5],
            factors in [1usize..3, 1usize..4, 1usize..4], seed: u64,
        ) {
            let to = [0, 1, 2].map(|axis| space[axis] * factors[axis]);
            let upsample = Upsample::new(Shape { n, c, space }, to).unwrap();
            let x = random(seed, upsample.input.elements());
            let dy = random(seed ^ 1, upsample.output.elements());
            let dx = made(x.len(), |dx| upsample.backward(&dy, dx));
            check_gradient(&x, &dx, 0.5, |x| inner(&forward(&upsample, x), &dy))?;
            for y in forward(&upsample, &vec![3.0; x.len()]) {
                prop_assert!((y - 3.0).abs() < 1e-5, "a constant stays: {y}");
            }
        }
    }

    #[test]
    fn a_row_by_hand() {
        let upsample = Upsample::new(Shape::image(1, 1, 1, 2), [1, 1, 4]).unwrap();
        assert_eq!(forward(&upsample, &[0.0, 4.0]), [0.0, 1.0, 3.0, 4.0]);
        assert!(Upsample::new(Shape::image(1, 1, 1, 2), [1, 1, 3]).is_err());
    }
}
