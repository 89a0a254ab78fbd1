//! IBP as one of the codecs.

use codecs::Layout;
use schema::Dtype;

use crate::{codec, on_threads, payload, restored};

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
        let packed = payload(codec.as_ref(), &layout, &bytes);
        assert_eq!(packed.len() < bytes.len(), smaller, "{name} {shape:?}");
        assert!(packed.len() <= codec.worst_case(&layout));
        for threads in [1, 3] {
            let again = on_threads(threads, || payload(codec.as_ref(), &layout, &bytes));
            assert_eq!(again, packed);
            let back = on_threads(threads, || restored(codec.as_ref(), &layout, &packed));
            assert_eq!(back, bytes, "{name} {shape:?}");
        }
    }
}
