//! Decompressing with AVX-512, eight lanes at a time: the same rows as [`super::portable`], which a
//! test holds. There is no instruction that puts the bits of a lane between its invariant ones, but
//! one that takes any eight adjacent bits for each byte (`vpmultishiftqb`), and within a byte three
//! steps do.
//!
//! Bytes stay in the order in which they are in memory; where "payload order" is said, the byte
//! whose bits come first in the payload is the lowest.

#![allow(unsafe_code, reason = "vectors are loaded and stored through pointers")]

use std::arch::x86_64::*;

use super::super::IbpError;
use super::super::lanes::LANE;
use super::super::plan::{Plan, Vector};
use super::{end, participation_of_eight, parts};
use crate::vector::{VECTOR, load, store};

/// Whether this processor has what [`decompress`] is compiled for.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx512bitalg")
}

/// As [`super::decompress`], where this is [`detected`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,avx512vbmi2,avx512bitalg")]
pub(super) fn decompress<const N: usize>(
    plan: &Plan<N>,
    compressed: &[u8],
    out: &mut [u8],
) -> Result<usize, IbpError> {
    fetch(&compressed[..compressed.len().min(plan.row_bytes)]);
    let (header, payload) = parts(plan, compressed)?;
    let (whole, rest) = out.as_chunks_mut::<VECTOR>();
    let mut position = 0;
    for (index, (out, vector)) in whole.iter_mut().zip(&plan.vectors).enumerate() {
        let participation = participation_of_eight(plan, header, index);
        let (bytes, bits) = expand::<N>(vector, participation, payload, position);
        store(out, bytes);
        position += bits;
    }
    if let Some(vector) = plan.vectors.get(whole.len()) {
        let participation = participation_of_eight(plan, header, whole.len());
        let (bytes, bits) = expand::<N>(vector, participation, payload, position);
        let mut last = [0; VECTOR];
        store(&mut last, bytes);
        rest.copy_from_slice(&last[..rest.len()]);
        position += bits;
    }
    end(plan, compressed, position)
}

/// Asks for all of a row at once: lookups find rows where no cache has them, and the processor
/// would begin to wait for the next part only when it is done with most of the last.
#[target_feature(enable = "sse")]
fn fetch(row: &[u8]) {
    for line in row.chunks(VECTOR) {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
}

/// Eight lanes whose bits begin at a position of the payload, and how many bits they are.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,avx512vbmi2,avx512bitalg")]
fn expand<const N: usize>(
    vector: &Vector,
    participation: u64,
    payload: &[u8],
    position: u64,
) -> (__m512i, u64) {
    let invariant = participating::<N>(&vector.mask, participation);

    // Bits that stay of each byte; then with those of all bytes of the lane that come before it.
    let kept = _mm512_popcnt_epi8(_mm512_andnot_si512(invariant, _mm512_set1_epi8(-1)));
    let kept = _mm512_shuffle_epi8(kept, load(const { &payload_order::<N>() }));
    let until = _mm512_mullo_epi64(kept, _mm512_set1_epi8(1));

    // Bits of each lane; with those of all lanes before; where each lane begins.
    let of_lane = _mm512_srli_epi64::<56>(until);
    let zero = _mm512_setzero_si512();
    let mut ends = _mm512_add_epi64(of_lane, _mm512_alignr_epi64::<7>(of_lane, zero));
    ends = _mm512_add_epi64(ends, _mm512_alignr_epi64::<6>(ends, zero));
    ends = _mm512_add_epi64(ends, _mm512_alignr_epi64::<4>(ends, zero));
    let offset = _mm512_set1_epi64((position % 64) as i64);
    let starts = _mm512_add_epi64(_mm512_sub_epi64(ends, of_lane), offset);
    let bits = _mm_cvtsi128_si64(_mm512_castsi512_si128(_mm512_alignr_epi64::<7>(zero, ends)));

    // The 64 bits from there on, of which the highest are the lane's.
    let lanes = |at: usize| {
        let order = load(const { &lane_order::<N>() });
        _mm512_shuffle_epi8(seen(payload, at), order)
    };
    let begin = (position / 64) as usize * LANE;
    let index = _mm512_srli_epi64::<6>(starts);
    let (first, second) = (lanes(begin), lanes(begin + LANE));
    let first = _mm512_permutexvar_epi64(index, first);
    let second = _mm512_permutexvar_epi64(index, second);
    let ahead = _mm512_shldv_epi64(first, second, starts);

    // Of each byte, its bits at the low end; then apart; then the invariant ones.
    let ends = _mm512_sub_epi8(zero, until);
    let ends = _mm512_shuffle_epi8(ends, load(const { &payload_order::<N>() }));
    let mut bytes = _mm512_multishift_epi64_epi8(ends, ahead);
    let [ones, twos, fours] =
        [0, 1, 2].map(|i| participating::<N>(&vector.apart[i], participation));
    bytes = select(fours, _mm512_slli_epi64::<4>(bytes), bytes);
    bytes = select(twos, _mm512_slli_epi64::<2>(bytes), bytes);
    bytes = select(ones, _mm512_slli_epi64::<1>(bytes), bytes);
    (select(invariant, participating::<N>(&vector.bitval, participation), bytes), bits as u64)
}

/// The bits of `left` where those of `which` are set, those of `right` elsewhere.
#[target_feature(enable = "avx512f")]
fn select(which: __m512i, left: __m512i, right: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0xca>(which, left, right)
}

/// Bytes of chunks that participate, zeros for others.
#[target_feature(enable = "avx512f,avx512bw")]
fn participating<const N: usize>(bytes: &[u8; VECTOR], participation: u64) -> __m512i {
    match N {
        1 => _mm512_maskz_mov_epi64(participation as __mmask8, load(bytes)),
        2 => _mm512_maskz_mov_epi32(participation as __mmask16, load(bytes)),
        4 => _mm512_maskz_mov_epi16(participation as __mmask32, load(bytes)),
        _ => _mm512_maskz_mov_epi8(participation, load(bytes)),
    }
}

/// A vector of the payload; zeros beyond its end.
#[target_feature(enable = "avx512f")]
fn seen(payload: &[u8], at: usize) -> __m512i {
    let payload = payload.get(at..).unwrap_or_default();
    match payload.first_chunk() {
        Some(vector) => load(vector),
        None => load(&filled_up(payload)),
    }
}

#[cold]
#[inline(never)]
fn filled_up(bytes: &[u8]) -> [u8; VECTOR] {
    let mut vector = [0; VECTOR];
    vector[..bytes.len()].copy_from_slice(bytes);
    vector
}

/// For each byte in memory its place in the lane that it is part of: the first chunk is the
/// highest.
const fn lane_order<const N: usize>() -> [u8; VECTOR] {
    let chunk = LANE / N;
    let mut order = [0; VECTOR];
    let mut byte = 0;
    while byte < VECTOR {
        let of_lane = byte % LANE;
        order[byte] =
            ((byte - of_lane) + (N - 1 - of_lane / chunk) * chunk + of_lane % chunk) as u8;
        byte += 1;
    }
    order
}

/// From memory to payload order and back: each chunk's highest byte comes first.
const fn payload_order<const N: usize>() -> [u8; VECTOR] {
    let chunk = LANE / N;
    let mut order = [0; VECTOR];
    let mut byte = 0;
    while byte < VECTOR {
        order[byte] = (byte - byte % chunk + chunk - 1 - byte % chunk) as u8;
        byte += 1;
    }
    order
}
