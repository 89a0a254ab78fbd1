//! IBP as one of the codecs.

use codecs::{Codec, CodecId, Layout, TensorView};
use proptest::prelude::*;
use schema::Dtype;

fn codec(name: &str) -> Box<dyn Codec> {
    codecs::codec(name.parse::<CodecId>().unwrap()).unwrap()
}

fn compress(codec: &dyn Codec, layout: &Layout, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0xaa; codec.worst_case(layout)];
    let length = codec.compress(TensorView::new(layout, bytes).unwrap(), &mut out).unwrap();
    out.truncate(length);
    out
}

/// Numbers near one another: their upper two bytes are the same nearly always.
fn near(elements: usize) -> Vec<u8> {
    let mut state = 1u32;
    let numbers = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 24 == 0 { state } else { 0x3f80_0000 | state >> 16 }
    });
    numbers.take(elements).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn tables_shrink_and_come_back_on_any_number_of_threads() {
    for (shape, name, smaller) in [
        (&[100, 64][..], "ibp", true),
        (&[5, 20, 64], "ibp:2", true),
        (&[100, 64], "ibp:8", true),
        // A row of an odd number of words has no chunks of 8 bytes: they are halved.
        (&[100, 63], "ibp:8", true),
        (&[100, 63], "ibp:1", true),
        // No rows to learn from, or too few for what they cost.
        (&[6400], "ibp", false),
        (&[7, 64], "ibp", false),
        (&[0, 64], "ibp", false),
        (&[100, 0], "ibp", false),
    ] {
        let layout = Layout::new(Dtype::F32, shape).unwrap();
        let bytes = near(layout.elements());
        let codec = codec(name);
        let payload = compress(codec.as_ref(), &layout, &bytes);
        assert_eq!(payload.len() < bytes.len(), smaller, "{name} {shape:?}");
        assert!(payload.len() <= codec.worst_case(&layout));
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut out = vec![0x55; bytes.len()];
            let again = pool.install(|| compress(codec.as_ref(), &layout, &bytes));
            assert_eq!(again, payload);
            pool.install(|| codec.decompress(&payload, &layout, &mut out)).unwrap();
            assert_eq!(out, bytes, "{name} {shape:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_damaged_payload_is_an_error_or_other_values(
        name in prop::sample::select(vec!["ibp:1", "ibp:2", "ibp", "ibp:8"]),
        damage in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let layout = Layout::new(Dtype::F32, &[30, 16]).unwrap();
        let codec = codec(name);
        let mut payload = compress(codec.as_ref(), &layout, &near(480));
        if let Some(cut) = cut {
            let length = payload.len();
            payload.truncate(cut.index(length));
        }
        for (at, byte) in damage {
            if !payload.is_empty() {
                let length = payload.len();
                payload[at.index(length)] = byte;
            }
        }
        let _ = codec.decompress(&payload, &layout, &mut vec![0; layout.bytes()]);
    }
}
