//! Networks of [`scenarios`] as networks that train: the same layers, with weights and data.
//!
//! A network of `scenarios` is a graph of layers with shapes, from which times are modelled. Here
//! the graph becomes a [`runtime::network::Network`], whose ops compute: what is then measured,
//! planned and run is the network that was named. What differs from the modelled trace of the same
//! network:
//!
//! - Everything is of 32 bits, whatever the options choose; [`Network::in_bf16`] stores activations and
//!   gradients in 16.
//! - Gradients that arrive from two branches are added up by an op of their own.
//! - Max pooling keeps 32-bit positions, dropout keeps nothing (its backward draws the same numbers
//!   again from the seed), normalisations keep their statistics.
//! - Views are no ops. Running statistics are an op, because they must be brought up to date once,
//!   however often the normalisation is recomputed.

mod error;
mod layers;

use std::collections::BTreeMap;

use networks as described;
use networks::layer::{Compute, Layer};
use runtime::layers::{Adam, Optimizer, Sgd, ShapeError};
use runtime::network::{Builder, Network, Value};
use schema::TensorId;

pub use error::NotTrainable;

/// How a network is trained.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Training {
    /// Learning rate; the optimizer's usual one where there is none.
    pub learning_rate: Option<f32>,
}

/// The network that computes what `network` describes.
///
/// # Errors
///
/// Where the host does not compute one of its layers, which is named, or no memory could be
/// addressed that is large enough.
pub fn trainable(
    network: &described::Network,
    training: Training,
) -> Result<Network, NotTrainable> {
    let mut converter = Converter {
        network,
        builder: Builder::new(network.name(), network.batch() as usize),
        values: Vec::with_capacity(network.graph().len()),
        tables: BTreeMap::new(),
    };
    for layer in network.graph() {
        if layer.compute == Compute::Loss {
            return converter.finish(layer, optimizer(network.optimizer(), training));
        }
        let value = converter.layer(layer)?;
        // A layer may view its result in another shape.
        let shape = converter.extents(layer, &layer.shape)?;
        let value = converter.builder.view(&value, &shape);
        let value = value.map_err(|source| converter.misfit(layer, source))?;
        converter.values.push(value);
    }
    Err(NotTrainable::NoLoss { network: network.name().to_string() })
}

fn optimizer(kind: described::Optimizer, training: Training) -> Option<Optimizer> {
    let (mut sgd, mut adam) = (Sgd::default(), Adam::default());
    if let Some(rate) = training.learning_rate {
        (sgd.learning_rate, adam.learning_rate) = (rate, rate);
    }
    match kind {
        described::Optimizer::None => None,
        described::Optimizer::Sgd => Some(Optimizer::Sgd(Sgd { momentum: 0.0, ..sgd })),
        described::Optimizer::Momentum => Some(Optimizer::Sgd(sgd)),
        described::Optimizer::Adam => Some(Optimizer::Adam(adam)),
    }
}

struct Converter<'a> {
    network: &'a described::Network,
    builder: Builder,
    /// The output of each layer so far.
    values: Vec<Value>,
    /// The tables of embeddings, by position among the network's parameters: other layers may
    /// share them.
    tables: BTreeMap<usize, TensorId>,
}

impl Converter<'_> {
    fn unknown(&self, layer: &Layer, why: &'static str) -> NotTrainable {
        let (network, layer) = (self.network.name().to_string(), layer.name.clone());
        NotTrainable::Layer { network, layer, why }
    }

    fn misfit(&self, layer: &Layer, source: ShapeError) -> NotTrainable {
        let (network, layer) = (self.network.name().to_string(), layer.name.clone());
        NotTrainable::Shape { network, layer, source }
    }

    /// A shape that memory can hold.
    fn extents(&self, layer: &Layer, shape: &[u64]) -> Result<Vec<usize>, NotTrainable> {
        let bytes = shape
            .iter()
            .try_fold(4usize, |bytes, extent| bytes.checked_mul(usize::try_from(*extent).ok()?));
        match bytes {
            Some(bytes) if isize::try_from(bytes).is_ok() => {
                Ok(shape.iter().map(|extent| *extent as usize).collect())
            }
            _ => Err(self.unknown(layer, "it is larger than any memory: use a smaller batch")),
        }
    }

    /// Ends the network with the loss that goes with the shape of its logits.
    fn finish(
        mut self,
        loss: &Layer,
        optimizer: Option<Optimizer>,
    ) -> Result<Network, NotTrainable> {
        let logits = self.input(loss, 0)?;
        let rank = logits.shape.len();
        if rank < 4 {
            return Ok(self.builder.classify(&logits, optimizer));
        }
        if logits.shape[1] == 1 {
            return Ok(self.builder.segment(&logits, optimizer));
        }
        // A class for each position: channels last.
        let order: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
        let logits = self.builder.reorder("loss.logits", &logits, &order);
        let logits = logits.map_err(|source| self.misfit(loss, source))?;
        Ok(self.builder.classify(&logits, optimizer))
    }

    fn input(&self, layer: &Layer, index: usize) -> Result<Value, NotTrainable> {
        let value = layer.inputs.get(index).and_then(|input| self.values.get(input.index()));
        value.cloned().ok_or_else(|| self.unknown(layer, "it has too few inputs"))
    }
}
