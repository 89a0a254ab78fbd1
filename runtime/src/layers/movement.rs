//! Copies to another order, or of a part.

use super::ShapeError;

const RANK: usize = 6;

/// Copies elements to other places: the output's element `(i0, i1, ...)` is the input's at the sum
/// of `i * stride`, and zero where an index lies outside of the part that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Movement {
    input: usize,
    /// Of the output; what has fewer dimensions has ones in front.
    extents: [usize; RANK],
    strides: [usize; RANK],
    /// The part of the output that is copied: the first index of each dimension, and how many.
    part: [(usize, usize); RANK],
}

/// The distance between neighbours in each dimension.
fn strides(extents: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    strides
}

impl Movement {
    /// Extents and strides of the output, and where the part begins that the input fills and how
    /// long it is, for a kernel.
    pub(crate) fn numbers(&self) -> [u64; 4 * RANK] {
        std::array::from_fn(|i| match (i / RANK, i % RANK) {
            (0, axis) => self.extents[axis] as u64,
            (1, axis) => self.strides[axis] as u64,
            (2, axis) => self.part[axis].0 as u64,
            (_, axis) => self.part[axis].1 as u64,
        })
    }

    pub(crate) fn input(&self) -> usize {
        self.input
    }

    fn new(
        input: &[usize],
        extents: &[usize],
        strides: &[usize],
        part: &[(usize, usize)],
    ) -> Result<Self, ShapeError> {
        let rank = extents.len();
        let front = RANK.checked_sub(rank).ok_or(ShapeError::Rank { rank })?;
        let mut movement = Self {
            input: input.iter().product(),
            extents: [1; RANK],
            strides: [0; RANK],
            part: [(0, 1); RANK],
        };
        movement.extents[front..].copy_from_slice(extents);
        movement.strides[front..].copy_from_slice(strides);
        movement.part[front..].copy_from_slice(part);
        Ok(movement)
    }

    /// The same elements in the same order.
    pub fn copy(elements: usize) -> Self {
        let mut copy =
            Self { input: elements, extents: [1; RANK], strides: [1; RANK], part: [(0, 1); RANK] };
        copy.extents[RANK - 1] = elements;
        copy.part[RANK - 1] = (0, elements);
        copy
    }

    /// The same elements, with the input's dimension `order[i]` as the output's `i`.
    pub fn reorder(input: &[usize], order: &[usize]) -> Result<Self, ShapeError> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted != (0..input.len()).collect::<Vec<_>>() {
            let (left, right) = (input.to_vec(), order.to_vec());
            return Err(ShapeError::Mismatch { left, right });
        }
        let from = strides(input);
        let extents: Vec<usize> = order.iter().map(|axis| input[*axis]).collect();
        let strides: Vec<usize> = order.iter().map(|axis| from[*axis]).collect();
        let part: Vec<_> = extents.iter().map(|extent| (0, *extent)).collect();
        Self::new(input, &extents, &strides, &part)
    }

    /// The first of the second dimension, such as the first token of each sample.
    pub fn first(input: &[usize]) -> Result<Self, ShapeError> {
        let mut extents = input.to_vec();
        let second = extents.get_mut(1).ok_or(ShapeError::Rank { rank: input.len() })?;
        *second = 1;
        let part: Vec<_> = extents.iter().map(|extent| (0, *extent)).collect();
        Self::new(input, &extents, &strides(input), &part)
    }

    /// Samples and channels in front: every so many positions in space, and channels of zeros on
    /// both sides, to leave the shape `output` (the parameter-free shortcut of He et al. 2016,
    /// section 3.3, option A).
    pub fn subsample(input: &[usize], output: &[usize]) -> Result<Self, ShapeError> {
        let mismatch = || ShapeError::Mismatch { left: input.to_vec(), right: output.to_vec() };
        let fits = input.len() == output.len() && input.len() >= 2 && input[0] == output[0];
        if !fits || output[1] < input[1] {
            return Err(mismatch());
        }
        let mut strides = strides(input);
        let mut part: Vec<_> = output.iter().map(|extent| (0, *extent)).collect();
        part[1] = ((output[1] - input[1]) / 2, input[1]);
        for axis in 2..input.len() {
            let step = input[axis].div_ceil(output[axis].max(1)).max(1);
            if input[axis].div_ceil(step) != output[axis] {
                return Err(mismatch());
            }
            strides[axis] *= step;
        }
        Self::new(input, output, &strides, &part)
    }

    /// Elements of the output.
    pub fn output(&self) -> usize {
        self.extents.iter().product()
    }

    /// The copy.
    pub fn forward(&self, x: &[f32], y: &mut [f32]) {
        assert_eq!((x.len(), y.len()), (self.input, self.output()));
        if self.part.iter().zip(self.extents).any(|((_, count), extent)| *count < extent) {
            y.fill(0.0);
        }
        self.rows(|x_start, y_start, count, step| {
            let y = &mut y[y_start..y_start + count];
            if step == 1 {
                y.copy_from_slice(&x[x_start..x_start + count]);
            } else {
                let from = x[x_start..].iter().step_by(step.max(1));
                y.iter_mut().zip(from).for_each(|(y, x)| *y = *x);
            }
        });
    }

    /// The gradient of the input: each element's goes back to where it came from.
    pub fn backward(&self, dy: &[f32], dx: &mut [f32]) {
        assert_eq!((dx.len(), dy.len()), (self.input, self.output()));
        dx.fill(0.0);
        self.rows(|x_start, y_start, count, step| {
            let dx = dx[x_start..].iter_mut().step_by(step.max(1));
            dx.zip(&dy[y_start..y_start + count]).for_each(|(dx, dy)| *dx += dy);
        });
    }

    /// Calls `visit` with every row that is copied: where it begins in the input and in the
    /// output, how many elements it has, and how far apart they are in the input.
    fn rows(&self, mut visit: impl FnMut(usize, usize, usize, usize)) {
        const LAST: usize = RANK - 1;
        let (first, count) = self.part[LAST];
        let outer: usize = self.part[..LAST].iter().map(|(_, count)| count).product();
        for row in 0..outer {
            let (mut rest, mut x_start, mut y_start, mut size) =
                (row, 0, first, self.extents[LAST]);
            for axis in (0..LAST).rev() {
                let (first, count) = self.part[axis];
                x_start += rest % count * self.strides[axis];
                y_start += (first + rest % count) * size;
                rest /= count;
                size *= self.extents[axis];
            }
            visit(x_start, y_start, count, self.strides[LAST]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    fn forward(movement: &Movement, x: &[f32]) -> Vec<f32> {
        made(movement.output(), |y| movement.forward(x, y))
    }

    fn movements() -> impl Strategy<Value = Movement> {
        let extents = || proptest::collection::vec(1usize..5, 2..5);
        let reorder = extents().prop_flat_map(|input| {
            let order: Vec<usize> = (0..input.len()).collect();
            let order = Just(order).prop_shuffle();
            order.prop_map(move |order| Movement::reorder(&input, &order).unwrap())
        });
        let first = extents().prop_map(|input| Movement::first(&input).unwrap());
        let subsample = (extents(), 0usize..4, 1usize..3).prop_map(|(input, more, step)| {
            let mut output = input.clone();
            output[1] += more;
            output[2..].iter_mut().for_each(|extent| *extent = extent.div_ceil(step));
            Movement::subsample(&input, &output).unwrap()
        });
        prop_oneof![reorder, first, subsample]
    }

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(movement in movements(), seed: u64) {
            let (x, dy) = (random(seed, movement.input), random(seed ^ 1, movement.output()));
            let dx = made(x.len(), |dx| movement.backward(&dy, dx));
            check_gradient(&x, &dx, 0.5, |x| inner(&forward(&movement, x), &dy))?;
        }
    }

    #[test]
    fn each_by_hand() {
        let x: Vec<f32> = (0..8u8).map(f32::from).collect();
        let turned = Movement::reorder(&[2, 4], &[1, 0]).unwrap();
        assert_eq!(forward(&turned, &x), [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
        let first = Movement::first(&[2, 2, 2]).unwrap();
        assert_eq!(forward(&first, &x), [0.0, 1.0, 4.0, 5.0]);
        let shortcut = Movement::subsample(&[1, 2, 4], &[1, 4, 2]).unwrap();
        assert_eq!(forward(&shortcut, &x), [0.0, 0.0, 0.0, 2.0, 4.0, 6.0, 0.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Movement::reorder(&[2, 4], &[1, 1]).is_err());
        assert!(Movement::first(&[2]).is_err());
        assert!(Movement::subsample(&[1, 4, 4], &[1, 2, 2]).is_err());
        assert!(Movement::subsample(&[1, 4, 4], &[1, 4, 3]).is_err());
        assert!(Movement::reorder(&[1; 7], &[0, 1, 2, 3, 4, 5, 6]).is_err());
    }
}
