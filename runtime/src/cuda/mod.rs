//! CUDA, found at run time.

pub mod commands;
mod compile;
mod device;
mod driver;
mod error;
pub mod launches;
mod library;
mod probe;

use codecs::kernels::Program;

pub use compile::{Compiled, compile};
pub use device::{CudaDevice, CudaOptions, OpenError, open};
pub use error::CudaError;
pub use library::Library;
pub use probe::{CudaFacts, CudaProbe};

/// The architectures that kernels must compile for: Volta, Ampere, Hopper.
pub const ARCHITECTURES: [&str; 3] = ["sm_70", "sm_80", "sm_90"];

const COMMON: &str = include_str!("kernels/common.cu");

/// The layers' programs, and that of small forms.
const LAYERS: [Program; 7] = [
    Program::new("product", &[COMMON, include_str!("kernels/product.cu")]),
    Program::new("elementwise", &[COMMON, include_str!("kernels/elementwise.cu")]),
    Program::new("normalise", &[COMMON, include_str!("kernels/normalise.cu")]),
    Program::new("pool", &[COMMON, include_str!("kernels/pool.cu")]),
    Program::new("rows", &[COMMON, include_str!("kernels/rows.cu")]),
    Program::new("movement", &[COMMON, include_str!("kernels/movement.cu")]),
    Program::new("forms", &[include_str!("kernels/forms.cu")]),
];

/// All programs: the codecs' and the layers'.
pub fn programs() -> Vec<Program> {
    codecs::kernels::programs().iter().chain(&LAYERS).copied().collect()
}
