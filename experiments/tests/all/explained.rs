//! What PyTorch's allocator is predicted to hold for described networks, against what it held on an H100.

use std::path::Path;

use experiments::explain::Band;
use experiments::recipes::{modelled, recipe};
use networks::{NetworkOptions, Optimizer};
use schema::{Bytes, Dtype, Framework};
use serde_json::Value;
use simulator::reserved_in_core;

#[test]
fn predictions_are_off_by_no_more_than_is_said() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recordings/h100/summary.json");
    let summary = std::fs::read_to_string(file).expect("it is there");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let machine = scenarios::machine("h100-sxm").expect("it is bundled");
    let (mut most, mut lines) = ([0.0f64; 2], String::new());
    for (run, network, batch) in [
        ("resnet50-b32-f32", "resnet50", 32),
        ("resnet50-b64-f32", "resnet50", 64),
        ("resnet18-b64-f32", "resnet18", 64),
        ("vgg16-b32-f32", "vgg16", 32),
        ("mobilenet_v2-b64-f32", "mobilenet-v2", 64),
        ("densenet121-b32-f32", "densenet121", 32),
        ("bert-large-b8-s512-f32", "bert-large", 8),
        ("gpt2-b4-s1024-f32", "gpt2", 4),
        ("vit_b_16-b32-tf32", "vit_b_16", 32),
    ] {
        let runs = summary["runs"].as_array().expect("a list");
        let held = runs.iter().find(|it| it["name"] == run).expect("it was recorded");
        let held = held["peak_reserved"].as_u64().expect("bytes") as f64;
        let (dtype, optimizer) = (Some(Dtype::F32), Some(Optimizer::Momentum));
        let options = NetworkOptions { batch, dtype, optimizer, ..NetworkOptions::default() };
        let recipe = recipe(network, Framework::Pytorch, options).expect("it is bundled");
        let trace = modelled(&recipe, &machine, None).expect("it is modelled");
        let predicted = reserved_in_core(&trace, None).expect("there is no limit").reserved;
        let (band, off) = (Band::of(&trace), held / predicted.0 as f64 - 1.0);
        assert!((-band.less..=band.more).contains(&off), "{network}: {off} of {band:?}");
        let index = usize::from(band == Band::CONVOLUTIONS);
        most[index] = most[index].max(off);
        lines += &format!(
            "{network:<13} {batch:>3} {predicted:>10} {:>10} {:>+6.1} %\n",
            Bytes(held as u64),
            off * 100.0
        );
    }
    // No wider than it takes.
    let stated = [Band::DESCRIBED.more, Band::CONVOLUTIONS.more];
    assert!(most.iter().zip(stated).all(|(most, stated)| stated - most < 0.03), "{most:?}");
    insta::assert_snapshot!(lines);
}
