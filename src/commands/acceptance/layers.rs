//! The step that holds every layer on a GPU to the host's.

use std::collections::BTreeMap;

use runtime::cuda::{CudaLayers, LayerDifference, MayCompute};
use runtime::network::Network;
use serde::Serialize;

use crate::commands::check::Subject;
use crate::exit::{Exit, OrExit, Result, WithExit};
use crate::output::print_json;

/// Networks that have every layer between them, small enough for the host.
const NETWORKS: [&str; 12] = [
    "resnet18:batch=2:image=64",
    "mobilenet-v2:batch=2:image=64",
    "efficientnet-b0:batch=2:image=64",
    "squeezenet:batch=2:image=64",
    "densenet121:batch=2:image=64",
    "alexnet:batch=2:image=127",
    "unet:batch=1:image=64",
    "vit-ti16:batch=1",
    "bert-tiny:batch=2:sequence=64",
    "stories260k:batch=2:sequence=64",
    "resnet18:batch=2:image=64:dtype=bf16",
    "bert-tiny:batch=2:sequence=64:dtype=bf16",
];

/// Some of them, smaller, for a checker that makes everything slow.
const SMALL: [&str; 3] = [
    "squeezenet:batch=1:image=64",
    "stories260k:batch=1:sequence=16",
    "bert-tiny:batch=1:sequence=16",
];

/// Sums of a hundred thousand products in another order are as far from each other, in units of the largest
/// of a tensor; a mistake is farther.
const TOLERANCE: f64 = 1e-4;

/// Whose libraries may compute.
const WHO: [(&str, MayCompute); 3] = [
    ("own kernels", MayCompute { blas: false, dnn: false }),
    ("cuBLAS", MayCompute { blas: true, dnn: false }),
    ("cuDNN, cuBLAS", MayCompute { blas: true, dnn: true }),
];

/// What was found of a network and of whose libraries computed.
#[derive(Serialize)]
struct Row {
    network: String,
    by: &'static str,
    ops: usize,
    /// The largest difference, over the largest value of its tensor.
    worst: f64,
    worst_op: String,
    /// Ops beyond the tolerance, or whose second run had other bits.
    wrong: usize,
}

/// Runs in this process and prints what it found; of less where a checker looks on.
pub fn run(small: bool) -> Result {
    let networks = if small { &SMALL[..] } else { &NETWORKS[..] };
    let layers = CudaLayers::open(0).or_exit(Exit::Failed)?;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for text in networks {
        let subject: Subject = text
            .parse()
            .map_err(|error| anyhow::anyhow!("{text}: {error}"))
            .or_exit(Exit::Failed)?;
        let network = subject.named().network()?;
        let all = layers.compare(&network, &WHO.map(|(_, who)| who)).or_exit(Exit::Failed)?;
        for ((by, _), differences) in WHO.iter().zip(all) {
            rows.push(row(text, by, &network, &differences));
            let of = |(op, how)| format!("{text}, {by}, {op}: {how}");
            wrong.extend(wrong_ops(&network, &differences).into_iter().map(of));
        }
    }
    print_json(&BTreeMap::from([
        ("layers", serde_json::to_value(&rows).or_exit(Exit::Failed)?),
        ("wrong", serde_json::to_value(&wrong).or_exit(Exit::Failed)?),
    ]))?;
    match wrong.first() {
        None => Ok(()),
        Some(first) => Err(WithExit {
            exit: Exit::NotProven,
            error: anyhow::anyhow!(
                "{} ops are not as on the host; the first: {first}",
                wrong.len()
            ),
        }),
    }
}

fn row(text: &str, by: &'static str, network: &Network, all: &[LayerDifference]) -> Row {
    let worst = all.iter().max_by(|a, b| a.off.total_cmp(&b.off));
    Row {
        network: text.into(),
        by,
        ops: network.ops().len(),
        worst: worst.map_or(0.0, |worst| worst.off.min(f64::MAX)),
        worst_op: worst.map_or(String::new(), |worst| network.op(worst.op).name.clone()),
        wrong: wrong_ops(network, all).len(),
    }
}

/// Ops that are wrong, and how.
fn wrong_ops(network: &Network, all: &[LayerDifference]) -> BTreeMap<String, String> {
    let wrong = all.iter().filter(|one| one.off > TOLERANCE || !one.same_bits);
    let how = |one: &LayerDifference| match one.same_bits {
        true => format!("{} is off by {:.1e}", network.tensor(one.tensor).name, one.off),
        false => format!("{} has other bits in a second run", network.tensor(one.tensor).name),
    };
    wrong.map(|one| (network.op(one.op).name.clone(), how(one))).collect()
}
