//! Which driver is there. It needs no device to say so.
#![allow(unsafe_code)]

use std::ffi::c_int;

use cudarc::driver::sys;

use super::CudaError;
use super::error::failed;

/// The newest version of CUDA that the driver knows, major and minor.
pub fn driver_version() -> Result<(u32, u32), CudaError> {
    let mut version: c_int = 0;
    // SAFETY: the driver is loaded, and writes one number.
    let asked = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    asked.result().map_err(failed("asking for the driver's version"))?;
    let version = version.unsigned_abs();
    Ok((version / 1000, version % 1000 / 10))
}

/// The driver's own version, such as `580.159.03`, where the system says it.
pub fn kernel_module_version() -> Option<String> {
    let version = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(version.trim().to_owned()).filter(|version| !version.is_empty())
}
