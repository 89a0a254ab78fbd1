//! Prequantisation: the only step that loses anything, and where the bound is made to hold.

use crate::element::Element;

/// Quantised values stay within this, so that `f32` holds them exactly and rounding by
/// [`SHIFTER`] is exact.
pub(super) const LIMIT: f32 = ((1 << 22) - 1) as f32;

/// Added to a number of at most [`LIMIT`], it leaves no bits for a fraction: the sum is rounded to
/// the nearest integer, ties to even, and the integer stands in the sum's low bits. Unlike a
/// rounding function this is one instruction on every processor, and the same on a GPU.
pub(super) const SHIFTER: f32 = (3 << 22) as f32;

/// Bounds that are used as they are: twice the bound and its inverse are normal numbers.
const USABLE: std::ops::RangeInclusive<f32> = 1e-37..=1e37;

/// `q = round((x - origin) / 2eb)` and its inverse, in `f32` operations that a GPU can repeat bit for bit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantizer {
    origin: f32,
    bound: f32,
    step: f32,
    inverse_step: f32,
}

impl Quantizer {
    /// For an absolute error bound above 0. None where it is so small that nothing but the exact
    /// value will do. The bound that is used is the largest `f32` not above the given one, and
    /// 1e37 where that is larger.
    pub(super) fn new(bound: f64) -> Option<Self> {
        let nearest = bound as f32;
        let below = if f64::from(nearest) > bound { nearest.next_down() } else { nearest };
        let bound = below.min(*USABLE.end());
        let step = 2.0 * bound;
        let inverse_step = 1.0 / step;
        USABLE.contains(&bound).then_some(Self { origin: 0.0, bound, step, inverse_step })
    }

    /// The same with steps that are counted from a number. Differences are rounded there, so that they must not exceed
    /// the next number below the bound.
    pub(super) fn from(self, origin: f32) -> Self {
        Self { origin, bound: self.bound.next_down(), ..self }
    }

    /// The bound that is used, the step and its inverse.
    pub(super) fn steps(self) -> [f32; 3] {
        [self.bound, self.step, self.inverse_step]
    }

    /// The quantised value, or `None` where its reconstruction would break the bound: infinities,
    /// NaN, numbers of more than 2^22 steps, and what rounding in `f32` takes over the edge.
    ///
    /// Where the origin is 0 the comparison is exact. Where `q` is 0 the difference is `x` itself. Elsewhere `x` is at
    /// least the bound, up to rounding, so that it and its reconstruction are within a factor of
    /// about two of each other, and the difference of two such numbers has no more bits than they
    /// have.
    fn quantize_one<E: Element>(&self, x: f32) -> Option<i32> {
        let steps = (x - self.origin) * self.inverse_step;
        let shifted = steps + SHIFTER;
        let q = shifted.to_bits().wrapping_sub(SHIFTER.to_bits()) as i32;
        let reconstruction = E::round(self.origin + (shifted - SHIFTER) * self.step);
        ((steps.abs() <= LIMIT) & ((x - reconstruction).abs() <= self.bound)).then_some(q)
    }

    /// Quantises a block of elements. Those that cannot be kept within the bound become 0 here and
    /// their indices go to `exceptions`.
    pub(super) fn quantize<E: Element>(
        &self,
        input: &[u8],
        quantized: &mut [i32],
        exceptions: &mut Vec<u16>,
    ) {
        const LANES: usize = 64;
        exceptions.clear();
        for (chunk, (bytes, out)) in
            input.chunks(LANES * E::WIDTH).zip(quantized.chunks_mut(LANES)).enumerate()
        {
            let mut all_kept = true;
            for (x, q) in E::read(bytes).zip(out.iter_mut()) {
                let kept = self.quantize_one::<E>(x);
                all_kept &= kept.is_some();
                *q = kept.unwrap_or(0);
            }
            if !all_kept {
                let broken = E::read(bytes).map(|x| self.quantize_one::<E>(x).is_none());
                exceptions.extend(
                    broken.enumerate().filter(|b| b.1).map(|(i, _)| (chunk * LANES + i) as u16),
                );
            }
        }
    }

    /// The inverse: `q` times twice the bound, from the origin on.
    pub(super) fn reconstruct<E: Element>(&self, quantized: &[i32], out: &mut [u8]) {
        E::write(out, quantized.iter().map(|q| self.origin + *q as f32 * self.step));
    }
}
