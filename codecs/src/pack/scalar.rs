//! The loops in plain Rust, without branches that depend on the data: half-zero data would mislead
//! the processor at every other element.

use super::{Bitmaps, LANES};
use crate::words::Word;

pub(super) fn bitmaps<W: Word>(block: &[u8], bitmaps: &mut Bitmaps) {
    for (lanes, bitmap) in block.chunks(LANES * W::WIDTH).zip(bitmaps) {
        let words = lanes.chunks_exact(W::WIDTH).map(|bytes| W::read(bytes) != W::default());
        *bitmap = words.enumerate().fold(0, |bits, (lane, set)| bits | u32::from(set) << lane);
    }
}

pub(super) fn gather<W: Word>(block: &[u8], bitmaps: &Bitmaps, out: &mut [u8]) -> usize {
    let mut len = 0;
    for (lanes, bitmap) in block.chunks(LANES * W::WIDTH).zip(bitmaps) {
        let mut packed = [W::default(); LANES];
        let mut next = 0;
        for (lane, bytes) in lanes.chunks_exact(W::WIDTH).enumerate() {
            // A zero is overwritten by the element behind it.
            packed[next % LANES] = W::read(bytes);
            next += (bitmap >> lane & 1) as usize;
        }
        // All 32, of which the next ones overwrite what is too much: a copy of fixed length.
        for (word, place) in packed.iter().zip(out[len..].chunks_exact_mut(W::WIDTH)) {
            word.write(place);
        }
        len += bitmap.count_ones() as usize * W::WIDTH;
    }
    len
}

/// As [`super::scatter`], of bitmaps and values that fit.
pub(super) fn scatter<W: Word>(bitmaps: &Bitmaps, values: &[u8], out: &mut [u8]) {
    let mut values = values;
    for (lanes, bitmap) in out.chunks_mut(LANES * W::WIDTH).zip(bitmaps) {
        let (packed, rest) = values.split_at(bitmap.count_ones() as usize * W::WIDTH);
        values = rest;
        // A zero takes the element in front of all.
        let mut words = [W::default(); LANES + 1];
        for (word, bytes) in words[1..].iter_mut().zip(packed.chunks_exact(W::WIDTH)) {
            *word = W::read(bytes);
        }
        let mut next = 0;
        for (lane, place) in lanes.chunks_exact_mut(W::WIDTH).enumerate() {
            let set = (bitmap >> lane & 1) as usize;
            next += set;
            words[next * set].write(place);
        }
    }
}
