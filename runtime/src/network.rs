//! A network as a list of ops over tensors, each with the kernel that computes it.
//!
//! The list is the lowering of a [`networks::Network`] by the conventions of this runtime.
//! [`Network::run_op`] runs one op on memory that the caller provides, in whatever order a plan
//! wants; [`Tape::trace`](networks::Tape::trace) gives the same list as a document that planners
//! read.

pub(crate) mod bf16;
mod compute;
mod error;
mod initial;
mod kernels;
mod run;
mod step;
#[cfg(test)]
pub(crate) mod tests;

use std::ops::Deref;

use networks::{Conventions, Tape};
use schema::Dtype;

pub use error::NotTrainable;
pub use initial::Random;
pub use networks::{Initial, Measured, Tensor};
pub use run::{Operands, RunError};
pub use step::Step;

use crate::layers::{Adam, Optimizer, Sgd};

/// One op of the iteration.
pub type Op = networks::Op<Step>;

/// One training iteration of a network, as ops over tensors. Ops compute on cells of 4 bytes,
/// whatever an element is stored as.
#[derive(Debug, Clone, PartialEq)]
pub struct Network(Tape<Step>);

impl Deref for Network {
    type Target = Tape<Step>;

    fn deref(&self) -> &Tape<Step> {
        &self.0
    }
}

impl Network {
    /// The network that computes what `described` says, with the optimizer's usual learning rate
    /// where there is none.
    ///
    /// # Errors
    /// Where no kernel computes one of its layers, which is named, or its type is another than
    /// activations can be stored in.
    pub fn new(
        described: &networks::Network,
        learning_rate: Option<f32>,
    ) -> Result<Self, NotTrainable> {
        let options = described.options();
        for (chosen, option) in [
            (described.optimizer() == networks::Optimizer::Adam8bit, "--optimizer adam-8bit"),
            (options.accumulate > 1, "--accumulate"),
            (options.ranks > 1, "--ranks"),
            (options.lora.is_some(), "--lora"),
            (!options.master_weights, "--no-master-weights"),
        ] {
            if chosen {
                return Err(NotTrainable::Option(option));
            }
        }
        let lowered = described.lower(&Conventions::TIDEGATE);
        if lowered.network.dtype() == Dtype::F16 {
            return Err(NotTrainable::Dtype);
        }
        let optimizer = optimizer(described.optimizer(), learning_rate);
        kernels::with_kernels(lowered, optimizer).map(Self)
    }

    /// The same with activations and gradients stored in 16 bits ([`Tape::in_bf16`]).
    #[must_use]
    pub fn in_bf16(self) -> Self {
        Self(self.0.in_bf16())
    }
}

fn optimizer(kind: networks::Optimizer, learning_rate: Option<f32>) -> Option<Optimizer> {
    let (mut sgd, mut adam) = (Sgd::default(), Adam::default());
    if let Some(rate) = learning_rate {
        (sgd.learning_rate, adam.learning_rate) = (rate, rate);
    }
    match kind {
        networks::Optimizer::None => None,
        networks::Optimizer::Sgd => Some(Optimizer::Sgd(Sgd { momentum: 0.0, ..sgd })),
        networks::Optimizer::Momentum => Some(Optimizer::Sgd(sgd)),
        // Of 8 bits it is refused before.
        networks::Optimizer::Adam | networks::Optimizer::Adam8bit => Some(Optimizer::Adam(adam)),
    }
}
