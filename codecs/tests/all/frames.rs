//! A frame comes back as it was, or is an error.

use codecs::frame::{HEADER_BYTES, Header, decode, encode};
use codecs::synthetic::Recipe;
use codecs::{CodecId, Error, TensorView};
use proptest::prelude::*;
use schema::Dtype;

use crate::{codec, layout};

/// A frame of a synthetic tensor.
fn frame(name: &str, dtype: Dtype, shape: &[usize]) -> Vec<u8> {
    let layout = layout(dtype, shape);
    let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.5, seed: 3 };
    let bytes = recipe.bytes().unwrap();
    encode(codec(name).as_ref(), TensorView::new(&layout, &bytes).unwrap()).unwrap()
}

fn names() -> impl Iterator<Item = &'static str> {
    codecs::all().iter().map(|entry| entry.example)
}

/// Writes both checksums anew, as one would who forges a frame.
fn forge(frame: &mut [u8]) {
    let payload = xxhash_rust::xxh3::xxh3_64(&frame[HEADER_BYTES..]);
    frame[104..112].copy_from_slice(&payload.to_le_bytes());
    let header = xxhash_rust::xxh3::xxh3_64(&frame[..120]);
    frame[120..128].copy_from_slice(&header.to_le_bytes());
}

#[test]
fn a_frame_says_what_it_holds() {
    for name in names() {
        for shape in [&[][..], &[0], &[5], &[2, 3, 0, 4], &[2, 3, 5, 7]] {
            let frame = frame(name, Dtype::F16, shape);
            let header = Header::read(&frame).unwrap();
            assert_eq!(header.codec, name.parse::<CodecId>().unwrap());
            assert_eq!(header.layout, layout(Dtype::F16, shape));
            let (layout, bytes) = decode(&frame, 1 << 20).unwrap();
            assert_eq!((&layout, layout.bytes()), (&header.layout, bytes.len()), "{name}");
        }
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    for name in names() {
        let frame = frame(name, Dtype::F32, &[40]);
        for at in 0..frame.len() {
            for bit in 0..8 {
                let mut damaged = frame.clone();
                damaged[at] ^= 1 << bit;
                assert!(decode(&damaged, u64::MAX).is_err(), "{name}: byte {at}, bit {bit}");
            }
        }
    }
}

#[test]
fn every_cut_and_every_byte_too_many_is_an_error() {
    for name in names() {
        let mut frame = frame(name, Dtype::Bf16, &[40]);
        for len in 0..frame.len() {
            let refused = decode(&frame[..len], u64::MAX);
            assert!(matches!(refused, Err(Error::WrongFrameLength { .. })), "{name}: {len}");
        }
        frame.push(0);
        assert!(matches!(decode(&frame, u64::MAX), Err(Error::WrongFrameLength { .. })), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// With checksums that fit, so that the codecs themselves see the damage.
    #[test]
    fn a_forged_payload_never_panics(
        which in any::<prop::sample::Index>(),
        dtype in prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::Bf16]),
        elements in 1usize..9000,
        damage in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..20),
        begin in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let names: Vec<&str> = names().collect();
        let name = names[which.index(names.len())];
        let mut frame = frame(name, dtype, &[elements]);
        let payload = frame.len() - HEADER_BYTES;
        if let Some(cut) = cut {
            let payload = cut.index(payload + 1);
            frame.truncate(HEADER_BYTES + payload);
            frame[96..104].copy_from_slice(&(payload as u64).to_le_bytes());
        }
        let payload = frame.len() - HEADER_BYTES;
        for (at, byte) in damage {
            // Tables stand at the beginning, and are worth more than one try.
            let span = if begin { payload.min(64) } else { payload };
            if span > 0 {
                frame[HEADER_BYTES + at.index(span)] = byte;
            }
        }
        forge(&mut frame);
        if let Ok((layout, bytes)) = decode(&frame, 1 << 20) {
            prop_assert_eq!(layout.bytes(), bytes.len());
        }
    }

    #[test]
    fn a_forged_header_never_panics(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((0usize..104, any::<u8>()), 1..6),
    ) {
        let names: Vec<&str> = names().collect();
        let mut frame = frame(names[which.index(names.len())], Dtype::F32, &[3, 100]);
        for (at, byte) in damage {
            frame[at] = byte;
        }
        forge(&mut frame);
        if let Ok((layout, bytes)) = decode(&frame, 1 << 20) {
            prop_assert_eq!(layout.bytes(), bytes.len());
        }
    }
}

#[test]
fn a_tensor_over_the_limit_is_refused() {
    let frame = frame("zvc", Dtype::F32, &[100]);
    assert_eq!(decode(&frame, 399), Err(Error::OverLimit { declared: 400, limit: 399 }));
    assert!(decode(&frame, 400).is_ok());
}

#[test]
fn a_frame_of_a_later_version_says_so() {
    let mut frame = frame("zvc", Dtype::F32, &[100]);
    frame[4] = 2;
    forge(&mut frame);
    assert_eq!(decode(&frame, 400), Err(Error::UnknownVersion { found: 2, known: 1 }));
}
