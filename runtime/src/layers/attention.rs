//! Fused attention.

use ndarray::{ArrayView2, ArrayViewMut2};

use super::ShapeError;
use super::matrix::{Output, multiply_strided, strided, strided_mut};
use super::product::{Layout, first_hidden, group, matrices};
use super::softmax::softmax_row;

/// Scaled dot-product attention (Vaswani et al. 2017, section 3.2) that keeps no scores: the
/// backward pass makes them again from the logarithm of each row's sum, which the forward pass
/// saves, as FlashAttention does (Dao et al. 2022, section 3.1). Unlike it, the scores of one head
/// are in the workspace at once.
///
/// Queries and the output are `(batch, queries, heads * width)`, keys and values
/// `(batch, keys, key_heads * width)`; each key head serves as many neighbouring heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    pub(crate) batch: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) width: usize,
    pub(crate) causal: bool,
}

impl Attention {
    /// Attention of `heads` heads of `width` each; where `causal`, no query sees a later key.
    pub fn new(
        batch: usize,
        [queries, keys]: [usize; 2],
        [heads, key_heads]: [usize; 2],
        width: usize,
        causal: bool,
    ) -> Result<Self, ShapeError> {
        group(heads, key_heads)?;
        Ok(Self { batch, queries, keys, heads, key_heads, width, causal })
    }

    /// Floats that the forward pass saves: one per query and head.
    pub fn saved_floats(&self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// Floats of workspace that the forward pass needs: the scores of one head.
    pub fn workspace_floats(&self) -> usize {
        self.queries.saturating_mul(self.keys)
    }

    /// Floats of workspace that the backward pass needs: scores and their gradient.
    pub fn backward_workspace_floats(&self) -> usize {
        self.workspace_floats().saturating_mul(2)
    }

    /// `softmax(q k^T / sqrt(width)) v` of each head.
    pub fn forward(
        &self,
        (q, k, v): (&[f32], &[f32], &[f32]),
        y: &mut [f32],
        saved: &mut [f32],
        workspace: &mut [f32],
    ) {
        for (head, saved) in
            matrices(self.batch, self.heads).zip(saved.chunks_exact_mut(self.queries))
        {
            self.scores(self.queries_of(q, head), self.keys_of(k, head), workspace);
            let rows = workspace.chunks_exact_mut(self.keys);
            for (row, saved) in rows.zip(saved) {
                *saved = softmax_row(row);
            }
            let (weights, v) = (self.square(workspace), self.keys_of(v, head));
            let mut y = self.queries_of_mut(y, head);
            multiply_strided(1.0, weights, v, &mut y, Output::Overwrite);
        }
    }

    /// The gradients of queries, keys and values, from them, the output, what the forward pass
    /// saved and the gradient of the output.
    pub fn backward(
        &self,
        (q, k, v): (&[f32], &[f32], &[f32]),
        (y, saved, dy): (&[f32], &[f32], &[f32]),
        (dq, dk, dv): (&mut [f32], &mut [f32], &mut [f32]),
        workspace: &mut [f32],
    ) {
        let (weights, slopes) = workspace.split_at_mut(self.workspace_floats());
        let scale = self.scale();
        dk.fill(0.0);
        dv.fill(0.0);
        for (head, saved) in matrices(self.batch, self.heads).zip(saved.chunks_exact(self.queries))
        {
            let (q, k, v) =
                (self.queries_of(q, head), self.keys_of(k, head), self.keys_of(v, head));
            let (y, dy) = (self.queries_of(y, head), self.queries_of(dy, head));
            self.scores(q, k, weights);
            for (row, saved) in weights.chunks_exact_mut(self.keys).zip(saved) {
                row.iter_mut().for_each(|score| *score = (*score - saved).exp());
            }
            let mut dv = self.keys_of_mut(dv, head);
            multiply_strided(1.0, self.square(weights).t(), dy, &mut dv, Output::Accumulate);
            multiply_strided(1.0, dy, v.t(), &mut self.square_mut(slopes), Output::Overwrite);
            let rows = slopes.chunks_exact_mut(self.keys).zip(weights.chunks_exact(self.keys));
            for (query, (slopes, weights)) in rows.enumerate() {
                let mean: f32 = y.row(query).iter().zip(dy.row(query)).map(|(y, dy)| y * dy).sum();
                let pairs = slopes.iter_mut().zip(weights);
                pairs.for_each(|(slope, weight)| *slope = weight * (*slope - mean));
            }
            let mut dq = self.queries_of_mut(dq, head);
            multiply_strided(scale, self.square(slopes), k, &mut dq, Output::Overwrite);
            let mut dk = self.keys_of_mut(dk, head);
            multiply_strided(scale, self.square(slopes).t(), q, &mut dk, Output::Accumulate);
        }
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    fn scores(&self, q: ArrayView2<f32>, k: ArrayView2<f32>, scores: &mut [f32]) {
        multiply_strided(self.scale(), q, k.t(), &mut self.square_mut(scores), Output::Overwrite);
        if self.causal {
            for (query, row) in scores.chunks_exact_mut(self.keys).enumerate() {
                let first = first_hidden(query, self.queries, self.keys).min(self.keys);
                row[first..].fill(f32::NEG_INFINITY);
            }
        }
    }

    fn square<'a>(&self, scores: &'a [f32]) -> ArrayView2<'a, f32> {
        strided(scores, 0, [self.queries, self.keys], [self.keys, 1])
    }

    fn square_mut<'a>(&self, scores: &'a mut [f32]) -> ArrayViewMut2<'a, f32> {
        strided_mut(scores, 0, [self.queries, self.keys], [self.keys, 1])
    }

    fn queries_of<'a>(&self, data: &'a [f32], at: (usize, usize)) -> ArrayView2<'a, f32> {
        let layout = Layout::side_by_side(self.heads, self.queries, self.width);
        layout.of(data, at, [self.queries, self.width])
    }

    fn queries_of_mut<'a>(
        &self,
        data: &'a mut [f32],
        at: (usize, usize),
    ) -> ArrayViewMut2<'a, f32> {
        let layout = Layout::side_by_side(self.heads, self.queries, self.width);
        layout.of_mut(data, at, [self.queries, self.width])
    }

    fn keys_of<'a>(&self, data: &'a [f32], at: (usize, usize)) -> ArrayView2<'a, f32> {
        let layout = Layout::side_by_side(self.key_heads, self.keys, self.width);
        layout.of(data, self.shared(at), [self.keys, self.width])
    }

    fn keys_of_mut<'a>(&self, data: &'a mut [f32], at: (usize, usize)) -> ArrayViewMut2<'a, f32> {
        let layout = Layout::side_by_side(self.key_heads, self.keys, self.width);
        layout.of_mut(data, self.shared(at), [self.keys, self.width])
    }

    /// The head of keys and values that a head reads.
    fn shared(&self, (sample, head): (usize, usize)) -> (usize, usize) {
        (sample, head / (self.heads / self.key_heads))
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::super::{Product, softmax};
    use super::*;
    use proptest::prelude::*;

    fn forward(attention: &Attention, q: &[f32], k: &[f32], v: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut y = vec![f32::NAN; q.len()];
        let mut saved = vec![f32::NAN; attention.saved_floats()];
        let mut workspace = vec![f32::NAN; attention.workspace_floats()];
        attention.forward((q, k, v), &mut y, &mut saved, &mut workspace);
        (y, saved)
    }

    fn attentions() -> impl Strategy<Value = Attention> {
        let sizes = [1usize..3, 1usize..5, 0usize..3, 1usize..3, 1usize..3, 1usize..4];
        (sizes, any::<bool>()).prop_map(|([batch, queries, more, shared, group, width], causal)| {
            let heads = [shared * group, shared];
            Attention::new(batch, [queries, queries + more], heads, width, causal).unwrap()
        })
    }

    fn operands(attention: &Attention, seed: u64) -> [Vec<f32>; 3] {
        let Attention { batch, queries, keys, heads, key_heads, width, .. } = *attention;
        let (few, many) = (batch * queries * heads * width, batch * keys * key_heads * width);
        [random(seed, few), random(seed ^ 1, many), random(seed ^ 2, many)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn gradients_are_the_derivatives(attention in attentions(), seed: u64) {
            let [q, k, v] = operands(&attention, seed);
            let dy = random(seed ^ 3, q.len());
            let (y, saved) = forward(&attention, &q, &k, &v);
            let [mut dq, mut dk, mut dv] = [&q, &k, &v].map(|of| vec![f32::NAN; of.len()]);
            let mut workspace = vec![f32::NAN; attention.backward_workspace_floats()];
            attention.backward(
                (&q, &k, &v), (&y, &saved, &dy), (&mut dq, &mut dk, &mut dv), &mut workspace,
            );
            let loss = |q: &[f32], k: &[f32], v: &[f32]| {
                inner(&forward(&attention, q, k, v).0, &dy)
            };
            check_gradient(&q, &dq, 0.02, |q| loss(q, &k, &v))?;
            check_gradient(&k, &dk, 0.02, |k| loss(&q, k, &v))?;
            check_gradient(&v, &dv, 0.5, |v| loss(&q, &k, v))?;
        }

        #[test]
        fn fused_is_scores_then_softmax_then_a_mixture(attention in attentions(), seed: u64) {
            let Attention { batch, queries, keys, heads, key_heads, width, causal } = attention;
            let [q, k, v] = operands(&attention, seed);
            let (lengths, heads) = ([queries, keys], [heads, key_heads]);
            let scores = Product::scores(batch, lengths, heads, width, causal).unwrap();
            let mix = Product::mix(batch, lengths, heads, width).unwrap();
            let mut weights = made(scores.elements()[2], |weights| scores.forward(&q, &k, weights));
            softmax(keys, None, &mut weights);
            let y = made(q.len(), |y| mix.forward(&weights, &v, y));
            for (fused, y) in forward(&attention, &q, &k, &v).0.iter().zip(y) {
                prop_assert!((fused - y).abs() < 1e-5, "{fused} {y}");
            }
        }
    }
}
