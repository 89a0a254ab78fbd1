use std::error::Error;

use super::*;
use crate::{modelled_trace, network};

fn read_toml(text: &str) -> Result<Network, NetworkError> {
    let options = NetworkOptions { batch: 2, ..NetworkOptions::default() };
    network_from_toml(text, Path::new("mine.toml"), &options)
}

fn example() -> &'static str {
    let (_, rest) = include_str!("../../scenarios/README.md")
        .split_once("## A network file\n\n```toml\n")
        .expect("one");
    rest.split_once("```").expect("it ends").0
}

/// What went wrong and every cause of it, one a line.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string().trim_end().to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!("\n{}", error.to_string().trim_end());
        cause = error.source();
    }
    text
}

#[test]
fn the_readme_s_example_is_a_network() {
    let network = read_toml(example()).expect("well formed");
    // Two convolutions, a normalisation and a linear layer.
    let expected = (3 * 64 * 9 + 64) + 2 * 64 + (64 * 64 * 9 + 64) + (64 * 10 + 10);
    assert_eq!(network.parameter_count(), expected);
    let machine = crate::test_machine::machine();
    let trace = modelled_trace(&network, &machine).expect("well formed");
    assert_eq!(trace.network, "mine");
    // `act1` is read by `conv2` and the sum, so its gradients are added up.
    let backward = trace.ops.iter().find(|op| op.name == "act1_ip_grad").expect("there is one");
    assert_eq!(backward.reads.len(), 3);
}

#[test]
fn every_kind_that_the_readme_lists_is_one() {
    let table =
        include_str!("../../scenarios/README.md").split_once("| kind | fields").expect("a table").1;
    for (kind, ..) in KINDS {
        assert!(table.contains(&format!("`{kind}`")), "{kind}");
    }
}

#[test]
fn broken_files_are_refused_with_file_layer_and_remedy() {
    // Each under a line that says what is wrong with it.
    let broken = include_str!("toml_file_tests/broken.txt").split("# ").skip(1);
    let report = broken.map(|case| {
        let (what, text) = case.split_once('\n').expect("it is a line");
        let error = read_toml(text).expect_err(what);
        format!("# {what}\n{}\n", causes(&error))
    });
    insta::assert_snapshot!(report.collect::<Vec<_>>().join("\n"));
}

#[test]
fn networks_and_options_that_are_none_are_refused_with_a_remedy() {
    let plain = NetworkOptions::default();
    let cases = [
        ("resnet5", plain.clone()),
        ("lenet", plain.clone()),
        ("resnet50", NetworkOptions { batch: 0, ..plain.clone() }),
        ("resnet50", NetworkOptions { sequence: Some(5), ..plain.clone() }),
        ("vgg16", NetworkOptions { image: Some([16, 224]), ..plain.clone() }),
        ("unet", NetworkOptions { image: Some([64, 100]), ..plain.clone() }),
        ("vit-l16", NetworkOptions { image: Some([0, 16]), ..plain.clone() }),
        ("gpt2-xl", NetworkOptions { sequence: Some(1025), ..plain.clone() }),
        ("llama3-8b", NetworkOptions { activation: Some(Activation::Relu), ..plain.clone() }),
        ("resnet18", NetworkOptions { frames: Some(64), ..plain.clone() }),
        ("resnet18", NetworkOptions { dtype: Some(Dtype::U8), ..plain.clone() }),
        ("resnet18", NetworkOptions { progress: f64::NAN, ..plain.clone() }),
        ("plain20", NetworkOptions { batch: u32::MAX, ..plain.clone() }),
    ];
    let report =
        cases.map(|(name, options)| causes(&network(name, &options).expect_err("no such network")));
    insta::assert_snapshot!(report.join("\n"));
}
