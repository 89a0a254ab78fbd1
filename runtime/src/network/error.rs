//! Why a network does not train here.

use networks::NetworkError;

use crate::layers::ShapeError;

/// Why a network cannot be trained on a device.
#[derive(Debug, thiserror::Error)]
pub enum NotTrainable {
    /// A layer that the runtime does not compute.
    #[error("{network}: layer `{layer}` cannot be trained on the host: {why}")]
    Layer {
        /// The network.
        network: String,
        /// The layer.
        layer: String,
        /// What is missing, and what to do.
        why: &'static str,
    },
    /// A layer that does not fit its inputs.
    #[error("{network}: layer `{layer}` cannot be trained on the host")]
    Shape {
        /// The network.
        network: String,
        /// The layer.
        layer: String,
        /// What does not fit.
        source: ShapeError,
    },
    /// A type that the runtime does not store activations in.
    #[error("--dtype: networks train in f32 or bf16 on a device")]
    Dtype,
    /// A network that cannot be.
    #[error(transparent)]
    Described(#[from] NetworkError),
}
