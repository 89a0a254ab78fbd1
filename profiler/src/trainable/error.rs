//! Why a network does not train here.

use runtime::layers::ShapeError;

/// Why a network cannot be trained on the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTrainable {
    /// A layer that the host does not compute.
    #[error("{network}: layer `{layer}` cannot be trained on the host: {why}")]
    Layer {
        /// The network.
        network: String,
        /// The layer.
        layer: String,
        /// What is missing, and what to do.
        why: &'static str,
    },
    /// A layer that does not fit its inputs, or is too large to be addressed.
    #[error("{network}: layer `{layer}` cannot be trained on the host")]
    Shape {
        /// The network.
        network: String,
        /// The layer.
        layer: String,
        /// What does not fit.
        source: ShapeError,
    },
    /// A network without a loss.
    #[error("{network} has no loss to train with: end it with one")]
    NoLoss {
        /// The network.
        network: String,
    },
}
