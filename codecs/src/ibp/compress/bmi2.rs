//! Compressing with BMI2, which has an instruction for just this: the bits of a lane that stay are
//! taken together at once (`pext`). The same bytes as [`super::portable`], which a test holds. (See
//! [decompressing](super::super::decompress) for processors that carry it out slowly.)

use std::arch::x86_64::_pext_u64;

use super::super::lanes::{LANE, load_lane, spread_of};
use super::super::plan::Plan;
use super::{BitWriter, count_invariant_bits, participation};

/// Whether this processor has what the functions here are compiled for.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt")
}

/// As [`super::invariant_bits`], where this is [`detected`].
#[target_feature(enable = "bmi2,popcnt")]
pub(super) fn invariant_bits<const N: usize>(plan: &Plan<N>, row: &[u8]) -> u64 {
    count_invariant_bits(plan, row)
}

/// As [`super::compress`], where this is [`detected`].
#[target_feature(enable = "bmi2,popcnt")]
pub(super) fn compress<const N: usize>(plan: &Plan<N>, row: &[u8], out: &mut Vec<u8>) {
    let header = out.len();
    out.resize(header + plan.header_bytes(), 0);
    let mut payload = BitWriter::<N>::default();
    let lanes = row.chunks(LANE).zip(&plan.mask).zip(&plan.bitval);
    for (lane, ((bytes, &mask), &bitval)) in lanes.enumerate() {
        let data = load_lane::<N>(bytes, 0);
        let participates = participation::<N>(data, mask, bitval);
        let there = u8::MAX >> (8 - bytes.len() / (LANE / N));
        out[header + lane * N / 8] |= (participates & there) << (lane * N % 8);
        // Chunks beyond the row agree, and nothing of them stays.
        let stays = !(mask & spread_of::<N>(participates));
        payload.push(_pext_u64(data, stays), stays.count_ones(), out);
    }
    payload.finish(out);
}
