//! Planning a training epoch by epoch.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// With ops four times as fast and kernels half as fast as modelled, as in CSWAP+'s figure 9 more
/// layers are worth compressing the sparser they are; as modelled, the others' copies hide.
const VGG16: &str =
    "epochs vgg16 --batch 128 --machine cswap-v100 --codecs zvc --speed 4 --codec-speed 50%";

#[test]
fn more_tensors_are_compressed_as_they_become_sparse() {
    let sandbox = Sandbox::new();
    let text = sandbox.ok(&format!("{VGG16} --epochs 0..50 -o series.json"));
    assert!(text.contains("published: batch 128: 5 layers compressed at epoch 0"), "{text}");
    let rows = sandbox.json(&format!("{VGG16} --epochs 0..50 --format json"));
    let rows = rows.as_array().expect("a list");
    let number = |row: &Value, field: &str| row[field].as_u64().expect("a number");
    // Ranges end where decisions change, or where reserving less makes iterations faster.
    assert!(rows.windows(2).all(|w| number(&w[0], "compressed") <= number(&w[1], "compressed")));
    assert!(rows.windows(2).all(|w| number(&w[0], "iteration_ns") > number(&w[1], "iteration_ns")));
    let compressed = |row: &Value| number(row, "compressed");
    assert_eq!((compressed(&rows[0]), compressed(&rows[rows.len() - 1])), (5, 7));
    for row in rows {
        assert!(number(row, "iteration_ns") <= number(row, "vdnn_iteration_ns"), "{row}");
    }
    let series: Value = serde_json::from_str(&sandbox.text("series.json")).expect("JSON");
    assert_eq!(series["format"], "tidegate/plan-series");
    let plans = series["content"]["plans"].as_array().expect("a list");
    assert_eq!(plans.len(), rows.len());
    assert_eq!(
        (&plans[0]["first_epoch"], &plans[plans.len() - 1]["last_epoch"]),
        (&0.into(), &49.into())
    );
}

#[test]
fn the_lossy_parameter_slides_down() {
    let sandbox = Sandbox::new();
    let dense = "--activation leaky-relu --codecs zfp --lossy --epochs 0..20 --format json";
    let rows = sandbox.json(&format!("epochs vgg16 --batch 128 --machine cswap-v100 {dense}"));
    let rows = rows.as_array().expect("a list");
    let parameters: Vec<u64> = rows.iter().map(|r| r["parameter"].as_u64().expect("P")).collect();
    assert!(parameters.windows(2).all(|w| w[0] > w[1]), "{parameters:?}");
    assert!(parameters.len() > 5, "{parameters:?}");
}
