//! Decompressing in steps that move bits of many lanes by one distance (see [`plan`](super::super::plan)).

use super::super::IbpError;
use super::super::lanes::{LANE, chunk_bits, lane_order, length, spread_of};
use super::super::plan::{BLOCK, Plan};
use super::{Block, Window, decompress_with, store};

/// Bits by lane, in a block.
type Lanes = [u64; BLOCK];

pub(super) fn decompress<const N: usize>(
    plan: &Plan<N>,
    compressed: &[u8],
    out: &mut [u8],
) -> Result<usize, IbpError> {
    let mut window = Window::new();
    decompress_with(plan, compressed, out, |block, out| {
        let first = block.first;
        let offset = window.fill(plan, block);
        let mut bits = [0; BLOCK];
        let taken = if block.is_whole() {
            let taken = whole_lanes(&plan.starts[first..], offset, &window, &mut bits);
            expand::<N, true>(plan, first, &[0; BLOCK], &mut bits);
            taken
        } else {
            let taken = chunks(&plan.kept[first..], offset, block, &window, &mut bits);
            let participating =
                std::array::from_fn(|lane| spread_of::<N>(block.participates::<N>(lane)));
            expand::<N, false>(plan, first, &participating, &mut bits);
            taken
        };
        let lanes = out.len().div_ceil(LANE);
        store(out, bits[..lanes].iter().copied());
        taken
    })
}

/// Takes the bits of lanes of which every chunk is compressed, those of each lane together at its
/// low end with bits of lanes before above them, and returns how many they were.
fn whole_lanes(starts: &[u64], offset: u64, window: &Window, bits: &mut Lanes) -> u64 {
    let mut taken = 0;
    for (bits, end) in bits.iter_mut().zip(&starts[1..]) {
        taken = end - starts[0];
        *bits = window.before(offset + taken);
    }
    taken
}

/// Takes the bits of lanes, those of each chunk at its low end, and returns how many they were.
fn chunks<const N: usize>(
    kept: &[[u8; N]],
    offset: u64,
    block: &Block<'_>,
    window: &Window,
    bits: &mut Lanes,
) -> u64 {
    let mut position = offset;
    for (lane, (bits, kept)) in bits.iter_mut().zip(kept).enumerate() {
        let participates = block.participates::<N>(lane);
        let mut ahead = window.after(position);
        for (chunk, &kept) in kept.iter().enumerate() {
            let length = length::<N>(participates >> chunk & 1 == 1, kept);
            *bits = bits.wrapping_shl(chunk_bits::<N>()) | high_bits::<N>(ahead, length);
            ahead = ahead.wrapping_shl(length);
            position += u64::from(length);
        }
    }
    position - offset
}

/// Moves the bits that stayed to where they belong, puts the invariant ones between them, and turns
/// lanes into what they are in memory. `WHOLE` says that every chunk participates.
fn expand<const N: usize, const WHOLE: bool>(
    plan: &Plan<N>,
    first: usize,
    participating: &Lanes,
    bits: &mut Lanes,
) {
    let of = |lanes: u64, participating: u64| if WHOLE { lanes } else { lanes & participating };
    let steps = if WHOLE { &plan.lane_steps } else { &plan.chunk_steps };
    for step in steps.iter().rev() {
        let lanes = bits.iter_mut().zip(participating).zip(&step.apart[first..]);
        for ((bits, &participating), &apart) in lanes {
            *bits ^= (*bits ^ *bits << step.shift) & of(apart, participating);
        }
    }
    let metadata = plan.mask[first..].iter().zip(&plan.bitval[first..]);
    for ((bits, &participating), (&mask, &bitval)) in
        bits.iter_mut().zip(participating).zip(metadata)
    {
        let lane = *bits & !of(mask, participating) | of(bitval, participating);
        *bits = lane_order::<N>(lane);
    }
}

/// The highest bits, as many as a chunk may have, as a number.
#[inline(always)]
fn high_bits<const N: usize>(bits: u64, length: u32) -> u64 {
    match (N, length) {
        (1, 0) => 0,
        (1, _) => bits >> (64 - length),
        // Two shifts: a shift by all 64 is none.
        _ => bits >> 1 >> (63 - length),
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use proptest::prelude::*;

    use super::super::{avx512, bmi2};
    use super::*;
    use crate::ibp::Metadata;

    fn same<const N: usize>(mask: &[u8], bitval: &[u8], compressed: &[u8]) {
        let length = mask.len() / (8 / N) * (8 / N);
        let metadata = Metadata::new(mask[..length].to_vec(), bitval[..length].to_vec()).unwrap();
        let plan = Plan::<N>::new(&metadata).unwrap();
        let mut row = vec![1; length];
        let portable = decompress(&plan, compressed, &mut row);
        let check = |other, of_other: Vec<u8>| {
            assert_eq!(portable, other);
            assert!(portable.is_err() || row == of_other, "{N} chunks a lane");
        };
        #[allow(unsafe_code, reason = "to be compared")]
        if bmi2::detected() {
            let mut row = vec![2; length];
            // SAFETY: it is detected.
            let other = unsafe { bmi2::decompress(&plan, compressed, &mut row) };
            check(other, row);
        }
        #[allow(unsafe_code, reason = "to be compared")]
        if avx512::detected() {
            let mut row = vec![3; length];
            // SAFETY: it is detected.
            let other = unsafe { avx512::decompress(&plan, compressed, &mut row) };
            check(other, row);
        }
    }

    proptest! {
        #[test]
        fn all_ways_give_the_same_row(
            mask in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 8..1300),
            value in any::<u8>(),
            participation in prop_oneof![Just(0xff), any::<u8>()],
            mut compressed in prop::collection::vec(any::<u8>(), 0..1700),
        ) {
            let bitval: Vec<u8> = mask.iter().map(|mask| mask & value).collect();
            let header = compressed.len().min(mask.len() / 8);
            compressed[..header].fill(participation);
            same::<1>(&mask, &bitval, &compressed);
            same::<2>(&mask, &bitval, &compressed);
            same::<4>(&mask, &bitval, &compressed);
            same::<8>(&mask, &bitval, &compressed);
        }
    }
}
