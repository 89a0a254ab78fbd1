//! The CUDA device, found at run time: nothing of CUDA is needed to build, and where it is absent
//! [`open`] says what is missing and where to get it.
//!
//! Four steps, of which only the last needs a GPU:
//!
//! - [`launches`]: what to launch for an op, from its shapes. The kernels are in `kernels/*.cu`.
//! - [`commands`]: a whole iteration as a list for each stream, with the events between streams:
//!   from the plan alone.
//! - [`compile`]: source to machine code of a device, by NVRTC.
//! - [`open`] and [`CudaDevice`]: memory, streams, events. Hands the list out, command by command
//!   or as one graph, and decides nothing.
//!
//! What was run on GPUs, what tests hold without one, and what is missing: `docs/cuda.md`.

mod by_host;
mod codec_runs;
pub mod commands;
mod compile;
mod device;
mod dnn;
mod driver;
mod error;
mod graph;
mod hand_out;
mod head_start;
pub mod launches;
mod layer_runs;
mod libraries;
mod library;
mod loads;
mod lookups;
mod moments;
mod offsets;
mod places;
mod probe;
mod steps;
mod version;
mod zeros;

use codecs::kernels::Program;

pub use by_host::HostWork;
pub use codec_runs::{CodecRunError, CodecTimes, CudaCodecs};
pub use compile::{Compiled, architectures, compile};
pub use device::{CudaDevice, CudaOptions, OpenError, check_device, open};
pub use driver::identity::{DeviceFacts, devices};
pub use error::CudaError;
pub use layer_runs::{CudaLayers, LayerDifference, MayCompute};
pub use libraries::Libraries;
pub use library::{Library, VARIABLE as LIBRARIES_VARIABLE, look_in};
pub use loads::CudaLoads;
pub use probe::{CudaFacts, CudaProbe};

const COMMON: &str = include_str!("cuda/kernels/common.cu");

const FLOATS: &str = include_str!("cuda/kernels/element_f32.cu");
const HALVES: &str = include_str!("cuda/kernels/element_bf16.cu");
const ELEMENTWISE: &str = include_str!("cuda/kernels/elementwise.cu");
const NORMALISE: &str = include_str!("cuda/kernels/normalise.cu");
const POOL: &str = include_str!("cuda/kernels/pool.cu");
const ROWS: &str = include_str!("cuda/kernels/rows.cu");
const MOVEMENT: &str = include_str!("cuda/kernels/movement.cu");

/// The layers' programs, that of compressed forms, and that which counts zeros. Those that name an
/// element are there once for each thing that it is stored as.
const LAYERS: [Program; 15] = [
    Program::new("product", &[COMMON, include_str!("cuda/kernels/product.cu")]),
    Program::new("elementwise", &[FLOATS, COMMON, ELEMENTWISE]),
    Program::new("elementwise_bf16", &[HALVES, COMMON, ELEMENTWISE]),
    Program::new("normalise", &[FLOATS, COMMON, NORMALISE]),
    Program::new("normalise_bf16", &[HALVES, COMMON, NORMALISE]),
    Program::new("pool", &[FLOATS, COMMON, POOL]),
    Program::new("pool_bf16", &[HALVES, COMMON, POOL]),
    Program::new("rows", &[FLOATS, COMMON, ROWS]),
    Program::new("rows_bf16", &[HALVES, COMMON, ROWS]),
    Program::new("movement", &[FLOATS, COMMON, MOVEMENT]),
    Program::new("movement_bf16", &[HALVES, COMMON, MOVEMENT]),
    Program::new("floats", &[COMMON, include_str!("cuda/kernels/floats.cu")]),
    Program::new("bf16", &[COMMON, include_str!("cuda/kernels/bf16.cu")]),
    Program::new("forms", &[include_str!("cuda/kernels/forms.cu")]),
    Program::new("zeros", &[include_str!("cuda/kernels/zeros.cu")]),
];

const BLOCKS: u32 = 8;

/// Blocks of threads that fill such a share of the multiprocessors, in percent. Kernels go over
/// their work with the grid as stride, so that any number does all of it.
fn blocks_of(multiprocessors: u32, percent: u8) -> u32 {
    (BLOCKS * multiprocessors * u32::from(percent.min(100)) / 100).max(1)
}

/// All programs: the codecs' and the layers'.
pub fn programs() -> Vec<Program> {
    codecs::kernels::programs().iter().chain(&LAYERS).copied().collect()
}
