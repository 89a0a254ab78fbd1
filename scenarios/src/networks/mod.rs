//! Networks without a recording: a graph of layers becomes the trace of a training iteration whose
//! sizes are exact and whose times are modelled.
//!
//! [`network`] gives a network by name, [`network_from_toml`] and [`network_from_onnx`] read one
//! from a file, [`Builder`] builds one layer by layer, and [`modelled_trace`] makes the trace.
//! [`layer`] is what such a graph consists of, for those who do something else with it.

mod builder;
mod class;
mod efficiency;
mod error;
mod families;
mod fit;
pub mod layer;
mod lower;
mod onnx;
mod options;
mod place;
mod registry;
mod sparsity;
mod toml_file;
mod work;

#[cfg(test)]
mod tests;

pub use builder::{Builder, Built};
pub use class::{Class, Pass};
pub use efficiency::{Efficiencies, Efficiency, modelled_trace, modelled_trace_with};
pub use error::{LayerProblem, NetworkError};
pub use fit::{Fit, Residual, Sample, fit_efficiencies, residual};
pub use layer::{LayerId, Network, Window};
pub use onnx::network_from_onnx;
pub use options::{Activation, NetworkOptions, Optimizer};
pub use registry::{NetworkInfo, network, networks};
pub use sparsity::sparsity;
pub use toml_file::network_from_toml;
