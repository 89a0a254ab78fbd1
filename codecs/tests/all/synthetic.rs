//! Synthetic tensors are as sparse and as smooth as they say.

use codecs::quality::quality;
use codecs::synthetic::Recipe;
use codecs::{Error, TensorView};
use schema::Dtype;

use crate::{codec, layout};

fn values(sparsity: f64, smoothness: f64) -> Vec<f32> {
    let layout = layout(Dtype::F32, &[2, 8, 32, 32]);
    let bytes = Recipe { layout, sparsity, smoothness, seed: 1 }.bytes().unwrap();
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Correlation of elements with those so many places behind.
fn correlation(values: &[f32], distance: usize) -> f64 {
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
    let centred: Vec<f64> = values.iter().map(|v| f64::from(*v) - mean).collect();
    let product: f64 = centred.iter().zip(&centred[distance..]).map(|(a, b)| a * b).sum();
    product / centred.iter().map(|v| v * v).sum::<f64>()
}

#[test]
fn sparsity_is_met_to_the_element() {
    for sparsity in [0.25, 0.5, 0.9, 1.0] {
        let values = values(sparsity, 0.7);
        let zeros = values.iter().filter(|value| value.to_bits() == 0).count();
        assert_eq!(zeros as f64, (values.len() as f64 * sparsity).round());
        assert!(values.iter().all(|value| *value >= 0.0));
    }
    assert!(values(0.0, 0.5).iter().all(|value| *value != 0.0));
}

#[test]
fn neighbours_resemble_each_other_as_stated() {
    assert!(correlation(&values(0.0, 0.0), 1).abs() < 0.02);
    let smooth = values(0.0, 0.8);
    // Across and down; rows are 32 long, so that a 32nd of the neighbours begin a new one.
    assert!((0.7..0.85).contains(&correlation(&smooth, 1)), "{}", correlation(&smooth, 1));
    assert!((0.7..0.85).contains(&correlation(&smooth, 32)), "{}", correlation(&smooth, 32));
    let variance = smooth.iter().map(|v| f64::from(v * v)).sum::<f64>() / smooth.len() as f64;
    assert!((0.8..1.2).contains(&variance), "{variance}");
}

#[test]
fn a_seed_stands_for_its_bytes() {
    let recipe =
        |seed| Recipe { layout: layout(Dtype::F16, &[1000]), sparsity: 0.5, smoothness: 0.5, seed };
    assert_eq!(recipe(1).bytes(), recipe(1).bytes());
    assert_ne!(recipe(1).bytes(), recipe(2).bytes());
    // On every machine, today and later.
    let hash = xxhash_rust::xxh3::xxh3_64(&recipe(1).bytes().unwrap());
    insta::assert_snapshot!(format!("{hash:016x}"));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let recipe = |dtype, sparsity, smoothness| Recipe {
        layout: layout(dtype, &[4]),
        sparsity,
        smoothness,
        seed: 1,
    };
    for recipe in [
        recipe(Dtype::F32, -0.1, 0.0),
        recipe(Dtype::F32, f64::NAN, 0.0),
        recipe(Dtype::F32, 0.5, 1.0),
        recipe(Dtype::U8, 0.5, 0.5),
    ] {
        assert!(matches!(recipe.bytes(), Err(Error::BadRecipe { .. })));
    }
}

#[test]
fn quality_knows_ratio_and_error() {
    let layout = layout(Dtype::F32, &[1 << 16]);
    let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.0, seed: 1 };
    let bytes = recipe.bytes().unwrap();
    let view = TensorView::new(&layout, &bytes).unwrap();
    let zvc = quality(codec("zvc").as_ref(), view).unwrap();
    // A bit of 32 for the bitmap, half of the values, 8 bytes per block and at most 15 of padding.
    assert!((1.0 / (0.5 + 1.0 / 32.0) - zvc.ratio()).abs() < 0.01, "{}", zvc.ratio());
    assert_eq!((zvc.difference.max_abs, zvc.difference.changed), (0.0, 0));
    let zfp = quality(codec("zfp:8").as_ref(), view).unwrap();
    assert_eq!(zfp.ratio(), 4.0);
    assert!(zfp.difference.rms > 0.0 && zfp.difference.rms < zfp.difference.max_abs);
}
