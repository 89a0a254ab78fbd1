//! Fused attention: as many samples and heads at once as there is room for their scores.

use schema::Bytes;

use super::arguments::{Argument, OpOperands, Writer, args};
use super::product::{Matrices, Strides};
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

/// Samples and heads whose scores are in memory at once: all heads of some samples, or some heads
/// of one, with all that share their keys, or one.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    attention: &'a Attention,
    sample: usize,
    samples: usize,
    head: usize,
    heads: usize,
}

impl<'a> Chunk<'a> {
    /// All of them, one after the other, so that `squares` matrices of each head fit; the first is
    /// the largest.
    fn all(attention: &'a Attention, squares: usize, room: Bytes) -> Vec<Self> {
        let Attention { batch, queries, keys, heads, key_heads, .. } = *attention;
        let of_head = (4 * squares as u64).saturating_mul((queries * keys) as u64).max(1);
        let fit = usize::try_from(room.0 / of_head).unwrap_or(usize::MAX);
        let group = heads / key_heads;
        let (samples, some) = match fit {
            fit if fit >= heads => ((fit / heads).min(batch), heads),
            fit if fit >= group => (1, fit / group * group),
            _ => (1, 1),
        };
        let first = (0..batch)
            .step_by(samples.max(1))
            .flat_map(|sample| (0..heads).step_by(some.max(1)).map(move |head| (sample, head)));
        let chunk = |(sample, head)| Chunk {
            attention,
            sample,
            samples: samples.min(batch - sample),
            head,
            heads: some.min(heads - head),
        };
        first.map(chunk).collect()
    }

    /// Floats of a matrix of each head.
    fn square(&self) -> usize {
        self.samples * self.heads * self.attention.queries * self.attention.keys
    }

    fn group(&self) -> usize {
        (self.attention.heads / self.attention.key_heads).min(self.heads)
    }

    fn rows(&self) -> usize {
        self.samples * self.heads * self.attention.queries
    }

    /// Where what was saved of them begins.
    fn saved<A>(&self, saved: Argument<A>) -> Argument<A> {
        let first = (self.sample * self.attention.heads + self.head) * self.attention.queries;
        saved.behind(4 * first as u64)
    }

    /// Matrices of features: where they begin, and how far apart samples, heads and rows are.
    fn places(&self, rows: usize, heads: usize, first: usize) -> [u64; 4] {
        let width = self.attention.width;
        let row = heads * width;
        [self.sample * rows * row + first * width, rows * row, width, row].map(|n| n as u64)
    }

    fn queries(&self) -> [u64; 4] {
        self.places(self.attention.queries, self.attention.heads, self.head)
    }

    fn keys(&self) -> [u64; 4] {
        let Attention { keys, heads, key_heads, .. } = *self.attention;
        self.places(keys, key_heads, self.head / (heads / key_heads))
    }

    fn scores(&self) -> [u64; 4] {
        let Attention { queries, keys, .. } = *self.attention;
        [0, self.heads * queries * keys, queries * keys, keys].map(|n| n as u64)
    }

    fn scale(&self) -> f32 {
        1.0 / (self.attention.width as f32).sqrt()
    }

    fn product<A: Copy + PartialEq>(
        &self,
        a: (Argument<A>, Strides),
        b: (Argument<A>, Strides),
        (y, [start, sample, head, row]): (Argument<A>, [u64; 4]),
        sizes: [usize; 3],
    ) -> Matrices<A> {
        let places = [start, sample, head, row, 1];
        let (samples, heads) = (self.samples, self.heads);
        Matrices { places, samples, heads, ..Matrices::plain(a, b, y, sizes) }
    }

    /// A product for each head of keys: those that share them are parts of the inner dimension.
    fn product_of_keys<A: Copy + PartialEq>(
        &self,
        scores: Argument<A>,
        of_queries: Argument<A>,
        gradient: Argument<A>,
    ) -> Matrices<A> {
        let Attention { queries, keys, heads, key_heads, width, .. } = *self.attention;
        let group = self.group();
        let shared = |of: Strides| match group {
            1 => of,
            _ => Strides { outer: of.head, head: of.head * group as u64, ..of },
        };
        let a = (scores, shared(columns(self.scores())));
        let b = (of_queries, shared(columns(self.queries())));
        let product = self.product(a, b, (gradient, self.keys()), [keys, width, group * queries]);
        // Where not all that share keys are here, those before have begun.
        let accumulate = !self.head.is_multiple_of(heads / key_heads);
        Matrices { heads: self.heads / group, split: queries, accumulate, ..product }
    }
}

/// An operand of which rows are the outer dimension.
fn rows([start, sample, head, row]: [u64; 4]) -> Strides {
    Strides { start, sample, head, divide: 1, side: row, inner: 1, outer: 0 }
}

/// An operand of which rows are the inner dimension.
fn columns([start, sample, head, row]: [u64; 4]) -> Strides {
    Strides { start, sample, head, divide: 1, side: 1, inner: row, outer: 0 }
}

/// The chunks, and memory for so many matrices of each head of one.
fn chunks<'a, A: Copy>(
    attention: &'a Attention,
    squares: usize,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> (Vec<Chunk<'a>>, Argument<A>) {
    let all = Chunk::all(attention, squares, writer.means.scores);
    let memory = match all.first() {
        Some(first) if first.samples * first.heads > 1 => writer.floats(squares * first.square()),
        _ => Argument::Address(op.workspace, 0),
    };
    (all, memory)
}

fn forward<A: Copy + PartialEq>(
    attention: &Attention,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    let Attention { queries, keys, width, causal, .. } = *attention;
    let (q, k, v) = (op.read(0)?, op.read(1)?, op.read(2)?);
    let (y, saved) = (op.write(0)?, op.write(1)?);
    let (chunks, scores) = chunks(attention, 1, op, writer);
    for chunk in chunks {
        write_scores(&chunk, q, k, scores, writer);
        let all = chunk.rows();
        let numbers = args![all, queries, keys, causal];
        writer.rows("floats/weights", all, numbers, args![scores, chunk.saved(saved)]);
        let values = Strides { divide: chunk.group() as u64, ..columns(chunk.keys()) };
        let (weights, sizes) = (rows(chunk.scores()), [queries, width, keys]);
        let product = chunk.product((scores, weights), (v, values), (y, chunk.queries()), sizes);
        product.write(writer);
    }
    Some(())
}

/// Scores of queries and keys; those of keys that are hidden are to be ignored.
fn write_scores<A: Copy + PartialEq>(
    chunk: &Chunk<'_>,
    q: Argument<A>,
    k: Argument<A>,
    scores: Argument<A>,
    writer: &mut Writer<A>,
) {
    let Attention { queries, keys, width, .. } = *chunk.attention;
    let shared = Strides { divide: chunk.group() as u64, ..rows(chunk.keys()) };
    let (q, k) = ((q, rows(chunk.queries())), (k, shared));
    let product = chunk.product(q, k, (scores, chunk.scores()), [queries, keys, width]);
    Matrices { scale: chunk.scale(), ..product }.write(writer);
}

fn backward<A: Copy + PartialEq>(
    attention: &Attention,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    let Attention { queries, keys, width, causal, .. } = *attention;
    let (q, k, v) = (op.read(0)?, op.read(1)?, op.read(2)?);
    let (y, saved, dy) = (op.read(3)?, op.read(4)?, op.read(5)?);
    let (dq, dk, dv) = (op.write(0)?, op.write(1)?, op.write(2)?);
    let (chunks, weights) = chunks(attention, 2, op, writer);
    for chunk in chunks {
        let slopes = weights.behind(4 * chunk.square() as u64);
        write_scores(&chunk, q, k, weights, writer);
        let all = chunk.rows();
        let numbers = args![all, queries, keys, causal];
        writer.rows("floats/weights_again", all, numbers, args![chunk.saved(saved), weights]);
        chunk.product_of_keys(weights, dy, dv).write(writer);

        let shared = |of| Strides { divide: chunk.group() as u64, ..of };
        let (of_queries, of_keys) = (chunk.queries(), chunk.keys());
        let values = (v, shared(rows(of_keys)));
        let gradient = (slopes, chunk.scores());
        let sizes = [queries, keys, width];
        chunk.product((dy, rows(of_queries)), values, gradient, sizes).write(writer);
        let [start, _, _, features] = of_queries;
        let numbers = args![all, queries, keys, chunk.heads, width, features, start];
        writer.rows("floats/slopes_of_scores", all, numbers, args![weights, y, dy, slopes]);

        let (a, b) = ((slopes, rows(chunk.scores())), (k, shared(columns(of_keys))));
        let product = chunk.product(a, b, (dq, of_queries), [queries, width, keys]);
        Matrices { scale: chunk.scale(), ..product }.write(writer);
        let product = chunk.product_of_keys(slopes, q, dk);
        Matrices { scale: chunk.scale(), ..product }.write(writer);
    }
    Some(())
}
