//! The layers of transformers: look-up, positions, attention and its parts.

use schema::{Dtype, TensorId};

use super::initial::Initial;
use super::{Builder, Step, Value};
use crate::layers::{Attention, Embedding, Product, Rotary, ShapeError};

/// A bound for the uniform weights of a table, whose deviation is then 0.02, as transformers have
/// it.
const TABLE: f32 = 0.034_64;

impl Builder {
    /// The rows of a table for tokens, which are indices; and the table.
    pub fn embedding(
        &mut self,
        name: &str,
        tokens: &Value,
        rows: usize,
        width: usize,
    ) -> (Value, TensorId) {
        let table = self.parameter(name, "weight", rows * width, Initial::Uniform(TABLE));
        let shape = [&tokens.shape[..], &[width]].concat();
        let step = Step::Embedding(Embedding { rows, width });
        (self.layer(name, step, &[tokens.tensor, table], &shape), table)
    }

    /// Rotary positions of `(batch, tokens, features)` in heads of `width`.
    pub fn rotary(&mut self, name: &str, x: &Value, width: usize) -> Result<Value, ShapeError> {
        let &[_, tokens, features] = &x.shape[..] else {
            return Err(ShapeError::Rank { rank: x.shape.len() });
        };
        let rotary = Rotary::new(tokens, features, width)?;
        Ok(self.same(name, x, Step::Rotary(rotary, x.elements())))
    }

    /// Products of two activations, each `(..., rows, inner)` and `(..., inner, columns)`.
    pub fn product(&mut self, name: &str, a: &Value, b: &Value) -> Result<Value, ShapeError> {
        let mismatch = || ShapeError::Mismatch { left: a.shape.clone(), right: b.shape.clone() };
        let [batch @ .., rows, inner] = &a.shape[..] else { return Err(mismatch()) };
        let [other @ .., depth, columns] = &b.shape[..] else { return Err(mismatch()) };
        if batch != other || inner != depth {
            return Err(mismatch());
        }
        let product = Product::dense(batch.iter().product(), *rows, *inner, *columns);
        let shape = [batch, &[*rows, *columns]].concat();
        Ok(self.multiply_matrices(name, [a, b], product, &shape))
    }

    /// Attention's scores of queries and keys, `(batch, length, features)` each, with so many
    /// heads of queries; see [`Product::scores`].
    pub fn scores(
        &mut self,
        name: &str,
        [q, k]: [&Value; 2],
        heads: usize,
        causal: bool,
    ) -> Result<Value, ShapeError> {
        let sizes = Heads::of(q, k, heads)?;
        let product = Product::scores(
            sizes.batch,
            sizes.lengths,
            [heads, sizes.key_heads],
            sizes.width,
            causal,
        )?;
        let shape = [sizes.batch, heads, sizes.lengths[0], sizes.lengths[1]];
        Ok(self.multiply_matrices(name, [q, k], product, &shape))
    }

    /// Attention's output from weights `(batch, heads, queries, keys)` and values
    /// `(batch, keys, features)`, in heads of `width`; see [`Product::mix`].
    pub fn mix(
        &mut self,
        name: &str,
        [weights, v]: [&Value; 2],
        width: usize,
    ) -> Result<Value, ShapeError> {
        let mismatch =
            || ShapeError::Mismatch { left: weights.shape.clone(), right: v.shape.clone() };
        let (&[batch, heads, queries, keys], &[samples, length, features]) =
            (&weights.shape[..], &v.shape[..])
        else {
            return Err(mismatch());
        };
        if batch != samples || keys != length || width == 0 || !features.is_multiple_of(width) {
            return Err(mismatch());
        }
        let product = Product::mix(batch, [queries, keys], [heads, features / width], width)?;
        let shape = [batch, queries, heads * width];
        Ok(self.multiply_matrices(name, [weights, v], product, &shape))
    }

    fn multiply_matrices(
        &mut self,
        name: &str,
        [a, b]: [&Value; 2],
        product: Product,
        shape: &[usize],
    ) -> Value {
        let reads = self.distinct(name, &[a, b]);
        self.layer(name, Step::Product(product), &reads, shape)
    }

    /// Fused attention of queries, keys and values, `(batch, length, features)` each, with so
    /// many heads of queries; keys and values may have fewer. Where `causal`, no query sees a later
    /// key.
    pub fn attention(
        &mut self,
        name: &str,
        [q, k, v]: [&Value; 3],
        heads: usize,
        causal: bool,
    ) -> Result<Value, ShapeError> {
        let sizes = Heads::of(q, k, heads)?;
        if k.shape != v.shape {
            return Err(ShapeError::Mismatch { left: k.shape.clone(), right: v.shape.clone() });
        }
        let heads = [heads, sizes.key_heads];
        let attention = Attention::new(sizes.batch, sizes.lengths, heads, sizes.width, causal)?;
        let reads = self.distinct(name, &[q, k, v]);
        let y = self.layer(name, Step::Attention(attention), &reads, &q.shape);
        self.also_writes("saved", attention.saved_floats(), Dtype::F32);
        Ok(y)
    }
}

/// What attention finds out from the shapes of its queries and keys.
struct Heads {
    batch: usize,
    lengths: [usize; 2],
    key_heads: usize,
    width: usize,
}

impl Heads {
    fn of(q: &Value, k: &Value, heads: usize) -> Result<Self, ShapeError> {
        let mismatch = || ShapeError::Mismatch { left: q.shape.clone(), right: k.shape.clone() };
        let (&[batch, queries, features], &[samples, keys, key_features]) =
            (&q.shape[..], &k.shape[..])
        else {
            return Err(mismatch());
        };
        if heads == 0 || !features.is_multiple_of(heads) {
            return Err(ShapeError::Groups { channels: features, groups: heads });
        }
        let width = features / heads;
        if batch != samples || !key_features.is_multiple_of(width) {
            return Err(mismatch());
        }
        let key_heads = key_features / width;
        Ok(Self { batch, lengths: [queries, keys], key_heads, width })
    }
}
