//! What tells a device and its driver from others.
#![allow(unsafe_code)]

use std::ffi::c_int;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{DriverError, result, sys};
use schema::Bytes;

use super::{Context, failed};
use crate::cuda::{CudaError, Library};

/// A device, as its driver has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// All of its memory.
    pub memory: Bytes,
    /// Its compute capability, major and minor.
    pub capability: (i32, i32),
}

/// All devices, in the driver's order, of which nothing is opened.
///
/// # Errors
/// [`CudaError`] without a driver, or if it sees no device.
pub fn devices() -> Result<Vec<DeviceFacts>, CudaError> {
    Library::Driver.require()?;
    let no_device = |error: DriverError| CudaError::NoDevice { why: super::text(error) };
    result::init().map_err(no_device)?;
    let count = result::device::get_count().map_err(no_device)?;
    (0..count).map(|ordinal| facts(ordinal).map_err(failed("asking what devices are"))).collect()
}

fn facts(ordinal: c_int) -> Result<DeviceFacts, DriverError> {
    let device = result::device::get(ordinal)?;
    let name = result::device::get_name(device)?;
    // SAFETY: the driver has said this device.
    let (memory, [major, minor]) = unsafe {
        use CUdevice_attribute as About;
        let about = |attribute| result::device::get_attribute(device, attribute);
        let major = about(About::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = about(About::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        (result::device::total_mem(device)?, [major, minor])
    };
    Ok(DeviceFacts { name, memory: Bytes(memory as u64), capability: (major, minor) })
}

impl Context {
    /// The number that no other device has, as `nvidia-smi -L` writes it.
    pub fn uuid(&self) -> Result<String, CudaError> {
        let uuid = self.context.uuid().map_err(failed("asking the device who it is"))?;
        let digits: String = uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits[part].to_string());
        Ok(format!("GPU-{}", parts.join("-")))
    }
}

/// The newest version of CUDA that the driver knows, major and minor. It needs no device to say so.
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
