//! Tensors like those of a network, made from a seed.
//!
//! An activation is what a ReLU leaves of a Gaussian random field: Gaussian noise, smoothed along
//! the last two dimensions so that neighbours resemble each other (as pixels of a feature map do),
//! shifted so that the wanted share is below zero. The same recipe gives the same bytes on any
//! machine: the normal deviates are sums of uniform ones, and nothing but `+`, `*` and comparisons
//! of IEEE floats is used.

use half::{bf16, f16};
use schema::Dtype;

use crate::layout::width;
use crate::{Error, Layout};

/// What to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// f32, f16 or bf16 elements, and the shape.
    pub layout: Layout,
    /// Share of elements that are zero, 0 to 1. It is met to the element, but for values that
    /// happen to be equal or that a half rounds to zero. 0 leaves the ReLU out: a dense tensor of
    /// both signs.
    pub sparsity: f64,
    /// How much neighbours resemble each other: 0 not at all, towards 1 more and more. It is the
    /// weight that the element before has in a first-order recursive filter, per dimension.
    pub smoothness: f64,
    /// Where the noise begins.
    pub seed: u64,
}

impl Recipe {
    /// The tensor's bytes, little-endian.
    ///
    /// # Errors
    /// [`Error::BadRecipe`] with a share outside of 0 to 1, a smoothness outside of 0 to below 1, or
    /// an element type that is not a float of 16 or 32 bits.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        let bad = |reason| Err(Error::BadRecipe { reason });
        if !(0.0..=1.0).contains(&self.sparsity) {
            return bad("the sparsity is a share, from 0 to 1");
        }
        if !(0.0..1.0).contains(&self.smoothness) {
            return bad("the smoothness is at least 0 and below 1");
        }
        let dtype = self.layout.dtype();
        if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return bad("the elements are f32, f16 or bf16");
        }
        let mut values = self.field();
        rectify(&mut values, self.sparsity);
        let mut bytes = vec![0; self.layout.bytes()];
        for (place, value) in bytes.chunks_exact_mut(width(dtype)).zip(values) {
            match dtype {
                Dtype::F16 => place.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
                Dtype::Bf16 => place.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
                _ => place.copy_from_slice(&value.to_le_bytes()),
            }
        }
        Ok(bytes)
    }

    /// The smoothed noise, of about unit variance.
    fn field(&self) -> Vec<f32> {
        let mut state = self.seed;
        let mut values: Vec<f32> =
            (0..self.layout.elements()).map(|_| normal(&mut state)).collect();
        if values.is_empty() || self.smoothness == 0.0 {
            return values;
        }
        let weight = self.smoothness as f32;
        // Keeps the variance: what is new gets the share that what is old leaves.
        let fresh = (1.0 - weight * weight).sqrt();
        let shape = self.layout.folded(3);
        let row = shape[shape.len() - 1];
        let plane = if shape.len() > 1 { row * shape[shape.len() - 2] } else { row };
        for row in values.chunks_mut(row) {
            for index in 1..row.len() {
                row[index] = weight * row[index - 1] + fresh * row[index];
            }
        }
        for plane in values.chunks_mut(plane) {
            for index in row..plane.len() {
                plane[index] = weight * plane[index - row] + fresh * plane[index];
            }
        }
        values
    }
}

/// Shifts values so that this share is not above zero, and makes those zero.
fn rectify(values: &mut [f32], sparsity: f64) {
    let zeros = (values.len() as f64 * sparsity).round() as usize;
    if zeros == 0 {
        return;
    }
    let mut sorted = values.to_vec();
    let (_, threshold, _) = sorted.select_nth_unstable_by(zeros - 1, f32::total_cmp);
    for value in values {
        *value = (*value - *threshold).max(0.0);
    }
}

/// A normal deviate: twelve uniform ones, whose sum has variance 1 (Irwin-Hall).
fn normal(state: &mut u64) -> f32 {
    let sum: u32 = (0..3)
        .map(|_| {
            let bits = next(state);
            (0..4).map(|part| (bits >> (16 * part) & 0xffff) as u32).sum::<u32>()
        })
        .sum();
    // Small integers and powers of two: exact.
    (sum as f32 + 6.0) / 65536.0 - 6.0
}

/// The next bits of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
