//! The layers that a framework needs beside those of the network.

use std::borrow::Cow;

use schema::Dtype;

use crate::conventions::Conventions;
use crate::layer::{Compute, Layer, LayerId, Movement, Network, elements};

/// The network with a copy of what an op would read twice, and with the classes of the loss last,
/// where the conventions want that.
pub(super) fn prepared<'a>(network: &'a Network, by: &Conventions) -> Cow<'a, Network> {
    if !by.distinct && by.fused_loss && by.uniform {
        return Cow::Borrowed(network);
    }
    let mut to = Network { layers: Vec::new(), ..network.clone() };
    if !by.uniform {
        to.dtype = network.options.dtype.unwrap_or(Dtype::F32);
    }
    // Where each layer went, and the layer whose output each layer's is a view of.
    let (mut ids, mut storage): (Vec<LayerId>, Vec<usize>) = (Vec::new(), Vec::new());
    let add = |to: &mut Network, storage: &mut Vec<usize>, layer: Layer| {
        storage.push(match layer.compute {
            Compute::View => storage[layer.inputs[0].0],
            _ => to.layers.len(),
        });
        to.layers.push(layer);
        LayerId(to.layers.len() - 1)
    };
    for layer in &network.layers {
        let mut layer = layer.clone();
        layer.inputs.iter_mut().for_each(|input| *input = ids[input.0]);
        for index in 1..layer.inputs.len() {
            let (before, input) = (&layer.inputs[..index], layer.inputs[index]);
            if by.distinct && before.iter().any(|other| storage[other.0] == storage[input.0]) {
                let copy = Layer {
                    name: format!("{}.copy{index}", layer.name),
                    compute: Compute::Movement(Movement::Copy),
                    inputs: vec![input],
                    shape: to.layers[input.0].shape.clone(),
                    parameters: Vec::new(),
                };
                layer.inputs[index] = add(&mut to, &mut storage, copy);
            }
        }
        let rank = layer.shape.len();
        if layer.compute == Compute::Loss && !by.fused_loss && rank > 3 && !layer.is_binary() {
            // A class for each position.
            let order: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
            let classes = layer.shape[1];
            let turned = Layer {
                name: format!("{}.logits", layer.name),
                inputs: layer.inputs,
                shape: order.iter().map(|axis| layer.shape[*axis]).collect(),
                compute: Compute::Movement(Movement::Reorder(order)),
                parameters: Vec::new(),
            };
            layer.shape = vec![elements(&turned.shape) / classes.max(1), classes];
            layer.inputs = vec![add(&mut to, &mut storage, turned)];
        }
        ids.push(add(&mut to, &mut storage, layer));
    }
    Cow::Owned(to)
}
