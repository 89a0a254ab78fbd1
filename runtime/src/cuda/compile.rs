//! Compiling kernels at run time, with NVRTC.
//!
//! This needs NVRTC's library and no device: kernels are compiled for an architecture by name.
//! Machine code runs on a driver that is older than the compiler, of the same major of CUDA;
//! NVIDIA's virtual machine code (PTX) does not, and is made only for devices that the compiler
//! does not know.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use codecs::kernels::Program;
use cudarc::nvrtc::{Ptx, sys};

use super::CudaError;
use super::error::call;
use super::library::{Nvrtc, nvrtc};

/// Compiled kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiled {
    /// Machine code of one architecture (a cubin).
    Machine(Vec<u8>),
    /// Text of NVIDIA's virtual machine, of which the driver makes machine code.
    Virtual(String),
}

impl Compiled {
    pub(super) fn image(self) -> Ptx {
        match self {
            Self::Machine(code) => Ptx::from_binary(code),
            Self::Virtual(text) => Ptx::from_src(text),
        }
    }
}

/// The architectures that the compiler knows, by ten times their major and their minor, from the
/// oldest.
///
/// # Errors
/// [`CudaError::NoLibrary`] without NVRTC; [`CudaError::Call`] if it fails.
pub fn architectures() -> Result<Vec<u32>, CudaError> {
    let own = &nvrtc()?.functions;
    let done = |status| own.done(status).map_err(call("asking NVRTC what it compiles for"));
    let mut count: c_int = 0;
    // SAFETY: it writes one number.
    done(unsafe { (own.nvrtcGetNumSupportedArchs)(&raw mut count) })?;
    let mut all = vec![0 as c_int; usize::try_from(count).unwrap_or(0)];
    // SAFETY: it writes as many numbers as it said.
    done(unsafe { (own.nvrtcGetSupportedArchs)(all.as_mut_ptr()) })?;
    let mut all: Vec<u32> = all.into_iter().map(c_int::unsigned_abs).collect();
    all.sort_unstable();
    Ok(all)
}

/// What is compiled for, of what a compiler knows: machine code of the device itself; where the
/// compiler is older than the device, PTX of the newest that it knows. None where the device is
/// older than all.
pub(super) fn architecture(known: &[u32], (major, minor): (i32, i32)) -> Option<String> {
    let own = u32::try_from(10 * major + minor).ok()?;
    let newest = known.iter().rfind(|known| **known <= own)?;
    let kind = if *newest == own { "sm" } else { "compute" };
    Some(format!("{kind}_{newest}"))
}

struct Open {
    raw: sys::nvrtcProgram,
    own: &'static Nvrtc,
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: made by NVRTC, and given back once. What fails has no remedy here.
        let _ = unsafe { (self.own.nvrtcDestroyProgram)(&raw mut self.raw) };
    }
}

type Size = unsafe extern "C" fn(sys::nvrtcProgram, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(sys::nvrtcProgram, *mut c_char) -> c_int;

impl Open {
    /// One of the things that come of compiling.
    fn get(&self, size: Size, get: Get) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program is open; it writes one number.
        self.own.done(unsafe { size(self.raw, &raw mut bytes) })?;
        let mut all = vec![0u8; bytes];
        // SAFETY: it writes as many bytes as it said.
        self.own.done(unsafe { get(self.raw, all.as_mut_ptr().cast()) })?;
        Ok(all)
    }

    fn text(&self, size: Size, get: Get) -> Result<String, String> {
        let all = self.get(size, get)?;
        Ok(String::from_utf8_lossy(&all).trim_end_matches('\0').trim().to_owned())
    }
}

/// Compiles a program for an architecture: to machine code for such as `sm_90`, to PTX for
/// `compute_90`.
///
/// # Errors
/// [`CudaError::NoLibrary`] without NVRTC; [`CudaError::Compile`] with what NVRTC says.
pub fn compile(program: &Program, architecture: &str) -> Result<Compiled, CudaError> {
    let own = &nvrtc()?.functions;
    let refused = |log: String| CudaError::Compile {
        program: program.name(),
        architecture: architecture.into(),
        log,
    };
    let c_string = |text: String| CString::new(text).map_err(|error| refused(error.to_string()));
    let (source, name) = (c_string(program.source())?, c_string(format!("{}.cu", program.name()))?);
    let mut raw = ptr::null_mut();
    // SAFETY: both texts live until after the program; there are no headers.
    let made = unsafe {
        let (create, none) = (own.nvrtcCreateProgram, ptr::null());
        create(&raw mut raw, source.as_ptr(), name.as_ptr(), 0, none, none)
    };
    own.done(made).map_err(refused)?;
    let open = Open { raw, own };
    // Sums in the order and with the roundings that are written, so that running an op again gives
    // the same bits.
    let exact = ["--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];
    let options = exact.into_iter().chain(["--std=c++17"]).map(str::to_owned);
    let options = options.chain([format!("--gpu-architecture={architecture}")]);
    let options = options.map(c_string).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program is open, and the options live.
    let compiled =
        unsafe { (own.nvrtcCompileProgram)(open.raw, pointers.len() as c_int, pointers.as_ptr()) };
    if let Err(why) = own.done(compiled) {
        let log = open.text(own.nvrtcGetProgramLogSize, own.nvrtcGetProgramLog);
        let log = log.unwrap_or_default();
        return Err(refused(if log.is_empty() { why } else { log }));
    }
    match architecture.starts_with("sm_") {
        true => open.get(own.nvrtcGetCUBINSize, own.nvrtcGetCUBIN).map(Compiled::Machine),
        false => open.text(own.nvrtcGetPTXSize, own.nvrtcGetPTX).map(Compiled::Virtual),
    }
    .map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compiled_for_the_device_itself_where_it_is_known() {
        let cuda_12_4 = [50, 52, 60, 70, 75, 80, 86, 89, 90];
        let of = |known: &[u32], device| architecture(known, device).unwrap_or_default();
        let devices = [(7, 0), (7, 5), (8, 6), (9, 0), (12, 0)];
        let said = devices.map(|device| of(&cuda_12_4, device));
        assert_eq!(said, ["sm_70", "sm_75", "sm_86", "sm_90", "compute_90"]);
        let cuda_13 = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];
        let said = devices.map(|device| of(&cuda_13, device));
        assert_eq!(said, ["", "sm_75", "sm_86", "sm_90", "sm_120"]);
    }
}
