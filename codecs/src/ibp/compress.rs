//! Compressing a row (section 4.2).

#[cfg(target_arch = "x86_64")]
mod bmi2;
mod portable;

use super::lanes::{LANE, chunk_bits, lane_order, load_lane, spread_of};
use super::plan::Plan;

/// Which chunks of a lane agree with Bitval, the first one lowest: `(c AND Mask) == Bitval`.
#[inline(always)]
fn participation<const N: usize>(lane: u64, mask: u64, bitval: u64) -> u8 {
    let differing = (lane & mask) ^ bitval;
    let bits = chunk_bits::<N>();
    let ones = u64::MAX >> (64 - bits);
    let agrees = |chunk: usize| differing >> ((N - 1 - chunk) as u32 * bits) & ones == 0;
    (0..N).fold(0, |all, chunk| all | u8::from(agrees(chunk)) << chunk)
}

/// Bits that a row leaves out: figure 3, `bitsSaved`.
pub(super) fn invariant_bits<const N: usize>(plan: &Plan<N>, row: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if bmi2::detected() {
        #[allow(unsafe_code, reason = "see below")]
        // SAFETY: the processor has the instructions.
        return unsafe { bmi2::invariant_bits(plan, row) };
    }
    count_invariant_bits(plan, row)
}

#[inline(always)]
fn count_invariant_bits<const N: usize>(plan: &Plan<N>, row: &[u8]) -> u64 {
    let lanes = row.chunks(LANE).zip(&plan.mask).zip(&plan.bitval);
    let bits = lanes.map(|((bytes, &mask), &bitval)| {
        let there = u8::MAX >> (8 - bytes.len() / (LANE / N));
        let participates = participation::<N>(load_lane::<N>(bytes, 0), mask, bitval) & there;
        u64::from((mask & spread_of::<N>(participates)).count_ones())
    });
    bits.sum()
}

pub(super) fn compress<const N: usize>(plan: &Plan<N>, row: &[u8], out: &mut Vec<u8>) {
    #[cfg(target_arch = "x86_64")]
    if bmi2::detected() {
        #[allow(unsafe_code, reason = "see below")]
        // SAFETY: the processor has the instructions.
        return unsafe { bmi2::compress(plan, row, out) };
    }
    portable::compress(plan, row, out);
}

/// Writes bits from the highest of each word down.
#[derive(Default)]
struct BitWriter<const N: usize> {
    /// Bits not yet written, at the low end.
    pending: u128,
    count: u32,
}

impl<const N: usize> BitWriter<N> {
    /// Appends the low `length` bits, at most 64.
    #[inline(always)]
    fn push(&mut self, bits: u64, length: u32, out: &mut Vec<u8>) {
        let bits = u128::from(bits) & ((1 << length) - 1);
        self.pending = self.pending << length | bits;
        self.count += length;
        if self.count >= 64 {
            self.count -= 64;
            let lane = (self.pending >> self.count) as u64;
            out.extend_from_slice(&lane_order::<N>(lane).to_le_bytes());
        }
    }

    /// Writes the rest, padded to a whole word.
    fn finish(self, out: &mut Vec<u8>) {
        let lane = ((self.pending << 64) >> self.count) as u64;
        let words = self.count.div_ceil(chunk_bits::<N>()) as usize;
        let bytes = lane_order::<N>(lane).to_le_bytes();
        out.extend_from_slice(&bytes[..words * (LANE / N)]);
    }
}
