//! Sums and products of which the second operand may be smaller.

use super::ShapeError;

/// Dimensions of an operand, after neighbours that are alike were joined.
const RANK: usize = 6;

/// Two operands, of which the second is repeated in each dimension where it has an extent of 1
/// and the first has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broadcast {
    /// Of the first operand; neighbours of which the second has either all or one are one
    /// dimension. What has fewer has ones in front.
    extents: [usize; RANK],
    /// The second operand's strides: zero where it is repeated.
    strides: [usize; RANK],
}

impl Broadcast {
    /// Extents, and how far apart elements of the second operand are, for a kernel.
    pub(crate) fn numbers(&self) -> [u64; 2 * RANK] {
        std::array::from_fn(|i| match i < RANK {
            true => self.extents[i] as u64,
            false => self.strides[i - RANK] as u64,
        })
    }

    /// Operands of these shapes.
    pub fn new(left: &[usize], right: &[usize]) -> Result<Self, ShapeError> {
        let fits = left.len() == right.len()
            && left.iter().zip(right).all(|(left, right)| left == right || *right == 1);
        if !fits {
            return Err(ShapeError::Mismatch { left: left.to_vec(), right: right.to_vec() });
        }
        let mut joined: Vec<(usize, bool)> = Vec::new();
        for (extent, other) in left.iter().zip(right).filter(|(extent, _)| **extent != 1) {
            let repeated = extent != other;
            match joined.last_mut() {
                Some((last, like)) if *like == repeated => *last *= extent,
                _ => joined.push((*extent, repeated)),
            }
        }
        let front = RANK.checked_sub(joined.len()).ok_or(ShapeError::Rank { rank: left.len() })?;
        let mut broadcast = Self { extents: [1; RANK], strides: [0; RANK] };
        let mut stride = 1;
        for (axis, (extent, repeated)) in joined.into_iter().enumerate().rev() {
            broadcast.extents[front + axis] = extent;
            if !repeated {
                broadcast.strides[front + axis] = stride;
                stride *= extent;
            }
        }
        Ok(broadcast)
    }

    /// Elements of the first operand, and of the result.
    pub fn elements(&self) -> usize {
        self.extents.iter().product()
    }

    /// Elements of the second operand.
    pub fn smaller(&self) -> usize {
        let kept = self.extents.iter().zip(self.strides).filter(|(_, stride)| *stride > 0);
        kept.map(|(extent, _)| extent).product()
    }

    /// `y = a + b`. Where `a` is `None`, in place over it.
    pub fn add(&self, a: Option<&[f32]>, b: &[f32], y: &mut [f32]) {
        self.apply(a, b, y, |a, b| a + b);
    }

    /// `y = a b`. Where `a` is `None`, in place over it: also the gradient of the first operand,
    /// from that of the product and the second operand.
    pub fn multiply(&self, a: Option<&[f32]>, b: &[f32], y: &mut [f32]) {
        self.apply(a, b, y, |a, b| a * b);
    }

    /// The gradient of the second operand of a sum: the gradient of the sum, added up where the
    /// operand was repeated.
    pub fn sum(&self, dy: &[f32], db: &mut [f32]) {
        self.reduce(db, |row| dy[row].iter().sum(), |index| dy[index]);
    }

    /// The gradient of the second operand of a product, from the first one and the gradient of the
    /// product.
    pub fn sum_of_products(&self, a: &[f32], dy: &[f32], db: &mut [f32]) {
        self.reduce(
            db,
            |row| a[row.clone()].iter().zip(&dy[row]).map(|(a, dy)| a * dy).sum(),
            |index| a[index] * dy[index],
        );
    }

    fn apply(&self, a: Option<&[f32]>, b: &[f32], y: &mut [f32], f: impl Fn(f32, f32) -> f32) {
        assert_eq!((y.len(), b.len()), (self.elements(), self.smaller()));
        if let Some(a) = a {
            y.copy_from_slice(a);
        }
        self.rows(|row, start, repeated| {
            let y = &mut y[row];
            if repeated {
                let b = b[start];
                y.iter_mut().for_each(|y| *y = f(*y, b));
            } else {
                y.iter_mut().zip(&b[start..]).for_each(|(y, b)| *y = f(*y, *b));
            }
        });
    }

    fn reduce(
        &self,
        db: &mut [f32],
        of_row: impl Fn(std::ops::Range<usize>) -> f32,
        of_element: impl Fn(usize) -> f32,
    ) {
        assert_eq!(db.len(), self.smaller());
        db.fill(0.0);
        self.rows(|row, start, repeated| {
            if repeated {
                db[start] += of_row(row);
            } else {
                let first = row.start;
                let places = db[start..].iter_mut().take(row.len());
                places.enumerate().for_each(|(i, db)| *db += of_element(first + i));
            }
        });
    }

    /// Calls `visit` with every row of the first operand, the place in the second where it begins,
    /// and whether that place serves for all of the row.
    fn rows(&self, mut visit: impl FnMut(std::ops::Range<usize>, usize, bool)) {
        const LAST: usize = RANK - 1;
        let width = self.extents[LAST];
        let repeated = self.strides[LAST] == 0;
        for row in 0..self.elements() / width {
            let (mut rest, mut start) = (row, 0);
            for axis in (0..LAST).rev() {
                start += rest % self.extents[axis] * self.strides[axis];
                rest /= self.extents[axis];
            }
            visit(row * width..(row + 1) * width, start, repeated);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    fn shapes() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
        proptest::collection::vec((1usize..4, any::<bool>()), 1..5).prop_map(|axes| {
            let left = axes.iter().map(|(extent, _)| *extent).collect();
            (left, axes.iter().map(|(extent, one)| if *one { 1 } else { *extent }).collect())
        })
    }

    type Forward = fn(&Broadcast, Option<&[f32]>, &[f32], &mut [f32]);

    fn forward(f: Forward, broadcast: &Broadcast, a: &[f32], b: &[f32]) -> Vec<f32> {
        made(a.len(), |y| f(broadcast, Some(a), b, y))
    }

    proptest! {
        #[test]
        fn gradients_are_the_derivatives((left, right) in shapes(), seed: u64) {
            let broadcast = Broadcast::new(&left, &right).unwrap();
            let (a, b) =
                (random(seed, broadcast.elements()), random(seed ^ 1, broadcast.smaller()));
            prop_assert_eq!(a.len(), left.iter().product::<usize>());
            prop_assert_eq!(b.len(), right.iter().product::<usize>());
            let dy = random(seed ^ 2, a.len());
            let (mut da, mut db) = (vec![f32::NAN; a.len()], vec![f32::NAN; b.len()]);
            broadcast.sum(&dy, &mut db);
            let add: Forward = Broadcast::add;
            check_gradient(&b, &db, 0.5, |b| inner(&forward(add, &broadcast, &a, b), &dy))?;
            broadcast.multiply(Some(&dy), &b, &mut da);
            broadcast.sum_of_products(&a, &dy, &mut db);
            let multiply: Forward = Broadcast::multiply;
            check_gradient(&a, &da, 0.5, |a| inner(&forward(multiply, &broadcast, a, &b), &dy))?;
            check_gradient(&b, &db, 0.5, |b| inner(&forward(multiply, &broadcast, &a, b), &dy))?;
        }
    }

    #[test]
    fn a_scale_for_each_channel() {
        let broadcast = Broadcast::new(&[1, 2, 2], &[1, 2, 1]).unwrap();
        let mut y = [1.0, 2.0, 3.0, 4.0];
        broadcast.multiply(None, &[10.0, 100.0], &mut y);
        assert_eq!(y, [10.0, 20.0, 300.0, 400.0]);
        assert!(Broadcast::new(&[2, 3], &[2, 2]).is_err());
        assert!(Broadcast::new(&[2, 3], &[3]).is_err());
    }
}
