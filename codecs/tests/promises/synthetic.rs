//! Synthetic tensors are as sparse and as smooth as they say.

use codecs::Error;
use codecs::synthetic::Recipe;
use schema::Dtype;

use crate::layout;

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
