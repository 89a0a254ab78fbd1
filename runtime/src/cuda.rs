//! The CUDA device, found at run time: nothing of CUDA is needed to build, and where it is absent
//! [`open`] says what is missing and where to get it.
//!
//! Four steps, of which only the last needs a GPU:
//!
//! - [`launches`]: what to launch for an op, from its shapes. The kernels are in `kernels/*.cu`.
//! - [`commands`]: a whole iteration as a list for each stream, with the events between streams: from
//!   the plan alone.
//! - [`compile`]: source to machine code of a device, by NVRTC.
//! - [`open`] and [`CudaDevice`]: memory, streams, events. Hands the list out, command by command or as one
//!   graph, and decides nothing.
//!
//! # What has been run where
//!
//! On GPUs: `tidegate acceptance --device cuda` is what runs there, and `docs/cuda.md` shows what came of it.
//! What is done without one, by tests in this repository:
//!
//! | what | how |
//! |---|---|
//! | every kernel, codecs' and layers' | run on a CPU by an emulator of threads, warps and shared memory, in random order |
//! | codecs' kernels | the codecs' bytes both ways, and damaged payloads |
//! | layers' kernels | the host layers' values, to 2e-6 of the largest (in bf16, or the next value); the same bits with any order and number of threads |
//! | commands | whole plans (swapping, recomputing, compressing, falling back) in any order that streams may take: the bits of in-core execution on the same kernels |
//! | every kernel, for f32 and bf16 | compiled to machine code by NVRTC 12.9 and 13.0 for each of [`ARCHITECTURES`] that they know, and to PTX for the newest |
//! | calls of cuBLAS | against a product as its documentation has it; in bf16, the host layers' values to the same digits |
//! | calls of cuDNN | on a stand-in that carries out what descriptors say and refuses what its documentation does, and any algorithm whose bits may differ: the host layers' values, and the same bits for every plan |
//! | the device | on a stand-in for driver, cuBLAS and cuDNN, which carries out what streams were given on the emulator |
//! | an iteration as a graph | captured and launched on the stand-in, which refuses what may not be captured: edges give the order that streams have, and launches the bits that streams leave |
//! | opening | on the stand-in: that a program is compiled once, what is allocated, streams' priorities |
//! | measuring the link, and lanes beside each other | on the stand-in: that it copies, that loads run beside each other, and what it makes of what the driver says |
//! | timing codecs, lookups in host memory | on the stand-in: bytes; and that other bytes are noticed |
//! | counting zeros | on the stand-in: as many as the host counts |
//! | compression by the host between copies | on the stand-in: the bits of in-core execution |
//! | whole commands (`profile`, `run`, `train`, `sample codecs`, `bench codecs`) | on the stand-in |
//! | nvCOMP beside our kernels | on a stand-in that is as strict as its headers; what it needs for a tensor is asked of the real 5.0.0, 5.1.0, 5.2.0, 5.3.0 and 6.0.0, which need no device for that |
//! | missing things | no driver, an old one, no device, an old one, no NVRTC or one that is newer than the driver, libraries that cannot be opened, what cuDNN refuses at launch, too little device or pinned memory: on the stand-in |
//!
//! # What was held to NVIDIA's own headers and libraries
//!
//! Every function that is called was declared once more, with the types that it is called with, behind the
//! header, and every constant compared, by a C compiler; and looked for in the library:
//!
//! | of | version | what |
//! |---|---|---|
//! | the driver | `cuda.h` of CUDA 12.9; names also in that of 12.0, which is the oldest driver that will do | 48 functions, constants, every status (and `cuDeviceTotalMem`, as the binding has it); no library, which comes with a device |
//! | NVRTC | 12.9.86, 13.0.88 | 7 functions, and 6 more by their names; compiles every kernel |
//! | cuBLAS | 12.9.1, names also in 13.0.2 | 6 functions, constants; and 2 more by their names |
//! | cuDNN | 9.28.0 for CUDA 12, names also in 9.28.1 for 13 | 28 functions, constants, and 2 more by their names; its library reads descriptors (without a device) and computes the same extents and the same math mode |
//! | nvCOMP | 5.0.0.6, 5.1.0.21, 5.2.0.13, 5.3.0.16, 6.0.0.12 | structures' sizes and fields, functions |
//!
//! cuDNN's header calls both gradients' algorithms deterministic, says nothing of the forward one, whose
//! sums are of products alone, nor of means and softmax, and deprecates all of them since 9.0. Tests look
//! for every function, and let cuDNN and nvCOMP read what they are told, wherever those are installed, and
//! say where they are not.
//!
//! What that cannot show: whether the real driver behaves as the stand-in; memory ordering weaker than
//! one thread at a time; how fast anything is, and what slows what; that a GPU's `exp` and its like are near the host's;
//! how its units for products of 16 bits round sums; what nvCOMP makes of a tensor.
//!
//! # What is not here
//!
//! - Maxima by cuDNN, which does not say where they were. Without cuDNN, convolutions by cuBLAS other than
//!   of one cell: they are plain tiled kernels then, which are right and no match for NVIDIA's.
//! - f16. Convolutions and fused attention on the units for 16-bit products: in bf16 their operands are widened
//!   first. cuDNN's convolutions want weights and their gradients in bf16, too, which would round what the
//!   host does not; attention has its scores in floats.

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
mod nvcomp;
mod offsets;
mod places;
mod probe;
mod steps;
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
pub use nvcomp::{CHUNK_BYTES as NVCOMP_CHUNK_BYTES, Format as NvcompFormat, Nvcomp};
pub use probe::{CudaFacts, CudaProbe};
pub use zeros::Zeros;

/// The architectures that kernels must compile for, where the compiler knows them: Volta, Turing, Ampere,
/// Hopper, Blackwell.
pub const ARCHITECTURES: [u32; 6] = [70, 75, 80, 90, 100, 120];

const COMMON: &str = include_str!("cuda/kernels/common.cu");

const FLOATS: &str = include_str!("cuda/kernels/element_f32.cu");
const HALVES: &str = include_str!("cuda/kernels/element_bf16.cu");
const ELEMENTWISE: &str = include_str!("cuda/kernels/elementwise.cu");
const NORMALISE: &str = include_str!("cuda/kernels/normalise.cu");
const POOL: &str = include_str!("cuda/kernels/pool.cu");
const ROWS: &str = include_str!("cuda/kernels/rows.cu");
const MOVEMENT: &str = include_str!("cuda/kernels/movement.cu");

/// The layers' programs, that of compressed forms, and that which counts zeros. Those that name an element
/// are there once for each thing that it is stored as.
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

/// Blocks of threads for each multiprocessor.
const BLOCKS: u32 = 8;

/// Blocks of threads that fill such a share of the multiprocessors, in percent. Kernels go over their
/// work with the grid as stride, so that any number does all of it.
fn blocks_of(multiprocessors: u32, percent: u8) -> u32 {
    (BLOCKS * multiprocessors * u32::from(percent.min(100)) / 100).max(1)
}

/// All programs: the codecs' and the layers'.
pub fn programs() -> Vec<Program> {
    codecs::kernels::programs().iter().chain(&LAYERS).copied().collect()
}
