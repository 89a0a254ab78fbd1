//! Decompressing with BMI2, which has an instruction for just this: the bits of a lane go between
//! its invariant bits at once (`pdep`), whatever Mask is and whichever chunks participate. The same
//! rows as
//! [`super::portable`], which a test holds, in less time. (AMD processors before Zen 3 have the
//! instruction but carry it out slowly; the rows are the same there, too.)

use std::arch::x86_64::_pdep_u64;

use super::super::IbpError;
use super::super::lanes::{lane_order, spread_of};
use super::super::plan::{BLOCK, Plan};
use super::{Window, decompress_with, store};

/// Whether this processor has what [`decompress`] is compiled for.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// As [`super::decompress`], where this is [`detected`].
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(super) fn decompress<const N: usize>(
    plan: &Plan<N>,
    compressed: &[u8],
    out: &mut [u8],
) -> Result<usize, IbpError> {
    let mut window = Window::new();
    decompress_with(plan, compressed, out, |block, out| {
        let offset = window.fill(plan, block);
        let end = (block.first + BLOCK).min(plan.mask.len());
        let of_block = block.first..end;
        let metadata = plan.mask[of_block.clone()].iter().zip(&plan.bitval[of_block]);
        if block.is_whole() {
            let starts = &plan.starts[block.first..=end];
            let lanes = metadata.zip(&starts[1..]).map(|((mask, bitval), end)| {
                let bits = window.before(offset + (end - starts[0]));
                lane_order::<N>(_pdep_u64(bits, !mask) | bitval)
            });
            store(out, lanes);
            return starts[end - block.first] - starts[0];
        }
        let mut position = offset;
        let lanes = metadata.enumerate().map(|(lane, (mask, bitval))| {
            let participating = spread_of::<N>(block.participates::<N>(lane));
            let stayed = !(mask & participating);
            position += u64::from(stayed.count_ones());
            let bits = _pdep_u64(window.before(position), stayed);
            lane_order::<N>(bits | bitval & participating)
        });
        store(out, lanes);
        position - offset
    })
}
