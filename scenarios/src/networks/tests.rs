use schema::{Bytes, Document, Phase, Role, Trace};

use super::*;

fn trace(name: &str, options: &NetworkOptions) -> Trace {
    let machine = crate::machine("p100").expect("it comes with tidegate");
    let network = network(name, options).unwrap_or_else(|error| panic!("{name}: {error}"));
    modelled_trace(&network, &machine).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn batch(batch: u32) -> NetworkOptions {
    NetworkOptions { batch, ..NetworkOptions::default() }
}

/// Sum of live tensors, at the op where it is largest; in-place outputs share.
fn peak(trace: &Trace) -> u64 {
    let bytes = |t: &schema::TensorId| trace.tensors[t.index()].bytes.0;
    let mut live = trace.constant_bytes().0;
    let mut peak = live;
    for op in &trace.ops {
        let shared: u64 = op.in_place.iter().map(|pair| bytes(&pair.input)).sum();
        live += op.writes.iter().map(bytes).sum::<u64>();
        peak = peak.max(live + op.workspace.0 - shared);
        live -= op.frees.iter().map(bytes).sum::<u64>();
    }
    peak
}

#[test]
fn parameter_counts_are_those_of_the_authors() {
    // Counts of torchvision, timm, PyTorch-UNet and Hugging Face for the same networks.
    let expected = [
        ("alexnet", 61_100_840),
        ("bert-large", 335_174_458),
        ("densenet121", 7_978_856),
        ("efficientnet-b0", 5_288_548),
        ("gpt2-xl", 1_557_611_200),
        ("inceptionv4", 42_679_816),
        ("llama3-8b", 8_030_261_248),
        ("mobilenet-v1", 4_231_976),
        ("mobilenet-v2", 3_504_872),
        ("resnet101", 44_549_160),
        ("resnet18", 11_689_512),
        ("resnet32", 464_154),
        ("resnet50", 25_557_032),
        ("squeezenet", 1_235_496),
        ("vgg16", 138_357_544),
        ("vit-l16", 304_326_632),
    ];
    for (name, count) in expected {
        let network = network(name, &batch(1)).expect("it comes with tidegate");
        assert_eq!(network.parameter_count(), count, "{name}");
    }
}

#[test]
fn every_network_makes_a_well_formed_trace_at_small_and_large_batches() {
    for info in networks() {
        for size in [1, 4096] {
            for (in_place, fused_attention) in [(true, true), (false, false)] {
                let pool_indices = in_place;
                let options =
                    NetworkOptions { in_place, fused_attention, pool_indices, ..batch(size) };
                let trace = trace(info.name, &options);
                assert_eq!(trace.check(), Ok(()), "{}", info.name);
                assert_eq!(trace.batch, Some(size));
            }
        }
    }
}
