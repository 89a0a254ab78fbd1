//! Lossless codecs give back every bit.

use codecs::Codec;
use codecs::layout::width;
use codecs::synthetic::Recipe;
use proptest::prelude::*;
use schema::Dtype;

use crate::{codec, layout, lossless, on_threads, payload, restored};

const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

fn check(codec: &dyn Codec, dtype: Dtype, bytes: &[u8]) {
    let layout = layout(dtype, &[bytes.len() / width(dtype)]);
    let payload = payload(codec, &layout, bytes);
    assert!(restored(codec, &layout, &payload) == bytes, "{} {dtype:?}", codec.id());
}

/// Bytes of elements that codecs might treat in a way of their own: zeros of both signs, NaNs with
/// payloads, infinities, subnormals.
fn special(dtype: Dtype, choice: u8, bits: u32) -> Vec<u8> {
    let (exponent, fraction_bits) = match dtype {
        Dtype::F16 => (0x7c00, 10),
        Dtype::Bf16 => (0x7f80, 7),
        _ => (0x7f80_0000u32, 23),
    };
    let (sign, fraction) = (1u32 << (8 * width(dtype) - 1), bits & ((1 << fraction_bits) - 1));
    let word = match choice % 8 {
        0..=2 => 0,
        3 => sign,
        4 => exponent | fraction | bits & sign,
        5 => exponent | bits & sign,
        6 => fraction | bits & sign,
        _ => bits,
    };
    word.to_le_bytes()[..width(dtype)].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_bit_comes_back(
        elements in prop::collection::vec(any::<(u8, u32)>(), 0..5000),
        zeros in 0u8..=8,
        dtype in prop::sample::select(FLOATS.to_vec()),
    ) {
        // Some tensors all zero, some without any, most between.
        let element = |(choice, bits): &(u8, u32)| {
            if choice % 8 < zeros { vec![0; width(dtype)] } else { special(dtype, choice >> 3, *bits) }
        };
        let bytes: Vec<u8> = elements.iter().flat_map(element).collect();
        for codec in lossless() {
            check(codec.as_ref(), dtype, &bytes);
        }
    }
}

#[test]
fn sizes_around_every_boundary_come_back() {
    for codec in lossless() {
        for dtype in FLOATS {
            for around in [0usize, 32, 256, 4096, 16384, 32768, 65536, 131072] {
                for elements in around.saturating_sub(1)..=around + 1 {
                    let recipe = Recipe {
                        layout: layout(dtype, &[elements]),
                        sparsity: 0.6,
                        smoothness: 0.5,
                        seed: elements as u64,
                    };
                    check(codec.as_ref(), dtype, &recipe.bytes().unwrap());
                }
            }
        }
    }
}

#[test]
fn one_thread_and_many_make_the_same_bytes() {
    for codec in codecs::all().iter().map(|entry| codec(entry.example)) {
        for sparsity in [0.0, 0.3, 0.9] {
            let layout = layout(Dtype::F16, &[3, 1 << 19]);
            let recipe = Recipe { layout: layout.clone(), sparsity, smoothness: 0.0, seed: 7 };
            let bytes = recipe.bytes().unwrap();
            let made = |threads| on_threads(threads, || payload(codec.as_ref(), &layout, &bytes));
            let one = made(1);
            let back = |threads| on_threads(threads, || restored(codec.as_ref(), &layout, &one));
            let whole = back(1);
            for threads in [2, 3, 8] {
                assert!(made(threads) == one, "{} on {threads} threads", codec.id());
                assert!(back(threads) == whole, "{} on {threads} threads", codec.id());
            }
        }
    }
}

#[test]
fn what_does_not_shrink_hardly_grows() {
    for codec in lossless() {
        // Bits without any pattern, and none zero.
        let mut state = 1u32;
        let words = (0..100_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state | 1
        });
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let layout = layout(Dtype::F32, &[bytes.len() / 4]);
        let len = payload(codec.as_ref(), &layout, &bytes).len();
        assert!(len <= bytes.len() + bytes.len() / 500 + 16, "{}: {len}", codec.id());
        assert!(len <= codec.worst_case(&layout));
    }
}

#[test]
fn a_buffer_of_another_size_is_refused() {
    let layout = layout(Dtype::F32, &[100]);
    let bytes = vec![1; 400];
    for codec in lossless() {
        let view = codecs::TensorView::new(&layout, &bytes).unwrap();
        let mut small = vec![0; codec.worst_case(&layout) - 1];
        let refused = codec.compress(view, &mut small);
        assert!(matches!(refused, Err(codecs::Error::OutputTooSmall { .. })));
        let payload = payload(codec.as_ref(), &layout, &bytes);
        let refused = codec.decompress(&payload, &layout, &mut [0; 401]);
        assert!(matches!(refused, Err(codecs::Error::WrongLength { .. })));
    }
    assert!(codecs::TensorView::new(&layout, &bytes[1..]).is_err());
}

#[test]
fn elements_that_a_codec_does_not_take_are_refused() {
    let words = ["zvc", "rle", "csr"].map(|name| (name, Dtype::U8));
    let floats = [Dtype::F64, Dtype::I32, Dtype::U8]
        .into_iter()
        .flat_map(|dtype| ["sz:1e-3", "zfp:8", "jpeg-act-h"].map(|name| (name, dtype)));
    for (name, dtype) in words.into_iter().chain(floats) {
        let (codec, layout) = (codec(name), layout(dtype, &[100]));
        assert!(!codec.supports(dtype), "{name}");
        let bytes = vec![0; layout.bytes()];
        let view = codecs::TensorView::new(&layout, &bytes).unwrap();
        let refused = codec.compress(view, &mut [0; 1000]);
        assert!(matches!(refused, Err(codecs::Error::UnsupportedDtype { .. })), "{name}");
    }
}
