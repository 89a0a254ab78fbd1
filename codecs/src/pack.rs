//! Bitmaps of non-zeros, gathering them and scattering them: what ZVC, RLE and CSR have in common.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod numbers;
mod scalar;

use crate::words::Word;

pub(crate) use numbers::{Marks, NUMBERS_BYTES, numbers};

/// Elements of a block of the codecs that use this.
pub(crate) const BLOCK: usize = 4096;
pub(crate) const LANES: usize = 32;

/// A bitmap per 32 elements of a block: bit i of bitmap j says that element 32 j + i has a bit set.
pub(crate) type Bitmaps = [u32; BLOCK / LANES];

/// Bitmaps of a block; those behind its last element are 0.
pub(crate) fn bitmaps<W: Word>(block: &[u8]) -> Bitmaps {
    let mut bitmaps = [0; BLOCK / LANES];
    #[cfg(target_arch = "x86_64")]
    if avx512::detected() {
        #[allow(unsafe_code, reason = "see below")]
        // SAFETY: the processor has the instructions.
        unsafe {
            avx512::bitmaps::<W>(block, &mut bitmaps);
        }
        return bitmaps;
    }
    scalar::bitmaps::<W>(block, &mut bitmaps);
    bitmaps
}

/// Writes a block's non-zeros to the front of `out` and returns how many bytes they are. `out` has
/// room for 64 bytes more, which may be written.
pub(crate) fn gather<W: Word>(block: &[u8], bitmaps: &Bitmaps, out: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if avx512::detected() {
        #[allow(unsafe_code, reason = "see below")]
        // SAFETY: the processor has the instructions.
        return unsafe { avx512::gather::<W>(block, bitmaps, out) };
    }
    scalar::gather::<W>(block, bitmaps, out)
}

/// The inverse of [`gather`]: writes all elements of a block, or says why the bitmaps and values
/// cannot be its.
pub(crate) fn scatter<W: Word>(
    bitmaps: &Bitmaps,
    values: &[u8],
    out: &mut [u8],
) -> Result<(), &'static str> {
    let elements = out.len() / W::WIDTH;
    let count: usize = bitmaps.iter().map(|bitmap| bitmap.count_ones() as usize).sum();
    if values.len() != count * W::WIDTH {
        return Err("there are not as many values as non-zeros");
    }
    if (elements..BLOCK).any(|element| bitmaps[element / LANES] >> (element % LANES) & 1 == 1) {
        return Err("there are non-zeros behind the last element");
    }
    #[cfg(target_arch = "x86_64")]
    if avx512::detected() {
        #[allow(unsafe_code, reason = "see below")]
        // SAFETY: the processor has the instructions.
        unsafe {
            avx512::scatter::<W>(bitmaps, values, out);
        }
        return Ok(());
    }
    scalar::scatter::<W>(bitmaps, values, out);
    Ok(())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #![allow(unsafe_code, reason = "vectors are called directly, to be compared")]

    use super::*;
    use crate::synthetic::next;

    /// Vectors and plain loops agree on a block of random words with about this many eighths zero.
    fn check<W: Word>(elements: usize, zeros: u64) {
        let mut state = elements as u64 ^ zeros << 32;
        let mut block = Vec::new();
        for _ in 0..elements {
            let bits = next(&mut state);
            let zero = bits >> 61 < zeros;
            block.extend(if zero { [0; 8] } else { bits.to_le_bytes() }[..W::WIDTH].iter());
        }
        let (mut plain, mut vectors) = ([0; BLOCK / LANES], [0; BLOCK / LANES]);
        scalar::bitmaps::<W>(&block, &mut plain);
        // SAFETY: the caller has asked the processor.
        unsafe { avx512::bitmaps::<W>(&block, &mut vectors) };
        assert_eq!(plain, vectors);

        let room = block.len() + 4 * LANES;
        let (mut left, mut right) = (vec![1; room], vec![2; room]);
        let len = scalar::gather::<W>(&block, &plain, &mut left);
        // SAFETY: as above.
        assert_eq!(len, unsafe { avx512::gather::<W>(&block, &plain, &mut right) });
        assert_eq!(left[..len], right[..len]);

        let mut back = vec![3; block.len()];
        scalar::scatter::<W>(&plain, &left[..len], &mut back);
        assert_eq!(back, block);
        back.fill(4);
        // SAFETY: as above.
        unsafe { avx512::scatter::<W>(&plain, &left[..len], &mut back) };
        assert_eq!(back, block);
    }

    #[test]
    fn vectors_do_what_plain_loops_do() {
        if !avx512::detected() {
            eprintln!("skipped: this processor has no AVX-512 VBMI2");
            return;
        }
        for elements in (0..200).chain([1000, 4000, 4095, 4096]) {
            for zeros in 0..=8 {
                check::<u16>(elements, zeros);
                check::<u32>(elements, zeros);
            }
        }
    }
}
