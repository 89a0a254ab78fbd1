//! CUDA, found at run time.

mod compile;
mod error;
mod library;

pub use compile::{Compiled, compile};
pub use error::CudaError;
pub use library::Library;

/// The architectures that kernels must compile for: Volta, Ampere, Hopper.
pub const ARCHITECTURES: [&str; 3] = ["sm_70", "sm_80", "sm_90"];

/// All programs: the codecs' and the layers'.
pub fn programs() -> Vec<codecs::kernels::Program> {
    codecs::kernels::programs().to_vec()
}
