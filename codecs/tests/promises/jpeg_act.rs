//! JPEG-ACT is off by no more than it says, and makes what is smooth smaller.

use codecs::layout::width;
use codecs::quality::difference;
use codecs::synthetic::Recipe;
use codecs::{Codec, Error, Fidelity, Layout, TensorView};
use proptest::prelude::*;
use schema::Dtype;

use crate::{codec, layout, payload, restored};

const NAMES: [&str; 2] = ["jpeg-act-l", "jpeg-act-h"];

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

fn share(codec: &dyn Codec) -> f64 {
    let Fidelity::Relative { share } = codec.fidelity() else { panic!("not relative") };
    share
}

/// The channel that an element of such a shape belongs to.
fn channel(shape: &[usize], index: usize) -> usize {
    if shape.len() < 3 { 0 } else { index / shape[2..].iter().product::<usize>() % shape[1] }
}

/// Each value is within the stated share of its channel's largest magnitude, which it does not exceed.
fn check(codec: &dyn Codec, layout: &Layout, bytes: &[u8]) {
    let back = values(&restored(codec, layout, &payload(codec, layout, bytes)));
    let before = values(bytes);
    let share = share(codec) as f32;
    let channels = layout.shape().get(1).copied().unwrap_or(1).max(1);
    let mut largest = vec![0f32; channels];
    for (index, value) in before.iter().enumerate() {
        let of = &mut largest[channel(layout.shape(), index)];
        *of = of.max(value.abs());
    }
    for (index, (before, back)) in before.iter().zip(&back).enumerate() {
        let largest = largest[channel(layout.shape(), index)];
        // Divided first: the difference of the largest floats is more than a float holds.
        let off = (before / 4.0 - back / 4.0).abs();
        let allowed = largest / 4.0 * (share + 1e-4) + f32::from_bits(4);
        assert!(off <= allowed, "{} {:?} {index}: {before} {back}", codec.id(), layout.shape());
        assert!(back.abs() <= largest, "{} {index}: {back} over {largest}", codec.id());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_value_is_within_its_share(
        name in prop::sample::select(NAMES.to_vec()),
        shape in prop::collection::vec(1usize..12, 0..5),
        exponent in -149i32..127,
        seed in any::<u64>(),
        zeros in 0u64..=8,
    ) {
        let layout = layout(Dtype::F32, &shape);
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let values: Vec<f32> = (0..layout.elements()).map(|_| {
            if next() % 8 < zeros { return 0.0 }
            let value = f32::from_bits((next() as u32 % 0x0080_0000) | 0x3f80_0000) as f64 - 1.5;
            (value * f64::from(exponent).exp2()) as f32
        }).collect();
        check(codec(name).as_ref(), &layout, &bytes(&values));
    }
}

#[test]
fn the_stated_share_is_that_of_the_tables() {
    // Of the first table all steps are 8, so that a corner is off by (sum of |B|)^2 (8 - 1/2) + 1/2 + 17 of 144.
    let corner = 2.641_7f64;
    let low = (corner * corner * 7.5 + 17.5) / 144.0;
    let [l, h] = NAMES.map(|name| share(codec(name).as_ref()));
    assert!((l - low).abs() < 1e-3, "{l} {low}");
    assert!(l < h && h < 1.5, "{h}");
}

#[test]
fn sizes_around_every_boundary_come_back() {
    for name in NAMES {
        let codec = codec(name);
        let shapes: [&[usize]; 14] = [
            &[0],
            &[],
            &[1],
            &[7],
            &[8],
            &[65],
            &[16_385],
            &[3, 0, 5],
            &[9, 1],
            &[17, 8],
            &[2, 3, 7, 7],
            &[2, 3, 8, 8],
            &[1, 2, 33, 70_000],
            &[2, 3, 4, 5, 6],
        ];
        for shape in shapes {
            let layout = layout(Dtype::F32, shape);
            let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.9, seed: 4 };
            check(codec.as_ref(), &layout, &recipe.bytes().unwrap());
        }
    }
}

#[test]
fn the_largest_and_the_smallest_floats_come_back_within_their_share() {
    for name in NAMES {
        for largest in [f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::from_bits(100)] {
            let mut values = [0.0; 192];
            (values[0], values[70], values[191]) = (largest, -largest, largest / 2.0);
            check(codec(name).as_ref(), &layout(Dtype::F32, &[1, 3, 8, 8]), &bytes(&values));
        }
    }
}

#[test]
fn a_channel_of_zeros_stays_zero_and_costs_a_bit_each() {
    let layout = layout(Dtype::F32, &[2, 2, 32, 32]);
    // The second channel is a slope.
    let is_zero = |index: usize| (index / 1024).is_multiple_of(2);
    let of = |index: usize| if is_zero(index) { 0.0 } else { (index % 32) as f32 - 20.0 };
    let before: Vec<f32> = (0..4096).map(of).collect();
    for name in NAMES {
        let codec = codec(name);
        let written = payload(codec.as_ref(), &layout, &bytes(&before));
        let back = values(&restored(codec.as_ref(), &layout, &written));
        assert!((0..4096).filter(|index| is_zero(*index)).all(|index| back[index] == 0.0));
        // 64 tiles of 8 bytes, and of half of them a few coefficients of one row.
        assert!(written.len() < 16 + 16 + 64 * 8 + 32 * 4, "{name}: {}", written.len());
    }
}

#[test]
fn smooth_tensors_shrink_more_and_the_second_table_is_smaller() {
    let layout = layout(Dtype::F32, &[2, 8, 56, 56]);
    let size = |name: &str, smoothness| {
        let recipe = Recipe { layout: layout.clone(), sparsity: 0.0, smoothness, seed: 11 };
        payload(codec(name).as_ref(), &layout, &recipe.bytes().unwrap()).len()
    };
    for name in NAMES {
        assert!(size(name, 0.95) < size(name, 0.0), "{name}");
        assert!(size(name, 0.0) < layout.bytes() / 4 + 1000, "{name}: a byte each at most");
    }
    assert!(size("jpeg-act-h", 0.9) < size("jpeg-act-l", 0.9));
}

#[test]
fn half_precision_is_off_by_little_more() {
    for dtype in [Dtype::F16, Dtype::Bf16] {
        let layout = layout(dtype, &[2, 3, 20, 20]);
        let recipe = Recipe { layout: layout.clone(), sparsity: 0.3, smoothness: 0.5, seed: 1 };
        let before = recipe.bytes().unwrap();
        for name in NAMES {
            let codec = codec(name);
            let back =
                restored(codec.as_ref(), &layout, &payload(codec.as_ref(), &layout, &before));
            let of =
                |bytes: &[u8]| difference(&layout, &vec![0; bytes.len()], bytes).unwrap().max_abs;
            let off = difference(&layout, &before, &back).unwrap().max_abs;
            assert!(off <= of(&before) * (share(codec.as_ref()) + 0.01), "{name} {dtype:?}: {off}");
            assert!(off > 0.0);
        }
    }
}

#[test]
fn what_is_not_finite_is_refused_and_the_first_named() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for shape in [&[200_000][..], &[2, 100, 10, 100]] {
            let layout = layout(dtype, shape);
            let mut bytes = vec![0; layout.bytes()];
            for index in [190_000, 150_001] {
                bytes[index * width(dtype)..][..width(dtype)].fill(0xff);
            }
            let codec = codec("jpeg-act-h");
            let mut out = vec![0; codec.worst_case(&layout)];
            let refused = codec.compress(TensorView::new(&layout, &bytes).unwrap(), &mut out);
            assert_eq!(refused, Err(Error::NotFinite { codec: codec.id(), index: 150_001 }));
        }
    }
}

#[test]
fn what_is_damaged_says_how() {
    let (codec, layout) = (codec("jpeg-act-h"), layout(Dtype::F32, &[1, 2, 16, 16]));
    let values: Vec<f32> = (0..512).map(|index| (index % 16) as f32).collect();
    let whole = payload(codec.as_ref(), &layout, &bytes(&values));
    let refused = |payload: &[u8]| {
        let mut out = vec![0; layout.bytes()];
        codec.decompress(payload, &layout, &mut out).unwrap_err().to_string()
    };
    let with = |at: usize, bytes: &[u8]| {
        let mut damaged = whole.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        refused(&damaged)
    };
    // Two largest values up to 16, a table of one block up to 32, and bits of eight tiles.
    let told = [
        refused(&whole[..10]),
        with(4, &f32::NAN.to_le_bytes()),
        with(0, &(-1f32).to_le_bytes()),
        with(32, &[0; 8]),
        with(32, &[0xff; 8]),
        refused(&whole[..whole.len() - 1]),
    ];
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn the_payload_has_documented_bytes() {
    let codec = codec("jpeg-act-l");
    let layout = layout(Dtype::F32, &[1, 2, 8, 8]);
    // The first channel is one value, the second half that and half its opposite.
    let of = |index: usize| match index {
        0..64 => -3.0,
        _ if index % 8 < 4 => 2.0,
        _ => -2.0,
    };
    let values: Vec<f32> = (0..128).map(of).collect();
    let payload = payload(codec.as_ref(), &layout, &bytes(&values));
    let lines: Vec<String> = payload.chunks(16).map(|line| format!("{line:02x?}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
