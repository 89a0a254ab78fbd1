//! Vectors of AVX-512, to and from memory.

#![allow(unsafe_code, reason = "vectors are loaded and stored through pointers")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

pub(crate) const VECTOR: usize = 64;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn load(bytes: &[u8; VECTOR]) -> __m512i {
    // SAFETY: the 64 bytes are readable, and the load asks for no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn store(bytes: &mut [u8; VECTOR], vector: __m512i) {
    // SAFETY: the 64 bytes are writable, and the store asks for no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}
