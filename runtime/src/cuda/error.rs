//! Why CUDA cannot be used.

use cudarc::driver::DriverError;
use schema::Bytes;

use super::library::kinds::Library;

/// The least compute capability that kernels are written for.
pub(super) const LEAST: (i32, i32) = (7, 0);

/// Why there is no CUDA device, or why it failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CudaError {
    #[error("no NVIDIA driver: {} cannot be loaded; {}", Library::Driver.file(), Library::Driver.remedy(None))]
    NoDriver,
    #[error("the NVIDIA driver is for CUDA {}.{}, and {}.{} is the least: install a newer one, or use `--device host`", .version.0, .version.1, .least.0, .least.1)]
    OldDriver { version: (u32, u32), least: (u32, u32) },
    #[error(
        "the NVIDIA driver sees no device ({why}): check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use `--device host`"
    )]
    NoDevice { why: String },
    #[error("there is no CUDA device {ordinal}, there are {count}, counted from 0")]
    NoSuchDevice { ordinal: usize, count: usize },
    #[error("{}: {}", no_library(*.library, .refused), .library.remedy(*.driver))]
    NoLibrary { library: Library, driver: Option<u32>, refused: Vec<String> },
    #[error("`{device}` has compute capability {}.{}, and {}.{} is the least {compiler}: {}, or use `--device host`", .capability.0, .capability.1, .least.0, .least.1, too_old(*.capability, *.least))]
    TooOld { device: String, capability: (i32, i32), least: (i32, i32), compiler: String },
    #[error(
        "{what} needs {needed} of device memory and {free} are free: end other programs, plan with a smaller budget, or measure smaller tensors"
    )]
    TooLittleMemory { what: &'static str, needed: Bytes, free: Bytes },
    #[error(
        "the host gives no {needed} of pinned memory ({why}): raise `ulimit -l`, or plan with less host memory"
    )]
    NoPinnedMemory { needed: Bytes, why: String },
    /// A kernel does not compile, which is a mistake in it.
    #[error("kernels of `{program}` do not compile for {architecture}:\n{log}")]
    Compile { program: &'static str, architecture: String, log: String },
    #[error("{what} failed: {why}")]
    Call { what: &'static str, why: String },
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

/// A call that failed, by what its library says.
pub(super) fn call(what: &'static str) -> impl Fn(String) -> CudaError + Copy {
    move |why| CudaError::Call { what, why }
}

/// A call that failed, by what the driver says.
pub(super) fn failed(what: &'static str) -> impl Fn(DriverError) -> CudaError + Copy {
    move |error| CudaError::Call { what, why: text(error) }
}

pub(super) fn text(error: DriverError) -> String {
    let text = error.error_string().ok().map(|text| text.to_string_lossy().into_owned());
    text.unwrap_or_else(|| format!("{error:?}"))
}
