//! The loops of [`super::scalar`] with AVX-512, which has instructions for just this: compress and
//! expand. The same bytes, which a test holds. Compilers do not find them by themselves.
//!
//! A vector is 64 bytes: 16 or 32 elements. All functions are for processors that are
//! [`detected`]; what is unsafe is to call them on others, and to load and store vectors.

#![allow(unsafe_code, reason = "vectors are loaded and stored through pointers")]

use std::arch::x86_64::*;

use super::Bitmaps;
use crate::vector::{VECTOR, load, store};
use crate::words::Word;

/// Whether this processor has what the functions here are compiled for.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("popcnt")
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) fn bitmaps<W: Word>(block: &[u8], bitmaps: &mut Bitmaps) {
    let (vectors, rest) = block.as_chunks();
    for (index, vector) in vectors.iter().enumerate() {
        set::<W>(bitmaps, index, nonzero::<W>(load(vector)));
    }
    set::<W>(bitmaps, vectors.len(), nonzero::<W>(load(&padded(rest))));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) fn gather<W: Word>(block: &[u8], bitmaps: &Bitmaps, out: &mut [u8]) -> usize {
    let (vectors, rest) = block.as_chunks();
    let mut len = 0;
    let mut put = |index: usize, vector: __m512i| {
        let bits = get::<W>(bitmaps, index);
        let packed = match W::WIDTH {
            2 => _mm512_maskz_compress_epi16(bits, vector),
            _ => _mm512_maskz_compress_epi32(bits as __mmask16, vector),
        };
        if let Some(place) = out[len..].first_chunk_mut() {
            store(place, packed);
        }
        len += bits.count_ones() as usize * W::WIDTH;
    };
    for (index, vector) in vectors.iter().enumerate() {
        put(index, load(vector));
    }
    if !rest.is_empty() {
        put(vectors.len(), load(&padded(rest)));
    }
    len
}

/// As [`super::scatter`], of bitmaps and values that fit.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) fn scatter<W: Word>(bitmaps: &Bitmaps, values: &[u8], out: &mut [u8]) {
    let mut values = values;
    let mut take = |index: usize| {
        let bits = get::<W>(bitmaps, index);
        let packed = match values.first_chunk() {
            Some(vector) => load(vector),
            None => load(&padded(values)),
        };
        values = &values[bits.count_ones() as usize * W::WIDTH..];
        match W::WIDTH {
            2 => _mm512_maskz_expand_epi16(bits, packed),
            _ => _mm512_maskz_expand_epi32(bits as __mmask16, packed),
        }
    };
    let (vectors, rest) = out.as_chunks_mut();
    for (index, vector) in vectors.iter_mut().enumerate() {
        store(vector, take(index));
    }
    if !rest.is_empty() {
        let mut last = [0; VECTOR];
        store(&mut last, take(vectors.len()));
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// Which elements of a vector have a bit set.
#[target_feature(enable = "avx512f,avx512bw")]
fn nonzero<W: Word>(vector: __m512i) -> u32 {
    match W::WIDTH {
        2 => _mm512_test_epi16_mask(vector, vector),
        _ => _mm512_test_epi32_mask(vector, vector).into(),
    }
}

/// The bits of a vector: of two bytes an element they are a bitmap, of four half of one.
fn get<W: Word>(bitmaps: &Bitmaps, vector: usize) -> u32 {
    match W::WIDTH {
        2 => bitmaps[vector],
        _ => bitmaps[vector / 2] >> (16 * (vector % 2)) & 0xffff,
    }
}

/// Sets what [`get`] gets, in bitmaps that are 0 there. Nothing is set behind the block.
fn set<W: Word>(bitmaps: &mut Bitmaps, vector: usize, bits: u32) {
    let (index, shift) = if W::WIDTH == 2 { (vector, 0) } else { (vector / 2, 16 * (vector % 2)) };
    if let Some(bitmap) = bitmaps.get_mut(index) {
        *bitmap |= bits << shift;
    }
}

/// Less than a vector, with zeros behind.
fn padded(bytes: &[u8]) -> [u8; VECTOR] {
    let mut vector = [0; VECTOR];
    vector[..bytes.len()].copy_from_slice(bytes);
    vector
}
