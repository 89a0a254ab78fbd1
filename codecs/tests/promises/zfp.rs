//! ZFP keeps its rate, and is as close as the rate allows.

use codecs::layout::width;
use codecs::quality::difference;
use codecs::synthetic::Recipe;
use codecs::{Error, TensorView};
use schema::Dtype;

use crate::{codec, layout, on_threads, payload, restored};

#[test]
fn payloads_are_as_long_as_the_rate_says() {
    // (name, shape, blocks, bits of a block)
    let cases: [(&str, &[usize], usize, usize); 7] = [
        ("zfp:8", &[1 << 16], 1 << 14, 32),
        ("zfp:8", &[1], 1, 32),
        ("zfp:8", &[0], 0, 32),
        ("zfp:2.25", &[4097], 1025, 9),
        ("zfp:4:2d", &[3, 5, 9], 4 * 3, 64),
        ("zfp:0.5625:2d", &[100, 40], 25 * 10, 9),
        ("zfp:2:3d", &[2, 3, 5, 9], 2 * 2 * 3, 128),
    ];
    for (name, shape, blocks, bits) in cases {
        let layout = layout(Dtype::F32, shape);
        let bytes = vec![0; layout.bytes()];
        let len = payload(codec(name).as_ref(), &layout, &bytes).len();
        assert_eq!(len, (blocks * bits).div_ceil(64) * 8, "{name} {shape:?}");
    }
}

#[test]
fn a_model_of_the_rate_reserves_what_is_written() {
    use schema::{Bytes, CodecModel, Fidelity, ModelBasis, Nanos, RatioBand, SizeModel};
    use schema::{TimeModel, TimePoint};
    let point = |bytes| TimePoint { bytes: Bytes(bytes), time: Nanos(1) };
    let band = RatioBand { up_to_permille: 1000, points: vec![point(0), point(1)] };
    let (basis, source) = (ModelBasis::Modelled, String::new());
    let times = TimeModel { bands: vec![band], spread_permille: None, basis, source };
    for quarters in [9u32, 10, 17, 32, 33, 43, 64, 91, 100] {
        let bits = f64::from(quarters) / 4.0;
        let zfp = codec(&format!("zfp:{bits}"));
        let model = CodecModel {
            codec: "zfp".into(),
            parameter: Some(bits),
            fidelity: Fidelity::FixedRate,
            size: SizeModel::Rate { permille: (1000 * quarters).div_ceil(128), margin_permille: 0 },
            compress: times.clone(),
            decompress: times.clone(),
        };
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            for elements in (1..300).chain([1001, 4095, 65_537, 1 << 20]) {
                // Devices show a codec a sequence, whatever the tensor's shape.
                let layout = layout(dtype, &[elements]);
                let raw = layout.bytes() as u64;
                let written = zfp.worst_case(&layout) as u64;
                let reserved = model.cost(Bytes(raw), None, Some(dtype)).map(|cost| cost.reserved);
                let expected = (written < raw).then_some(Bytes(written));
                assert_eq!(reserved, expected, "zfp:{bits} of {elements} {dtype:?}");
            }
        }
    }
}

#[test]
fn the_stream_is_that_of_the_whole_field() {
    // Parts that threads compress join to what ZFP makes of the field at once.
    use zfp_rs::{ZfpBitStream, ZfpConfig, ZfpDimensionality, ZfpField, ZfpScalarType};
    let shape = [150, 37, 41];
    let layout = layout(Dtype::F32, &shape);
    let recipe = Recipe { layout: layout.clone(), sparsity: 0.4, smoothness: 0.9, seed: 2 };
    let bytes = recipe.bytes().unwrap();
    let values: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let unaligned = zfp_rs::ZfpStreamAlignment::Unaligned;
    let whole = |dims, field: &ZfpField<'_>, rate| {
        let config = ZfpConfig::fixed_rate(rate, ZfpScalarType::F32, dims, unaligned).unwrap();
        let room = config.maximum_size(ZfpScalarType::F32, field.dims()).unwrap();
        let mut stream = ZfpBitStream::new(room).unwrap();
        stream.compress(&config, field).unwrap();
        stream.as_bytes().to_vec()
    };
    let ours = |name: &str| on_threads(3, || payload(codec(name).as_ref(), &layout, &bytes));
    let line = ZfpField::new(&values, values.len()).unwrap();
    let plane = ZfpField::new(&values, [41, 150 * 37]).unwrap();
    let cube = ZfpField::new(&values, [41, 37, 150]).unwrap();
    assert!(ours("zfp:2.75") == whole(ZfpDimensionality::D1, &line, 2.75));
    assert!(ours("zfp:4.0625:2d") == whole(ZfpDimensionality::D2, &plane, 4.0625));
    assert!(ours("zfp:3.015625:3d") == whole(ZfpDimensionality::D3, &cube, 3.015625));
}

#[test]
fn more_bits_are_closer() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        let layout = layout(dtype, &[4, 16, 33, 30]);
        let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.9, seed: 5 };
        let bytes = recipe.bytes().unwrap();
        for dims in ["", ":2d", ":3d"] {
            let error = |rate: u32| {
                let codec = codec(&format!("zfp:{rate}{dims}"));
                let payload = payload(codec.as_ref(), &layout, &bytes);
                let back = restored(codec.as_ref(), &layout, &payload);
                difference(&layout, &bytes, &back).unwrap().max_abs
            };
            let errors = [4, 8, 16, 24].map(error);
            assert!(errors.is_sorted_by(|a, b| a >= b), "{dtype:?}{dims}: {errors:?}");
            // 24 of 32 bits hold what a half has to say.
            let limit = if dtype == Dtype::F32 { 1e-4 } else { 1e-2 };
            assert!(errors[3] < limit, "{dtype:?}{dims}: {errors:?}");
        }
    }
}

#[test]
fn what_is_not_finite_is_refused() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        let layout = layout(dtype, &[200_000]);
        let mut bytes = vec![0; layout.bytes()];
        // All bits set: a NaN of any type, at two places of which the first is named.
        for index in [190_000, 150_001] {
            bytes[index * width(dtype)..][..width(dtype)].fill(0xff);
        }
        let codec = codec("zfp:8");
        let mut out = vec![0; codec.worst_case(&layout)];
        let refused = codec.compress(TensorView::new(&layout, &bytes).unwrap(), &mut out);
        assert_eq!(refused, Err(Error::NotFinite { codec: codec.id(), index: 150_001 }));
    }
}

#[test]
fn halves_stay_finite() {
    for dtype in [Dtype::F16, Dtype::Bf16] {
        let largest: u16 = if dtype == Dtype::F16 { 0x7bff } else { 0x7f7f };
        let signs = (0..64).map(|index| if index % 3 == 0 { largest } else { largest | 0x8000 });
        let bytes: Vec<u8> = signs.flat_map(u16::to_le_bytes).collect();
        let layout = layout(dtype, &[64]);
        for rate in [3, 8] {
            let codec = codec(&format!("zfp:{rate}"));
            let payload = payload(codec.as_ref(), &layout, &bytes);
            let back = restored(codec.as_ref(), &layout, &payload);
            let halves = back.as_chunks().0.iter().map(|half| u16::from_le_bytes(*half));
            assert!(halves.into_iter().all(|half| half & 0x7fff <= largest), "{dtype:?} {rate}");
        }
    }
}
