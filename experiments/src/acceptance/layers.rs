//! The step that holds every layer on a GPU to the host's.

use std::collections::BTreeMap;

use runtime::cuda::{CudaLayers, LayerDifference, MayCompute};
use runtime::network::Network;
use serde::Serialize;

use crate::{Error, Result};

/// Networks that have every layer between them, small enough for the host.
pub const NETWORKS: [&str; 12] = [
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
pub const SMALL: [&str; 3] = [
    "squeezenet:batch=1:image=64",
    "stories260k:batch=1:sequence=16",
    "bert-tiny:batch=1:sequence=16",
];

/// Sums of a hundred thousand products in another order are as far from each other, in units of the largest
/// of a tensor; a mistake is farther.
const TOLERANCE: f64 = 1e-4;

const WHO: [(&str, MayCompute); 3] = [
    ("own kernels", MayCompute { blas: false, dnn: false }),
    ("cuBLAS", MayCompute { blas: true, dnn: false }),
    ("cuDNN, cuBLAS", MayCompute { blas: true, dnn: true }),
];

/// What was found of a network and of whose libraries computed.
#[derive(Serialize)]
pub struct Row {
    network: String,
    by: &'static str,
    ops: usize,
    /// The largest difference, over the largest value of its tensor.
    worst: f64,
    worst_op: String,
    /// Ops beyond the tolerance, or whose second run had other bits.
    wrong: usize,
}

/// What was found of all networks, and which ops are wrong.
#[derive(Serialize)]
pub struct Layers {
    layers: Vec<Row>,
    wrong: Vec<String>,
}

/// Holds the layers of networks, named as they were asked for, to the host's.
///
/// # Errors
/// If there is no device, or a kernel fails.
pub fn layers(networks: &[(String, Network)]) -> Result<Layers> {
    let device = CudaLayers::open(0)?;
    let mut layers = Layers { layers: Vec::new(), wrong: Vec::new() };
    for (text, network) in networks {
        let all = device.compare(network, &WHO.map(|(_, who)| who))?;
        for ((by, _), differences) in WHO.iter().zip(all) {
            layers.layers.push(row(text, by, network, &differences));
            let of = |(op, how)| format!("{text}, {by}, {op}: {how}");
            layers.wrong.extend(wrong_ops(network, &differences).into_iter().map(of));
        }
    }
    Ok(layers)
}

impl Layers {
    /// # Errors
    /// If any op is wrong.
    pub fn end(&self) -> Result<()> {
        match self.wrong.first() {
            None => Ok(()),
            Some(first) => Err(Error::OtherLayers(self.wrong.len(), first.clone())),
        }
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

fn wrong_ops(network: &Network, all: &[LayerDifference]) -> BTreeMap<String, String> {
    let wrong = all.iter().filter(|one| one.off > TOLERANCE || !one.same_bits);
    let how = |one: &LayerDifference| match one.same_bits {
        true => format!("{} is off by {:.1e}", network.tensor(one.tensor).name, one.off),
        false => format!("{} has other bits in a second run", network.tensor(one.tensor).name),
    };
    wrong.map(|one| (network.op(one.op).name.clone(), how(one))).collect()
}
