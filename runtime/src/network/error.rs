//! Why a network does not train here.

use networks::NetworkError;

use crate::layers::ShapeError;

/// Why a network cannot be trained on a device.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum NotTrainable {
    #[error("{network}: layer `{layer}` cannot be trained on the host: {why}")]
    Layer { network: String, layer: String, why: &'static str },
    #[error("{network}: layer `{layer}` cannot be trained on the host")]
    Shape { network: String, layer: String, source: ShapeError },
    #[error("--dtype: networks train in f32 or bf16 on a device")]
    Dtype,
    #[error("{0} is modelled, and not run here: leave it away")]
    Option(&'static str),
    #[error(transparent)]
    Described(#[from] NetworkError),
}
