//! Fused attention: the matrices of one sample and head after the other, as on the host.

use super::arguments::operands;
use super::matrices::{Matrices, Strides};
use super::{Argument, OpOperands, Writer};
use crate::layers::Attention;
use crate::network::Step;

pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    match step {
        Step::Attention(attention) => forward(attention, op, writer),
        Step::AttentionBackward(attention) => backward(attention, op, writer),
        _ => None,
    }
}

/// The matrices of a sample and head in what is laid out as queries, or as keys.
struct Head<'a> {
    attention: &'a Attention,
    index: usize,
    sample: usize,
    head: usize,
}

impl Head<'_> {
    fn all(attention: &Attention) -> impl Iterator<Item = Head<'_>> {
        (0..attention.batch * attention.heads).map(|index| {
            let (sample, head) = (index / attention.heads, index % attention.heads);
            Head { attention, index, sample, head }
        })
    }

    /// Whether it is the first of the heads that share keys.
    fn is_first_of_group(&self) -> bool {
        self.head.is_multiple_of(self.attention.heads / self.attention.key_heads)
    }

    /// Where its queries begin, and how far apart rows are.
    fn queries(&self) -> (u64, usize) {
        let Attention { queries, heads, width, .. } = *self.attention;
        let row = heads * width;
        ((self.sample * queries * row + self.head * width) as u64, row)
    }

    /// The same for keys and values.
    fn keys(&self) -> (u64, usize) {
        let Attention { keys, heads, key_heads, width, .. } = *self.attention;
        let row = key_heads * width;
        let head = self.head / (heads / key_heads);
        ((self.sample * keys * row + head * width) as u64, row)
    }

    fn scale(&self) -> f32 {
        1.0 / (self.attention.width as f32).sqrt()
    }

    /// Scores of queries and keys, into a square.
    fn scores<A: Copy + PartialEq>(
        &self,
        q: Argument<A>,
        k: Argument<A>,
        square: Argument<A>,
    ) -> Matrices<A> {
        let Attention { queries, keys, width, causal, .. } = *self.attention;
        let a = (q, rows(self.queries()));
        let b = (k, rows(self.keys()));
        let masked = causal.then_some(f32::NEG_INFINITY);
        let product = Matrices::plain(a, b, square, [queries, keys, width]);
        Matrices { scale: self.scale(), masked, ..product }
    }
}

/// An operand of which rows are the outer dimension.
fn rows((start, row): (u64, usize)) -> Strides {
    Strides { start, ..Strides::plain(row, 1) }
}

/// An operand of which rows are the inner dimension.
fn columns((start, row): (u64, usize)) -> Strides {
    Strides { start, ..Strides::plain(1, row) }
}

/// Places of an output.
fn places((start, row): (u64, usize)) -> [u64; 5] {
    [start, 0, 0, row as u64, 1]
}

fn forward<A: Copy + PartialEq>(
    attention: &Attention,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    let Attention { queries, keys, width, .. } = *attention;
    let (q, k, v) = (op.read(0)?, op.read(1)?, op.read(2)?);
    let (y, square) = (op.write(0)?, op.workspace(0));
    for head in Head::all(attention) {
        head.scores(q, k, square).write(writer);
        let saved = match op.write(1)? {
            Argument::Address(address, more) => {
                Argument::Address(address, more + 4 * (head.index * queries) as u64)
            }
            other => other,
        };
        let arguments = operands![queries, keys, square, square, saved];
        writer.rows(("rows", "softmax"), queries, arguments);
        let weights = (square, Strides::plain(keys, 1));
        let sizes = [queries, width, keys];
        let product = Matrices::plain(weights, (v, columns(head.keys())), y, sizes);
        Matrices { places: places(head.queries()), ..product }.write(writer);
    }
    Some(())
}

fn backward<A: Copy + PartialEq>(
    attention: &Attention,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    let Attention { queries, keys, width, .. } = *attention;
    let (q, k, v) = (op.read(0)?, op.read(1)?, op.read(2)?);
    let (y, saved, dy) = (op.read(3)?, op.read(4)?, op.read(5)?);
    let (dq, dk, dv) = (op.write(0)?, op.write(1)?, op.write(2)?);
    let (weights, slopes) = (op.workspace(0), op.workspace((queries * keys) as u64));
    for head in Head::all(attention) {
        // Heads that share keys add to the same gradients.
        let accumulate = !head.is_first_of_group();
        head.scores(q, k, weights).write(writer);
        let first = head.index * queries;
        let arguments = operands![queries, keys, first, saved, weights];
        writer.each(("floats", "weights_of_scores"), queries * keys, arguments);

        let turned = |square| (square, Strides::plain(1, keys));
        let upright = |square| (square, Strides::plain(keys, 1));
        let sizes = [keys, width, queries];
        let of_keys = |a, b, y| Matrices {
            places: places(head.keys()),
            accumulate,
            ..Matrices::plain(a, b, y, sizes)
        };
        of_keys(turned(weights), (dy, columns(head.queries())), dv).write(writer);

        let (gradients, values) = ((dy, rows(head.queries())), (v, rows(head.keys())));
        Matrices::plain(gradients, values, slopes, [queries, keys, width]).write(writer);
        let (start, row) = head.queries();
        let arguments = operands![queries, keys, width, start, row, weights, y, dy, slopes];
        writer.rows(("floats", "slopes_of_scores"), queries, arguments);

        let product =
            Matrices::plain(upright(slopes), (k, columns(head.keys())), dq, [queries, width, keys]);
        let (scale, places) = (head.scale(), places(head.queries()));
        Matrices { scale, places, ..product }.write(writer);
        let product = of_keys(turned(slopes), (q, columns(head.queries())), dk);
        Matrices { scale, ..product }.write(writer);
    }
    Some(())
}
