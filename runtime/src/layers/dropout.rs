//! Dropout.

use super::{cell_from_index, index_from_cell};

/// Dropout (Srivastava et al. 2014): some elements become zero, the others grow so that the mean
/// stays. Which ones follows from a seed, the layer and the element's position alone, so that
/// running it again drops the same, and no mask is kept: the backward pass is the same function of
/// the gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropout {
    /// Elements in a hundred that are dropped, on average.
    pub percent: u8,
    /// Tells the layers of a network apart.
    pub layer: u32,
}

/// Cells of the tensor that holds a seed.
pub use networks::SEED_CELLS;

/// Bits of a seed in a cell: few enough for the cell to be a finite float.
pub(crate) const SEED_BITS: u32 = 22;

/// A seed as the cells of a tensor.
pub fn cells_from_seed(seed: u64) -> [f32; SEED_CELLS] {
    let part = |index: u32| (seed >> (index * SEED_BITS)) as u32 & ((1 << SEED_BITS) - 1);
    [0, 1, 2].map(|index| cell_from_index(part(index)))
}

impl Dropout {
    /// The elements that stay, scaled. Where `x` is `None`, in place. `seed` is stored as by
    /// [`cells_from_seed`].
    pub fn apply(&self, x: Option<&[f32]>, seed: &[f32], y: &mut [f32]) {
        if let Some(x) = x {
            y.copy_from_slice(x);
        }
        let (scale, bound) = self.scale_and_bound();
        let key = self.key(seed);
        for (position, y) in y.iter_mut().enumerate() {
            let draw = mix(key.wrapping_add((position as u64 + 1).wrapping_mul(GOLDEN)));
            *y = if draw >> 32 < bound { *y * scale } else { 0.0 };
        }
    }

    /// What is kept is multiplied with, and what of 2^32 draws is kept.
    pub(crate) fn scale_and_bound(&self) -> (f32, u64) {
        let kept = 100 - u64::from(self.percent.min(100));
        let scale = if kept == 0 { 0.0 } else { 100.0 / kept as f32 };
        (scale, (kept << 32) / 100)
    }

    fn key(&self, seed: &[f32]) -> u64 {
        let parts = seed
            .iter()
            .zip(0..)
            .map(|(cell, index)| u64::from(index_from_cell(*cell)).wrapping_shl(index * SEED_BITS));
        mix(parts.fold(0, |key, part| key ^ part) ^ mix(u64::from(self.layer) + 1))
    }
}

/// How far SplitMix64's counter goes for each number.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64 (Steele, Lea and Flood 2014), here of a counter.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    fn apply(dropout: Dropout, seed: u64, x: &[f32]) -> Vec<f32> {
        made(x.len(), |y| dropout.apply(Some(x), &cells_from_seed(seed), y))
    }

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(
            seed: u64, percent in 0u8..=100, layer: u32, count in 1usize..50,
        ) {
            let dropout = Dropout { percent, layer };
            let (x, dy) = (random(seed, count), random(seed ^ 1, count));
            let dx = apply(dropout, seed, &dy);
            check_gradient(&x, &dx, 0.5, |x| inner(&apply(dropout, seed, x), &dy))?;
            let mut in_place = dy;
            dropout.apply(None, &cells_from_seed(seed), &mut in_place);
            prop_assert_eq!(in_place, dx);
        }

        #[test]
        fn the_share_that_was_asked_for_is_dropped(seed: u64, percent in 0u8..=100, layer: u32) {
            let dropout = Dropout { percent, layer };
            let y = apply(dropout, seed, &[1.0; 4000]);
            let dropped = y.iter().filter(|y| **y == 0.0).count() as f64 / 4000.0;
            // Over five standard deviations.
            prop_assert!((dropped - f64::from(percent) / 100.0).abs() < 0.045, "{dropped}");
            prop_assert!(cells_from_seed(seed).iter().all(|cell| cell.is_finite()));
        }
    }

    #[test]
    fn seeds_and_layers_drop_differently() {
        let (one, other) = (Dropout { percent: 50, layer: 0 }, Dropout { percent: 50, layer: 1 });
        let x = [1.0; 100];
        assert_ne!(apply(one, 1, &x), apply(other, 1, &x));
        assert_ne!(apply(one, 1, &x), apply(one, 2, &x));
        assert_ne!(apply(one, 1, &x), apply(one, 1 << 63, &x));
    }
}
