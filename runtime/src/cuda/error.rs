//! Why CUDA cannot be used.

use schema::Bytes;

use super::Library;

/// The least compute capability that kernels are written for.
pub(super) const LEAST: (i32, i32) = (7, 0);

/// Why there is no CUDA device, or why it failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CudaError {
    /// The driver's library is not there.
    #[error("no NVIDIA driver: {} cannot be loaded; {}", Library::Driver.file(), Library::Driver.remedy(None))]
    NoDriver,
    /// The driver is older than what is called of it.
    #[error("the NVIDIA driver is for CUDA {}.{}, and {}.{} is the least: install a newer one, or use `--device host`", .version.0, .version.1, .least.0, .least.1)]
    OldDriver {
        /// The version of CUDA that it is for, major and minor.
        version: (u32, u32),
        /// The least that will do.
        least: (u32, u32),
    },
    /// A driver without a device.
    #[error(
        "the NVIDIA driver sees no device ({why}): check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use `--device host`"
    )]
    NoDevice {
        /// What the driver says.
        why: String,
    },
    /// Not a device that there is.
    #[error("there is no CUDA device {ordinal}, there are {count}, counted from 0")]
    NoSuchDevice {
        /// What was asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// Another library is not there, or none that will do.
    #[error("{}: {}", no_library(*.library, .refused), .library.remedy(*.driver))]
    NoLibrary {
        /// The library.
        library: Library,
        /// The major of CUDA that the driver is for.
        driver: Option<u32>,
        /// Files that were found, and why they will not do.
        refused: Vec<String>,
    },
    /// The device is older than what kernels are compiled for.
    #[error("`{device}` has compute capability {}.{}, and {}.{} is the least {compiler}: {}, or use `--device host`", .capability.0, .capability.1, .least.0, .least.1, too_old(*.capability, *.least))]
    TooOld {
        /// The device.
        device: String,
        /// Its compute capability, major and minor.
        capability: (i32, i32),
        /// The least that will do.
        least: (i32, i32),
        /// For whom: `for NVRTC 13.0`.
        compiler: String,
    },
    /// The plan needs more than the device has free.
    #[error(
        "{what} needs {needed} of device memory and {free} are free: end other programs, plan with a smaller budget, or measure smaller tensors"
    )]
    TooLittleMemory {
        /// What needs it.
        what: &'static str,
        /// How much.
        needed: Bytes,
        /// How much is free.
        free: Bytes,
    },
    /// The host gives no pinned memory of that size.
    #[error(
        "the host gives no {needed} of pinned memory ({why}): raise `ulimit -l`, or plan with less host memory"
    )]
    NoPinnedMemory {
        /// How much.
        needed: Bytes,
        /// What the driver says.
        why: String,
    },
    /// A kernel does not compile, which is a mistake in it.
    #[error("kernels of `{program}` do not compile for {architecture}:\n{log}")]
    Compile {
        /// The program.
        program: &'static str,
        /// The architecture.
        architecture: String,
        /// What NVRTC says.
        log: String,
    },
    /// A call of the driver or of a library failed.
    #[error("{what} failed: {why}")]
    Call {
        /// What was to be done.
        what: &'static str,
        /// What the driver or library says.
        why: String,
    },
}

fn no_library(library: Library, refused: &[String]) -> String {
    match refused {
        [] => format!("{} is not found", library.file()),
        _ => format!("no {} will do ({})", library.file(), refused.join("; ")),
    }
}

/// What CUDA 12 compiles for, and 13 no longer.
fn too_old(capability: (i32, i32), least: (i32, i32)) -> String {
    match capability >= LEAST && least > LEAST {
        true => Library::Nvrtc.remedy(Some(12)),
        false => "use a newer device".into(),
    }
}
