//! Damaged payloads are errors or other values, and a seal knows them.

use codecs::synthetic::Recipe;
use codecs::{Error, Seal};
use proptest::prelude::*;
use schema::Dtype;

use crate::{codec, layout, payload};

/// One of each codec, and those that look at rows.
fn names() -> Vec<&'static str> {
    let all = codecs::all().iter().map(|entry| entry.example);
    all.chain(["ibp:1", "ibp:2", "ibp:8", "zfp:8:2d", "sz:1e-2:2d"]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_damaged_payload_never_panics_and_breaks_its_seal(
        name in prop::sample::select(names()),
        dtype in prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::Bf16]),
        // Rows, of which IBP wants some.
        shape in prop_oneof![(1usize..9000).prop_map(|n| vec![n]), Just(vec![60, 40])],
        damage in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..20),
        begin in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let codec = codec(name);
        let layout = layout(dtype, &shape);
        let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.5, seed: 3 };
        let whole = payload(codec.as_ref(), &layout, &recipe.bytes().unwrap());
        let seal = Seal::of(&whole);
        let longer = [&whole[..], &[7; 5]].concat();
        prop_assert_eq!(seal.open(&longer), Ok(&whole[..]));
        let mut damaged = whole.clone();
        damaged.truncate(cut.map_or(whole.len(), |cut| cut.index(whole.len() + 1)));
        for (at, byte) in damage {
            // Tables stand at the beginning, and are worth more than one try.
            let span = if begin { damaged.len().min(64) } else { damaged.len() };
            if span > 0 {
                damaged[at.index(span)] = byte;
            }
        }
        let refused = matches!(seal.open(&damaged), Err(Error::Damaged { .. }));
        prop_assert_eq!(refused, damaged != whole);
        let mut out = vec![0; layout.bytes()];
        let _ = codec.decompress(&damaged, &layout, &mut out);
    }
}
