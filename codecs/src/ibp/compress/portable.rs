//! Compressing in steps that move bits of many lanes by one distance (see [`plan`](super::super::plan)).

use super::super::lanes::{LANE, chunk_bits, length, load_lane, spread_of};
use super::super::plan::{BLOCK, Plan};
use super::{BitWriter, participation};

pub(super) fn compress<const N: usize>(plan: &Plan<N>, row: &[u8], out: &mut Vec<u8>) {
    let header = out.len();
    out.resize(header + plan.header_bytes(), 0);
    let mut payload = BitWriter::<N>::default();
    for (block, row) in row.chunks(BLOCK * LANE).enumerate() {
        let first = block * BLOCK;
        let lanes = row.len().div_ceil(LANE);
        let mut bits = [0u64; BLOCK];
        let mut participating = [0u8; BLOCK];
        let plan_of = plan.mask[first..].iter().zip(&plan.bitval[first..]);
        for (lane, (bytes, (&mask, &bitval))) in row.chunks(LANE).zip(plan_of).enumerate() {
            let data = load_lane::<N>(bytes, 0);
            let participates = participation::<N>(data, mask, bitval);
            participating[lane] = participates;
            bits[lane] = data & !(mask & spread_of::<N>(participates));
            for chunk in (0..bytes.len() / (LANE / N)).filter(|c| participates >> c & 1 == 1) {
                let index = (first + lane) * N + chunk;
                out[header + index / 8] |= 1 << (index % 8);
            }
        }
        for step in &plan.chunk_steps {
            let lanes = bits[..lanes].iter_mut().zip(&participating).zip(&step.apart[first..]);
            for ((bits, &participates), apart) in lanes {
                let moving = *bits & apart & spread_of::<N>(participates);
                *bits = *bits ^ moving | moving >> step.shift;
            }
        }
        for lane in 0..lanes {
            for chunk in 0..N {
                let participates = participating[lane] >> chunk & 1 == 1;
                let length = length::<N>(participates, plan.kept[first + lane][chunk]);
                payload.push(
                    bits[lane] >> ((N - 1 - chunk) as u32 * chunk_bits::<N>()),
                    length,
                    out,
                );
            }
        }
    }
    payload.finish(out);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use proptest::prelude::*;

    use super::super::bmi2;
    use super::*;
    use crate::ibp::Metadata;

    fn same<const N: usize>(mask: &[u8], bitval: &[u8], row: &[u8]) {
        let length = mask.len() / (8 / N) * (8 / N);
        let metadata = Metadata::new(mask[..length].to_vec(), bitval[..length].to_vec()).unwrap();
        let plan = Plan::<N>::new(&metadata).unwrap();
        let (mut left, mut right) = (vec![1], vec![1]);
        compress(&plan, &row[..length], &mut left);
        #[allow(unsafe_code, reason = "to be compared")]
        // SAFETY: only called where it is detected.
        unsafe {
            bmi2::compress(&plan, &row[..length], &mut right);
            let counted = super::super::count_invariant_bits(&plan, &row[..length]);
            assert_eq!(bmi2::invariant_bits(&plan, &row[..length]), counted);
            assert_eq!(left.len() - 1, plan.bytes_of(8 * length as u64 - counted));
        }
        assert_eq!(left, right);
    }

    proptest! {
        #[test]
        fn both_ways_give_the_same_bytes(
            columns in prop::collection::vec(
                (prop_oneof![Just(0u8), Just(0xff), any::<u8>()], any::<u8>(), any::<u8>(), 0..9u8),
                8..1300,
            ),
        ) {
            if bmi2::detected() {
                let mask: Vec<u8> = columns.iter().map(|(mask, ..)| *mask).collect();
                let bitval: Vec<u8> = columns.iter().map(|(mask, value, ..)| mask & value).collect();
                // Most bytes agree.
                let row = columns.iter().map(|(mask, value, other, rare)| match rare {
                    0 => *other,
                    _ => mask & value | !mask & other,
                });
                let row: Vec<u8> = row.collect();
                same::<1>(&mask, &bitval, &row);
                same::<2>(&mask, &bitval, &row);
                same::<4>(&mask, &bitval, &row);
                same::<8>(&mask, &bitval, &row);
            }
        }
    }
}
