//! A product of matrices, wherever its operands lie.

use super::arguments::Argument;

/// Where the elements of an operand lie, in floats: see `product.cu`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strides {
    pub start: u64,
    pub sample: u64,
    pub head: u64,
    pub divide: u64,
    /// Along rows of the left operand, columns of the right one.
    pub side: u64,
    pub inner: u64,
    pub outer: u64,
}

impl Strides {
    pub fn plain(side: usize, inner: usize) -> Self {
        let (side, inner) = (side as u64, inner as u64);
        Self { start: 0, sample: 0, head: 0, divide: 1, side, inner, outer: 0 }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Matrices<A> {
    pub a: (Argument<A>, Strides),
    pub b: (Argument<A>, Strides),
    pub y: Argument<A>,
    /// Start, sample, head, row and column of the output, in floats.
    pub places: [u64; 5],
    pub bias: Argument<A>,
    pub samples: usize,
    pub heads: usize,
    pub rows: usize,
    pub columns: usize,
    pub inner: usize,
    /// Elements of the inner dimension that lie at one distance.
    pub split: usize,
    pub scale: f32,
    /// What keys get that a query does not see, where there are such.
    pub masked: Option<f32>,
    pub accumulate: bool,
}

impl<A: Copy + PartialEq> Matrices<A> {
    /// One product of two plain matrices, into rows behind one another.
    pub fn plain(
        a: (Argument<A>, Strides),
        b: (Argument<A>, Strides),
        y: Argument<A>,
        [rows, columns, inner]: [usize; 3],
    ) -> Self {
        Self {
            a,
            b,
            y,
            places: [0, 0, 0, columns as u64, 1],
            bias: Argument::Nothing,
            samples: 1,
            heads: 1,
            rows,
            columns,
            inner,
            split: inner.max(1),
            scale: 1.0,
            masked: None,
            accumulate: false,
        }
    }
}
