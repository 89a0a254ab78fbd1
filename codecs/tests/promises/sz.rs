//! What SZ promises: the bound for every element, exact zeros, exact special values.

use codecs::{CodecId, Fidelity, Layout};
use half::{bf16, f16};
use proptest::prelude::*;
use schema::Dtype;

use crate::{codec, payload, restored};

/// An element type under test.
trait Value: Copy + PartialEq + std::fmt::Debug {
    const DTYPE: Dtype;
    fn of(x: f32) -> Self;
    fn wide(self) -> f64;
    fn bytes(self) -> Vec<u8>;
    fn all(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! value {
    ($type:ty, $dtype:expr, $of:expr) => {
        impl Value for $type {
            const DTYPE: Dtype = $dtype;
            fn of(x: f32) -> Self {
                $of(x)
            }
            fn wide(self) -> f64 {
                self.into()
            }
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn all(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().map(|b| Self::from_le_bytes(*b)).collect()
            }
        }
    };
}

value!(f32, Dtype::F32, |x| x);
value!(f16, Dtype::F16, f16::from_f32);
value!(bf16, Dtype::Bf16, bf16::from_f32);

/// Compresses and decompresses and holds the result against everything that is promised.
fn check<V: Value>(name: &str, shape: &[usize], values: &[f32]) -> Vec<u8> {
    let codec = codec(name);
    let keeps_zeros = !name.starts_with("sz-1.4");
    let layout = Layout::new(V::DTYPE, shape).unwrap();
    let values: Vec<V> = values.iter().map(|x| V::of(*x)).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.bytes()).collect();
    let payload = payload(codec.as_ref(), &layout, &bytes);
    let Fidelity::Bounded { max_abs_error } = codec.fidelity() else { panic!("not bounded") };
    let back = V::all(&restored(codec.as_ref(), &layout, &payload));
    assert_eq!(back.len(), values.len());
    for (i, (x, y)) in values.iter().zip(&back).enumerate() {
        if x.wide().is_finite() {
            let error = (x.wide() - y.wide()).abs();
            assert!(error <= max_abs_error, "element {i}: {x:?} became {y:?}");
        } else {
            assert_eq!(x.bytes(), y.bytes(), "element {i}");
        }
        if x.wide() == 0.0 && keeps_zeros {
            assert!(y.wide() == 0.0, "element {i} was zero and became {y:?}");
        }
    }
    payload
}

/// Numbers that look like noise and are the same on every run.
fn noise(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    }
}

/// What the values of a tensor look like.
#[derive(Debug, Clone, Copy)]
enum Texture {
    Constant,
    Waves,
    HalfZero,
    Noise,
    Ties,
    AnyBits,
}

const TEXTURES: [Texture; 6] = [
    Texture::Constant,
    Texture::Waves,
    Texture::HalfZero,
    Texture::Noise,
    Texture::Ties,
    Texture::AnyBits,
];

const SPECIAL: [u32; 12] = [
    0x8000_0000, // -0.0
    0x0000_0001, // the smallest subnormal number
    0x807f_ffff, // the largest, negative
    0x0080_0000, // the smallest normal number
    0x7f7f_ffff, // the largest
    0xff7f_ffff,
    0x7f80_0000, // infinities
    0xff80_0000,
    0x7fc0_0000, // NaN
    0x7fc0_1234, // with a payload
    0xffc0_0001,
    0x4b80_0001, // an odd number above 2^24
];

fn values(texture: Texture, seed: u64, count: usize, special_in: u32, bound: f64) -> Vec<f32> {
    let mut next = noise(seed);
    let constant = (next() as f32 / 2f32.powi(31) - 1.0) * 4.0;
    let mut value = |i: usize| {
        let unit = next() as f32 / 2f32.powi(31) - 1.0;
        match texture {
            Texture::Constant => constant,
            Texture::Waves => (i as f32 * 0.01).sin() + (i as f32 * 0.003).cos(),
            Texture::HalfZero => unit.max(0.0),
            Texture::Noise => unit * 8.0,
            Texture::Ties => (bound * f64::from((unit * 100.0) as i32)) as f32,
            Texture::AnyBits => f32::from_bits((unit * 2f32.powi(31)) as i32 as u32),
        }
    };
    let mut values: Vec<f32> = (0..count).map(&mut value).collect();
    for value in &mut values {
        if special_in > 0 && next().is_multiple_of(special_in) {
            *value = f32::from_bits(SPECIAL[next() as usize % SPECIAL.len()]);
        }
    }
    values
}

prop_compose! {
    fn a_shape()(rank in 1usize..=4)(dims in prop::collection::vec(0usize..=20, rank)) -> Vec<usize> {
        dims
    }
}

fn a_name() -> impl Strategy<Value = String> {
    (-6.0f64..1.0, 1usize..=3).prop_map(|(log, dims)| format!("sz:{:e}:{dims}d", 10f64.powf(log)))
}

fn bound_of(name: &str) -> f64 {
    match name.parse() {
        Ok(CodecId::Sz { bound, .. }) => bound.get(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_bound_holds(
        name in a_name(),
        shape in a_shape(),
        texture in prop::sample::select(&TEXTURES[..]),
        seed: u64,
        special_in in prop::sample::select(vec![0u32, 2, 10, 300]),
    ) {
        let count = shape.iter().product();
        let values = values(texture, seed, count, special_in, bound_of(&name));
        check::<f32>(&name, &shape, &values);
        check::<f16>(&name, &shape, &values);
        check::<bf16>(&name, &shape, &values);
        let before = format!("sz-1.4:{:e}", bound_of(&name));
        check::<f32>(&before, &shape, &values);
        check::<f16>(&before, &shape, &values);
        check::<bf16>(&before, &shape, &values);
    }

    #[test]
    fn values_at_the_edge_of_the_bound(name in a_name(), steps in 0u32..1 << 23, ulps in -3i32..=3) {
        let edge = (f64::from(steps) * bound_of(&name)) as f32;
        let near = f32::from_bits(edge.to_bits().saturating_add_signed(ulps));
        check::<f32>(&name, &[300], &[near, -near].repeat(150));
        let before = format!("sz-1.4:{:e}", bound_of(&name));
        check::<f32>(&before, &[300], &[0.3, near, -near].repeat(100));
    }

    #[test]
    fn what_is_within_the_bound_of_zero_is_zero(name in a_name(), seed: u64, texture in prop::sample::select(&TEXTURES[..])) {
        let codec = codec(&name);
        let layout = Layout::new(Dtype::F32, &[1500]).unwrap();
        let bound = bound_of(&name);
        let scale = (4.0 * bound) as f32;
        let near_zero = values(texture, seed, 1500, 0, bound).into_iter().map(|x| x * scale);
        let bytes: Vec<u8> = near_zero.flat_map(f32::to_le_bytes).collect();
        let payload = payload(codec.as_ref(), &layout, &bytes);
        // A block that does not compress is kept as it is, small values too.
        prop_assume!(payload.len() < bytes.len());
        let back = f32::all(&restored(codec.as_ref(), &layout, &payload));
        prop_assert!(back.iter().all(|x| x.to_bits() == 0 || x.is_nan() || x.abs() > bound as f32));
    }
}

#[test]
fn shapes_of_many_blocks() {
    for shape in [
        &[200_000][..],
        &[70_000, 3],
        &[3, 70_000],
        &[1, 140_000, 1],
        &[5, 200, 201],
        &[2, 300, 301],
        &[7, 1, 150, 151],
        &[40_000, 1, 5],
        &[2, 3, 65_536],
    ] {
        let count: usize = shape.iter().product();
        for texture in TEXTURES {
            let values = values(texture, 7, count, 1000, 1e-3);
            for dims in 1..=3 {
                check::<f32>(&format!("sz:1e-3:{dims}d"), shape, &values);
            }
        }
    }
}

#[test]
fn empty_tensors_are_nothing() {
    for shape in [&[0][..], &[3, 0], &[0, 70_000, 2]] {
        assert!(check::<f32>("sz:1e-3:3d", shape, &[]).is_empty());
    }
    assert!(check::<f32>("sz:1e-3", &[], &[0.7]).len() > 4);
}

#[test]
fn constants_and_zeros_take_almost_nothing() {
    let shape = [64, 1024];
    for constant in [0.0, -0.0, 0.3, -1e3] {
        let payload = check::<f32>("sz:1e-3:2d", &shape, &[constant; 65_536]);
        assert!(payload.len() < 512, "{constant}: {} bytes", payload.len());
    }
}

#[test]
fn what_cannot_be_quantised_is_stored_as_it_is() {
    let layout = Layout::new(Dtype::F32, &[100_000]).unwrap();
    let values = values(Texture::Noise, 3, 100_000, 0, 1e-3).into_iter().map(|x| x * 1e30);
    let codec = codec("sz:1e-3");
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    let payload = payload(codec.as_ref(), &layout, &bytes);
    assert_eq!(payload.len(), 16 + bytes.len(), "a table of two blocks, and the tensor");
    assert!(payload.ends_with(&bytes));
}

#[test]
fn extreme_bounds_hold() {
    let values = values(Texture::Noise, 5, 5000, 20, 1.0);
    let tiny = check::<f32>("sz:1e-300", &[5000], &values);
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    assert!(tiny.ends_with(&bytes), "nothing but the values themselves will do");
    check::<f32>("sz:1e300", &[5000], &values);
    check::<f32>("sz:1e-37", &[5000], &values);
}

/// Section 4.2 of COMET: "may change them into a continuous small value within the user-defined error bound instead of
/// exactly zero".
#[test]
fn sz_as_it_was_moves_all_zeros_by_the_same() {
    let mut values = values(Texture::HalfZero, 11, 5000, 0, 0.1);
    values[0] = 0.33;
    let back = |name: &str| {
        let codec = codec(name);
        let layout = Layout::new(Dtype::F32, &[5000]).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        f32::all(&restored(codec.as_ref(), &layout, &payload(codec.as_ref(), &layout, &bytes)))
    };
    let zeros = |back: Vec<f32>| -> Vec<f32> {
        let pairs = values.iter().zip(back);
        pairs.filter(|(x, _)| **x == 0.0).map(|(_, y)| y).collect()
    };
    // 0.33 less two steps of 0.2.
    let moved = zeros(back("sz-1.4:0.1"));
    assert!(moved.len() > 2000 && moved.iter().all(|y| (y + 0.07).abs() < 1e-6), "{:?}", moved[0]);
    assert!(zeros(back("sz:0.1")).iter().all(|y| *y == 0.0));
}

/// The bytes on the wire, which other implementations must write too.
#[test]
fn bytes_of_a_small_block() {
    let mut values: Vec<f32> = (0..40).map(|i| (i * i % 23) as f32 * 0.25).collect();
    values.extend([0.0; 20]);
    values[30] = f32::INFINITY;
    let payload = check::<f32>("sz:0.125", &[60], &values);
    let hex: Vec<String> = payload
        .chunks(16)
        .map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" "))
        .collect();
    insta::assert_snapshot!(hex.join("\n"), @"
    4e 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    01 00 49 00 01 00 00 00 19 00 04 00 00 00 00 50
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 55 55
    55 55 55 45 54 00 00 55 54 00 50 45 45 00 05 60
    63 25 e1 f5 b0 04 f0 b9 eb dc 77 b4 e4 6c ac 24
    7c 3e 2c 01 7c ee 9a cc 1e 00 00 00 80 7f
    ");
}
