//! Why a network does not train here.

use networks::NetworkError;

use crate::layers::ShapeError;

/// Why a network cannot be trained on a device.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum NotTrainable {
    /// A layer that the runtime does not compute.
    #[error("{network}: layer `{layer}` cannot be trained on the host: {why}")]
    Layer { network: String, layer: String, why: &'static str },
    /// A layer that does not fit its inputs.
    #[error("{network}: layer `{layer}` cannot be trained on the host")]
    Shape { network: String, layer: String, source: ShapeError },
    /// A type that the runtime does not store activations in.
    #[error("--dtype: networks train in f32 or bf16 on a device")]
    Dtype,
    /// A choice that only modelled iterations know.
    #[error("{0} is modelled, and not run here: leave it away")]
    Option(&'static str),
    /// A network that cannot be.
    #[error(transparent)]
    Described(#[from] NetworkError),
}
