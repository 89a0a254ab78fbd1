//! Products of two activations.

use ndarray::{ArrayView2, ArrayViewMut2};

use super::ShapeError;
use super::matrix::{Output, multiply_strided, strided, strided_mut};

/// What is masked in scores: so low that its exponential is zero.
pub(crate) const MASKED: f32 = f32::MIN;

/// How the matrices of an operand lie in memory: distances between the batch's samples, heads,
/// rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    sample: usize,
    head: usize,
    row: usize,
    column: usize,
}

impl Layout {
    /// Matrices one after another.
    fn dense(heads: usize, rows: usize, columns: usize) -> Self {
        Self { sample: heads * rows * columns, head: rows * columns, row: columns, column: 1 }
    }

    /// Heads side by side in the rows of a token.
    pub fn side_by_side(heads: usize, rows: usize, width: usize) -> Self {
        Self { sample: heads * rows * width, head: width, row: heads * width, column: 1 }
    }

    fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }

    fn start(&self, (sample, head): (usize, usize)) -> usize {
        sample * self.sample + head * self.head
    }

    /// The matrix of a sample and head.
    pub fn of<'a>(
        &self,
        data: &'a [f32],
        at: (usize, usize),
        size: [usize; 2],
    ) -> ArrayView2<'a, f32> {
        strided(data, self.start(at), size, [self.row, self.column])
    }

    /// The same, to be written to.
    pub fn of_mut<'a>(
        &self,
        data: &'a mut [f32],
        at: (usize, usize),
        size: [usize; 2],
    ) -> ArrayViewMut2<'a, f32> {
        strided_mut(data, self.start(at), size, [self.row, self.column])
    }
}

/// For each sample and head, `y = scale a b` with an `a` of `rows x inner` and a `b` of
/// `inner x columns`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    /// Heads of `a` that share one of `b`.
    pub(crate) group: usize,
    pub(crate) rows: usize,
    pub(crate) inner: usize,
    pub(crate) columns: usize,
    a: Layout,
    b: Layout,
    y: Layout,
    pub(crate) scale: f32,
    pub(crate) causal: bool,
}

impl Product {
    /// How far apart samples, heads, rows and columns are in `a`, `b` and `y`, for a kernel.
    pub(crate) fn strides(&self) -> [[u64; 4]; 3] {
        [self.a, self.b, self.y].map(|of| [of.sample, of.head, of.row, of.column].map(|n| n as u64))
    }

    /// Products of dense matrices, `batch` of them.
    pub fn dense(batch: usize, rows: usize, inner: usize, columns: usize) -> Self {
        Self {
            batch,
            heads: 1,
            group: 1,
            rows,
            inner,
            columns,
            a: Layout::dense(1, rows, inner),
            b: Layout::dense(1, inner, columns),
            y: Layout::dense(1, rows, columns),
            scale: 1.0,
            causal: false,
        }
    }

    /// Attention's scores, `(batch, heads, queries, keys)`: products of queries
    /// `(batch, queries, heads * width)` and keys `(batch, keys, key_heads * width)` over the
    /// root of the width. Where `causal`, no query sees a later key.
    pub fn scores(
        batch: usize,
        [queries, keys]: [usize; 2],
        [heads, key_heads]: [usize; 2],
        width: usize,
        causal: bool,
    ) -> Result<Self, ShapeError> {
        let (rows, columns) = (queries, keys);
        Ok(Self {
            batch,
            heads,
            group: group(heads, key_heads)?,
            rows,
            inner: width,
            columns,
            a: Layout::side_by_side(heads, rows, width),
            b: Layout::side_by_side(key_heads, columns, width).transposed(),
            y: Layout::dense(heads, rows, columns),
            scale: 1.0 / (width as f32).sqrt(),
            causal,
        })
    }

    /// Attention's output `(batch, queries, heads * width)`: products of weights
    /// `(batch, heads, queries, keys)` and values `(batch, keys, key_heads * width)`.
    pub fn mix(
        batch: usize,
        [queries, keys]: [usize; 2],
        [heads, key_heads]: [usize; 2],
        width: usize,
    ) -> Result<Self, ShapeError> {
        let (rows, inner) = (queries, keys);
        Ok(Self {
            batch,
            heads,
            group: group(heads, key_heads)?,
            rows,
            inner,
            columns: width,
            a: Layout::dense(heads, rows, inner),
            b: Layout::side_by_side(key_heads, inner, width),
            y: Layout::side_by_side(heads, rows, width),
            scale: 1.0,
            causal: false,
        })
    }

    /// Elements of the left operand, the right one and the product.
    pub fn elements(&self) -> [usize; 3] {
        let matrices = self.batch * self.heads;
        let b = matrices / self.group * self.inner * self.columns;
        [matrices * self.rows * self.inner, b, matrices * self.rows * self.columns]
    }

    /// `y = scale a b`.
    pub fn forward(&self, a: &[f32], b: &[f32], y: &mut [f32]) {
        for at in matrices(self.batch, self.heads) {
            let (a, b) = (self.a.of(a, at, self.left()), self.right_of(b, at));
            let mut out = self.y.of_mut(y, at, self.product());
            multiply_strided(self.scale, a, b, &mut out, Output::Overwrite);
            if self.causal {
                for query in 0..self.rows {
                    let first = first_hidden(query, self.rows, self.columns);
                    out.row_mut(query).iter_mut().skip(first).for_each(|score| *score = MASKED);
                }
            }
        }
    }

    /// The gradient of the left operand, from the right one and the gradient of the product. What
    /// was masked must have a gradient of zero, as it has behind a softmax.
    pub fn backward_left(&self, b: &[f32], dy: &[f32], da: &mut [f32]) {
        for at in matrices(self.batch, self.heads) {
            let (b, dy) = (self.right_of(b, at), self.y.of(dy, at, self.product()));
            let mut out = self.a.of_mut(da, at, self.left());
            multiply_strided(self.scale, dy, b.t(), &mut out, Output::Overwrite);
        }
    }

    /// The gradient of the right operand, from the left one and the gradient of the product.
    pub fn backward_right(&self, a: &[f32], dy: &[f32], db: &mut [f32]) {
        db.fill(0.0);
        for (sample, head) in matrices(self.batch, self.heads) {
            let a = self.a.of(a, (sample, head), self.left());
            let dy = self.y.of(dy, (sample, head), self.product());
            let shared = (sample, head / self.group);
            let mut out = self.b.of_mut(db, shared, [self.inner, self.columns]);
            multiply_strided(self.scale, a.t(), dy, &mut out, Output::Accumulate);
        }
    }

    fn right_of<'b>(&self, b: &'b [f32], (sample, head): (usize, usize)) -> ArrayView2<'b, f32> {
        self.b.of(b, (sample, head / self.group), [self.inner, self.columns])
    }

    fn left(&self) -> [usize; 2] {
        [self.rows, self.inner]
    }

    fn product(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }
}

/// Sample and head of every matrix.
pub(super) fn matrices(batch: usize, heads: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..batch).flat_map(move |sample| (0..heads).map(move |head| (sample, head)))
}

/// Heads that share one of `key_heads`.
pub(super) fn group(heads: usize, key_heads: usize) -> Result<usize, ShapeError> {
    if key_heads == 0 || heads == 0 || !heads.is_multiple_of(key_heads) {
        return Err(ShapeError::Groups { channels: heads, groups: key_heads });
    }
    Ok(heads / key_heads)
}

/// The first key that a query does not see under a causal mask; the last query sees all keys.
pub(super) fn first_hidden(query: usize, queries: usize, keys: usize) -> usize {
    (query + 1 + keys).saturating_sub(queries).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    fn products() -> impl Strategy<Value = Product> {
        let dense = [1usize..3, 1usize..5, 1usize..5, 1usize..5]
            .prop_map(|[batch, rows, inner, columns]| Product::dense(batch, rows, inner, columns));
        let attention = ([1usize..3, 1usize..5, 1usize..5, 1usize..3, 1usize..3, 1usize..4], 0..2);
        let attention =
            attention.prop_map(|([batch, queries, keys, shared, group, width], kind)| {
                let (lengths, heads) = ([queries, keys], [shared * group, shared]);
                match kind {
                    0 => Product::scores(batch, lengths, heads, width, false).unwrap(),
                    _ => Product::mix(batch, lengths, heads, width).unwrap(),
                }
            });
        prop_oneof![dense, attention]
    }

    fn forward(product: &Product, a: &[f32], b: &[f32]) -> Vec<f32> {
        made(product.elements()[2], |y| product.forward(a, b, y))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn gradients_are_the_derivatives(product in products(), seed: u64) {
            let [left, right, out] = product.elements();
            let (a, b) = (random(seed, left), random(seed ^ 1, right));
            let dy = random(seed ^ 2, out);
            let (mut da, mut db) = (vec![f32::NAN; left], vec![f32::NAN; right]);
            product.backward_left(&b, &dy, &mut da);
            product.backward_right(&a, &dy, &mut db);
            check_gradient(&a, &da, 0.5, |a| inner(&forward(&product, a, &b), &dy))?;
            check_gradient(&b, &db, 0.5, |b| inner(&forward(&product, &a, b), &dy))?;
        }
    }

    #[test]
    fn a_causal_mask_hides_what_comes_later() {
        let product = Product::scores(1, [2, 3], [1, 1], 1, true).unwrap();
        let scores = forward(&product, &[1.0, 2.0], &[1.0, 2.0, 3.0]);
        assert_eq!(scores, [1.0, 2.0, MASKED, 2.0, 4.0, 6.0]);
    }

    #[test]
    fn heads_must_divide() {
        let refused = ShapeError::Groups { channels: 3, groups: 2 };
        assert_eq!(Product::mix(1, [1, 1], [3, 2], 1), Err(refused));
    }
}
