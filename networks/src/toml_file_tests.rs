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

const INPUT: &str = "input = [3, 8, 8]\n";

fn layer(rest: &str) -> String {
    format!("{INPUT}[[layer]]\nname = \"one\"\n{rest}")
}

#[test]
fn broken_files_are_refused_with_file_layer_and_remedy() {
    let twice = "kind = \"relu\"\n[[layer]]\nname = \"one\"\nkind = \"relu\"";
    let broken = [
        ("not TOML", "input = 3 x 8".to_string()),
        ("no input", "[[layer]]\nname = \"one\"\nkind = \"relu\"".to_string()),
        ("no layers", INPUT.to_string()),
        ("an input without extent", "input = [0]\nlayer = []".to_string()),
        ("unknown field", layer("kind = \"relu\"\nfilters = 3")),
        ("unknown kind", layer("kind = \"convolutoin\"")),
        ("a name twice", layer(twice)),
        ("a field is missing", layer("kind = \"convolution\"\nkernel = 3")),
        ("a field of another kind", layer("kind = \"relu\"\nkernel = 3")),
        ("a negative figure", layer("kind = \"linear\"\nwidth = -1")),
        ("no such input", layer("kind = \"relu\"\ninputs = [\"zero\"]")),
        ("too few inputs", layer("kind = \"add\"\ninputs = [\"input\"]")),
        ("window too large", layer("kind = \"max-pool\"\nkernel = 9")),
        ("no stride", layer("kind = \"max-pool\"\nkernel = 2\nstride = 0")),
        ("groups", layer("kind = \"convolution\"\nchannels = 8\nkernel = 1\ngroups = 2")),
        ("no groups", layer("kind = \"convolution\"\nchannels = 8\nkernel = 1\ngroups = 0")),
        ("huge", layer("kind = \"linear\"\nwidth = 9000000000000000000")),
        ("padding", layer("kind = \"max-pool\"\nkernel = 2\npadding = 9000000000000000000")),
        (
            "shapes",
            layer(
                "kind = \"linear\"\nwidth = 5\n[[layer]]\nname = \"two\"\nkind = \"add\"\ninputs = [\"input\", \"one\"]",
            ),
        ),
        (
            "rank",
            layer(
                "kind = \"flatten\"\n[[layer]]\nname = \"two\"\nkind = \"convolution\"\nchannels = 1\nkernel = 1",
            ),
        ),
        (
            "heads",
            layer("kind = \"attention\"\nheads = 3\ninputs = [\"input\", \"input\", \"input\"]"),
        ),
    ];
    let report = broken.map(|(what, text)| {
        let error = read_toml(&text).expect_err(what);
        format!("# {what}\n{}\n", causes(&error))
    });
    insta::assert_snapshot!(report.join("\n"));
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
