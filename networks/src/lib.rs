//! Networks: graphs of layers with shapes, what their training iterations compute, and the traces
//! of those, whose sizes are exact and whose times are modelled.
//!
//! [`network`] gives a network by name, [`network_from_toml`] and [`network_from_onnx`] read one
//! from a file, [`Builder`] builds one layer by layer; [`layer`] is what such a graph consists of.
//! [`Network::lower`] makes it a [`Tape`] of ops over tensors, as a framework runs it, which is a
//! value: [`Conventions`]. [`modelled_trace`] gives the ops of a tape times by a machine's
//! roofline; the runtime gives them kernels.

mod accumulate;
mod assumed;
mod aten;
mod band;
mod builder;
mod class;
mod conventions;
mod descent;
mod efficiency;
mod error;
mod families;
mod fit;
mod functions;
mod gradients;
mod info;
mod initial;
pub mod layer;
mod lower;
mod onnx;
mod options;
mod part;
mod ranks;
mod registry;
mod sparsity;
pub mod suggest;
mod tape;
#[cfg(test)]
mod test_machine;
mod toml_file;
mod work;

/// The list of recordings that the efficiencies that come with tidegate are fitted on.
pub const SAMPLES: &str = include_str!("../efficiency-samples.toml");

pub use aten::{Call, Operand};
pub use band::{Arithmetic, Band};
pub use builder::{Builder, Built};
pub use class::{Class, Pass};
pub use conventions::Conventions;
pub use descent::fit_timed;
pub use efficiency::{
    Efficiencies, Efficiency, modelled_trace, modelled_trace_by, modelled_trace_of,
};
pub use error::{LayerProblem, NetworkError};
pub use fit::{Sample, Timed, timed_ops};
pub use functions::{Function, Passes, Saved};
pub use info::NetworkInfo;
pub use initial::Initial;
pub use layer::{LayerId, Network, Window};
pub use lower::{Lowered, SEED_CELLS};
pub use onnx::network_from_onnx;
pub use part::Part;
pub use registry::{network, networks};
pub use schema::{Activation, Extents, Lora, NetworkOptions, Optimizer, Shard, Tf32};
pub use sparsity::sparsity;
pub use tape::{Measured, Op, Step, Tape, Tensor};
pub use toml_file::network_from_toml;
pub use work::{ProductExtents, Units, Work};
