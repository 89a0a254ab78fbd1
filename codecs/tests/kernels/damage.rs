//! Kernels stay inside of their buffers whatever a payload holds, and say what the codec says.

use codecs::synthetic::Recipe;
use codecs::{CodecId, Layout, TensorView};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use schema::Dtype;

use crate::codec::{Chance, decompress, program};

/// Damages payloads at random. Where the codec gives a tensor, so do the kernels, the same one;
/// where it refuses, so do they, unless `lenient`: then they may overlook what they never read.
fn check(program_name: &str, id: &str, elements: [usize; 2], lenient: bool) {
    let Some(emulator) = program(program_name) else { return };
    let emulator = std::cell::RefCell::new(emulator);
    let id: CodecId = id.parse().unwrap();
    let codec = codecs::codec(id).unwrap();
    let layout = Layout::new(Dtype::F16, &elements).unwrap();
    let recipe = Recipe { layout: layout.clone(), sparsity: 0.7, smoothness: 0.8, seed: 9 };
    let bytes = recipe.bytes().unwrap();
    let mut whole = vec![0; codec.worst_case(&layout)];
    let length = codec.compress(TensorView::new(&layout, &bytes).unwrap(), &mut whole).unwrap();
    whole.truncate(length);
    // Most of what decides lies at the beginning.
    let place = prop_oneof![0..64usize.min(length), 0..length];
    let changes = prop::collection::vec((place, any::<u8>()), 0..4);
    let case = (changes, 0..length + 1, any::<bool>(), any::<u64>());
    let config =
        ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&case, |(changes, cut, cuts, seed)| {
        let mut payload = whole.clone();
        for (place, value) in changes {
            payload[place] = value;
        }
        if cuts {
            payload.truncate(cut);
        }
        let mut expected = vec![0; layout.bytes()];
        let answer = codec.decompress(&payload, &layout, &mut expected);
        let chance = Chance { seed, blocks: 2 };
        let left = decompress(&mut emulator.borrow_mut(), id, &layout, &payload, chance).unwrap();
        match answer {
            Ok(()) => {
                prop_assert_eq!(left.status, None);
                prop_assert!(left.target == expected);
            }
            Err(error) => prop_assert!(lenient || left.status.is_some(), "{}", error),
        }
        Ok(())
    });
    result.unwrap();
}

#[test]
fn damaged_zvc() {
    check("zvc", "zvc", [3, 3001], false);
}

#[test]
fn damaged_rle() {
    check("rle", "rle", [3, 3001], false);
}

#[test]
fn damaged_csr() {
    check("csr", "csr", [3, 3001], false);
}

#[test]
fn damaged_lz4() {
    check("lz4", "lz4", [3, 3001], true);
}

#[test]
fn damaged_zfp() {
    check("zfp", "zfp:8:2d", [31, 101], false);
}

#[test]
fn damaged_ibp() {
    for (id, shape) in
        [("ibp:1", [60, 33]), ("ibp:2", [100, 40]), ("ibp", [300, 70]), ("ibp:8", [40, 300])]
    {
        check("ibp", id, shape, true);
    }
}

#[test]
fn damaged_sz() {
    check("sz", "sz:1e-2:2d", [40, 101], false);
}

#[test]
fn a_chunk_that_an_ibp_row_does_not_have_is_said() {
    let Some(mut emulator) = program("ibp") else { return };
    let id: CodecId = "ibp".parse().unwrap();
    let codec = codecs::codec(id).unwrap();
    // Of zeros nothing stays but participation bits: those of five chunks, in a word for each row.
    let layout = Layout::new(Dtype::F16, &[40, 10]).unwrap();
    let bytes = vec![0; layout.bytes()];
    let mut payload = vec![0; codec.worst_case(&layout)];
    let length = codec.compress(TensorView::new(&layout, &bytes).unwrap(), &mut payload).unwrap();
    payload.truncate(length);
    let words = length - 40 * 4;
    assert!(payload[words..].chunks(4).all(|word| word == [0b1_1111, 0, 0, 0]));
    payload[words + 7 * 4] |= 0b10_0000;
    codec.decompress(&payload, &layout, &mut vec![0; layout.bytes()]).unwrap_err();
    let chance = Chance { seed: 2, blocks: 2 };
    let left = decompress(&mut emulator, id, &layout, &payload, chance).unwrap();
    assert_eq!(left.status, Some(7));
}
