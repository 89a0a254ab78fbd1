//! Compressing a row (section 4.2).

use super::lanes::{LANE, chunk_bits, lane_order, length, load_lane, spread_of};
use super::plan::{BLOCK, Plan};

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
    let lanes = row.chunks(LANE).zip(&plan.mask).zip(plan.bitval.iter().zip(&plan.kept));
    let bits = lanes.map(|((bytes, &mask), (&bitval, kept))| {
        let participation = participation::<N>(load_lane::<N>(bytes, 0), mask, bitval);
        let chunks = (0..N).filter(|&chunk| chunk * (LANE / N) < bytes.len());
        let saved = chunks.map(|chunk| {
            chunk_bits::<N>() - length::<N>(participation >> chunk & 1 == 1, kept[chunk])
        });
        u64::from(saved.sum::<u32>())
    });
    bits.sum()
}

/// Appends the compressed row.
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

/// Writes bits from the highest of each word down.
#[derive(Default)]
struct BitWriter<const N: usize> {
    /// Bits not yet written, at the low end.
    pending: u128,
    count: u32,
}

impl<const N: usize> BitWriter<N> {
    /// Appends the low `length` bits, at most 64.
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
