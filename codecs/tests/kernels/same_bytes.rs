//! The kernels' payloads are the codecs', and give back what the codecs give back.

use codecs::layout::width;
use codecs::synthetic::Recipe;
use codecs::{CodecId, Error, Layout, TensorView};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use schema::Dtype;

use crate::codec::{Chance, compress, decompress, program};
use crate::emulator::Emulator;

/// Both ways on the emulator, against the codec.
fn check(emulator: &mut Emulator, id: CodecId, layout: &Layout, input: &[u8], chance: Chance) {
    let codec = codecs::codec(id).unwrap();
    let mut expected = vec![0; codec.worst_case(layout)];
    let bytes = codec.compress(TensorView::new(layout, input).unwrap(), &mut expected).unwrap();
    expected.truncate(bytes);
    let about = || format!("{id} {:?} {:?} {chance:?}", layout.dtype(), layout.shape());
    match compress(emulator, id, layout, input, chance) {
        Ok(left) => {
            assert_eq!(left.status, None, "{}", about());
            assert_eq!(left.length, bytes as u64, "{}", about());
            let at = left.target.iter().zip(&expected).position(|(left, right)| left != right);
            assert_eq!(at, None, "first byte that differs, {}", about());
        }
        Err(Error::NoKernel { .. }) => assert!(matches!(id.name(), "lz4" | "ibp"), "{id}"),
        Err(error) => panic!("{error}"),
    }
    let mut back = vec![0; layout.bytes()];
    codec.decompress(&expected, layout, &mut back).unwrap();
    let left = decompress(emulator, id, layout, &expected, chance).unwrap();
    assert_eq!(left.status, None, "{}", about());
    let at = left.target.iter().zip(&back).position(|(left, right)| left != right);
    assert_eq!(at, None, "first byte of the tensor that differs, {}", about());
}

/// Random tensors of up to so many elements in up to three dimensions.
fn tensors(most: usize) -> impl Strategy<Value = (Layout, Vec<u8>)> {
    let shape = prop_oneof![
        (0..most).prop_map(|n| vec![n]),
        (1..80usize, 1..most / 80).prop_map(|(x, y)| vec![y, x]),
        (1..most / 80, 1..80usize).prop_map(|(x, y)| vec![y, x]),
        (1..20usize, 1..20usize, 1..most / 400).prop_map(|(x, y, z)| vec![z, y, x]),
        Just(vec![]),
    ];
    let dtype = prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::Bf16]);
    let zeros = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0];
    let smooth = prop_oneof![Just(0.0), 0.0..1.0];
    (shape, dtype, zeros, smooth, any::<u64>()).prop_map(
        |(shape, dtype, sparsity, smoothness, seed)| {
            let layout = Layout::new(dtype, &shape).unwrap();
            let bytes =
                Recipe { layout: layout.clone(), sparsity, smoothness, seed }.bytes().unwrap();
            (layout, bytes)
        },
    )
}

fn chances() -> impl Strategy<Value = Chance> {
    (any::<u64>(), 1u32..6).prop_map(|(seed, blocks)| Chance { seed, blocks })
}

/// Random tensors, and the same with words of any bits where the codec takes them.
fn check_random(name: &str, ids: &[&str], cases: u32, most: usize, any_bits: bool) {
    let Some(emulator) = program(name) else { return };
    let emulator = std::cell::RefCell::new(emulator);
    let ids: Vec<CodecId> = ids.iter().map(|id| id.parse().unwrap()).collect();
    let case = (tensors(most), prop::sample::select(ids), chances(), any::<bool>(), any::<u64>());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let result =
        TestRunner::new(config).run(&case, |((layout, mut bytes), id, chance, wild, seed)| {
            if wild && any_bits {
                make_wild(layout.dtype(), &mut bytes, seed);
            }
            check(&mut emulator.borrow_mut(), id, &layout, &bytes, chance);
            Ok(())
        });
    result.unwrap();
}

/// Replaces some elements by any bits: NaNs, infinities, subnormals, zeros of both signs.
fn make_wild(dtype: Dtype, bytes: &mut [u8], seed: u64) {
    let mut state = seed | 1;
    for element in bytes.chunks_exact_mut(width(dtype)) {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match state >> 60 {
            0 => element.copy_from_slice(&(state >> 20).to_le_bytes()[..element.len()]),
            1 => element.copy_from_slice(&0x8000_0000u32.to_le_bytes()[4 - element.len()..]),
            _ => {}
        }
    }
}

#[test]
fn zvc() {
    check_random("zvc", &["zvc"], 60, 20_000, true);
}

#[test]
fn rle() {
    check_random("rle", &["rle"], 60, 20_000, true);
}

#[test]
fn csr() {
    check_random("csr", &["csr"], 60, 20_000, true);
}

#[test]
fn lz4() {
    check_random("lz4", &["lz4"], 20, 70_000, true);
}

#[test]
fn zfp() {
    let ids = "zfp:8 zfp:2.25 zfp:17.5 zfp:32 zfp:8:2d zfp:1.1875:2d zfp:9.4375:2d zfp:8:3d";
    let ids: Vec<&str> = ids.split(' ').chain(["zfp:3.515625:3d"]).collect();
    check_random("zfp", &ids, 80, 6_000, false);
}

#[test]
fn ibp() {
    check_random("ibp", &["ibp", "ibp:1", "ibp:2", "ibp:8"], 60, 20_000, true);
}

#[test]
fn sz() {
    let ids = ["sz:1e-3", "sz:1e-3:2d", "sz:1e-2:3d", "sz:10", "sz:1e-6", "sz:1e-40"];
    check_random("sz", &ids, 30, 30_000, true);
}

/// Several blocks, and blocks that end with rows and planes.
#[test]
fn sz_of_several_blocks() {
    let Some(mut emulator) = program("sz") else { return };
    for (id, shape) in [
        ("sz:1e-2", vec![150_000]),
        ("sz:1e-2:2d", vec![700, 300]),
        ("sz:1e-2:3d", vec![3, 90, 500]),
        ("sz:1e-2:2d", vec![2, 70_000]),
    ] {
        let layout = Layout::new(Dtype::F32, &shape).unwrap();
        let recipe = Recipe { layout: layout.clone(), sparsity: 0.4, smoothness: 0.9, seed: 3 };
        let chance = Chance { seed: 5, blocks: 2 };
        check(&mut emulator, id.parse().unwrap(), &layout, &recipe.bytes().unwrap(), chance);
    }
}

#[test]
fn sizes_around_every_boundary() {
    for name in ["zvc", "rle", "csr"] {
        let Some(mut emulator) = program(name) else { return };
        for around in [1usize, 32, 64, 256, 4096, 8192, 12288] {
            for elements in around - 1..=around + 1 {
                for (dtype, sparsity) in [(Dtype::F32, 0.5), (Dtype::F16, 0.7), (Dtype::F32, 1.0)] {
                    let layout = Layout::new(dtype, &[elements]).unwrap();
                    let seed = elements as u64;
                    let recipe = Recipe { layout: layout.clone(), sparsity, smoothness: 0.0, seed };
                    let chance = Chance { seed, blocks: 3 };
                    check(
                        &mut emulator,
                        name.parse().unwrap(),
                        &layout,
                        &recipe.bytes().unwrap(),
                        chance,
                    );
                }
            }
        }
    }
}

#[test]
fn zfp_says_which_value_is_not_finite() {
    let Some(mut emulator) = program("zfp") else { return };
    let id: CodecId = "zfp:8:2d".parse().unwrap();
    let layout = Layout::new(Dtype::F32, &[9, 7]).unwrap();
    for places in [[5usize, 60], [62, 17], [33, 33]] {
        let mut values = [1.5f32; 63];
        places.iter().for_each(|&place| values[place] = f32::INFINITY);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let chance = Chance { seed: 1, blocks: 2 };
        let left = compress(&mut emulator, id, &layout, &bytes, chance).unwrap();
        assert_eq!(left.status, places.iter().min().map(|&place| place as u64));
    }
}

/// A kernel that exists can be launched, and one that is launched exists.
#[test]
fn every_launch_names_a_kernel() {
    let layout = Layout::new(Dtype::F16, &[100, 64]).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for name in ["zvc", "rle", "csr", "lz4", "zfp:8", "zfp:8:2d", "ibp", "sz:1e-3"] {
        let id: CodecId = name.parse().unwrap();
        let both = [
            codecs::kernels::compress(id, &layout, 4),
            codecs::kernels::decompress(id, &layout, 4),
        ];
        for launch in both.into_iter().flatten().flat_map(|launches| launches.launches) {
            let programs = codecs::kernels::programs();
            let program = programs.iter().find(|program| program.name() == launch.program).unwrap();
            assert!(program.kernels().contains(&launch.kernel), "{}", launch.kernel);
            seen.insert(launch.program);
        }
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}
