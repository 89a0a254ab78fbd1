//! What tells a device and its driver from others.
#![allow(unsafe_code)]

use std::ffi::c_int;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{DriverError, result};
use schema::Bytes;

use super::Context;
use crate::cuda::CudaError;
use crate::cuda::error::{failed, text};
use crate::cuda::library::kinds::Library;

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
    let no_device = |error: DriverError| CudaError::NoDevice { why: text(error) };
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
