//! Compiling kernels at run time, with NVRTC.
//!
//! This needs NVRTC's library and no device: kernels are compiled for an architecture by name. NVIDIA's
//! driver does the rest where it loads them.

use std::ffi::CStr;

use codecs::kernels::Program;
use cudarc::nvrtc;

use super::{CudaError, Library};

/// Compiled kernels.
#[derive(Debug, Clone)]
pub struct Compiled {
    pub(super) ptx: nvrtc::Ptx,
}

impl Compiled {
    /// What NVRTC made: text of NVIDIA's virtual machine (PTX).
    pub fn ptx(&self) -> String {
        self.ptx.to_src()
    }
}

/// Compiles a program for an architecture, such as `sm_90`.
///
/// # Errors
/// [`CudaError::NoLibrary`] without NVRTC; [`CudaError::Compile`] with what NVRTC says.
pub fn compile(program: &Program, architecture: &'static str) -> Result<Compiled, CudaError> {
    Library::Nvrtc.require()?;
    let options = nvrtc::CompileOptions {
        // Sums in the order and with the roundings that are written, so that running an op again
        // gives the same bits.
        fmad: Some(false),
        ftz: Some(false),
        prec_div: Some(true),
        prec_sqrt: Some(true),
        arch: Some(architecture),
        name: Some(format!("{}.cu", program.name())),
        options: vec!["--std=c++17".into()],
        ..nvrtc::CompileOptions::default()
    };
    let compiled = nvrtc::compile_ptx_with_opts(program.source(), options);
    let ptx = compiled.map_err(|error| CudaError::Compile {
        program: program.name(),
        architecture,
        log: match &error {
            nvrtc::CompileError::CompileError { log, .. } => text(log),
            other => other.to_string(),
        },
    })?;
    Ok(Compiled { ptx })
}

fn text(log: &CStr) -> String {
    log.to_string_lossy().trim().to_owned()
}
