//! The driver: memory, streams, events and launches. The one place of the CUDA device with raw
//! addresses.
//!
//! # Why this is sound
//!
//! Addresses come from [`DeviceMemory::address`] and [`Pinned::address`], which check that what is
//! accessed lies inside. Who may access what and when is the plan's matter, as on the host: it was
//! proven, and streams wait for what it orders. What streams still do when memory is given back is
//! waited for: a device synchronises before it drops anything.
#![allow(unsafe_code)]

mod blas;
pub(super) mod host_call;
pub(super) mod identity;
mod launch;
mod modules;
mod moves;
mod streams;

use std::ffi::c_void;
use std::sync::Arc;

use codecs::kernels::Program;
use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{CudaContext, DriverError, result};
use schema::Bytes;

use super::compile::{architecture, architectures};
use super::error::{LEAST, failed, text};
use super::library::kinds::Library;
use super::version::driver_version;
use super::{CudaError, compile, library};
pub(super) use blas::Blas;
pub(super) use launch::Prepared;
pub(super) use modules::Kernels;
use modules::{Functions, Loaded};
pub(super) use streams::{Event, Stream, Urgency};

#[derive(Debug, Clone)]
pub(super) struct Context {
    context: Arc<CudaContext>,
    /// What any user of the device has loaded into it.
    loaded: Arc<Loaded>,
    pub name: String,
    /// Major and minor.
    pub capability: (i32, i32),
    pub multiprocessors: u32,
    architecture: String,
}

/// The oldest driver, by the version of CUDA that it is for, which has all that is called here.
const OLDEST_DRIVER: (u32, u32) = (12, 0);

impl Context {
    /// The device of this number.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        Library::Driver.require()?;
        let no_device = |error: DriverError| CudaError::NoDevice { why: text(error) };
        let driver = driver_version()?;
        if driver < OLDEST_DRIVER {
            return Err(CudaError::OldDriver { version: driver, least: OLDEST_DRIVER });
        }
        let compiler = library::nvrtc()?;
        result::init().map_err(no_device)?;
        let count = result::device::get_count().map_err(no_device)? as usize;
        if count == 0 {
            return Err(CudaError::NoDevice { why: "it counts none".into() });
        }
        if ordinal >= count {
            return Err(CudaError::NoSuchDevice { ordinal, count });
        }
        let (context, loaded) = modules::primary(ordinal)?;
        let about = failed("asking the device what it is");
        let name = context.name().map_err(about)?;
        let capability = context.compute_capability().map_err(about)?;
        let known = architectures()?;
        let oldest = known.first().map_or(LEAST, |known| (*known as i32 / 10, *known as i32 % 10));
        let least = oldest.max(LEAST);
        let architecture = architecture(&known, capability).filter(|_| capability >= LEAST);
        let Some(architecture) = architecture else {
            let compiler = format!("for NVRTC {}", compiler.version);
            return Err(CudaError::TooOld { device: name, capability, least, compiler });
        };
        let processors = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors = context.attribute(processors).map_err(about)?.max(1) as u32;
        Ok(Self { context, loaded, name, capability, multiprocessors, architecture })
    }

    /// Free and all memory of the device.
    pub fn memory(&self) -> Result<(Bytes, Bytes), CudaError> {
        let (free, total) =
            self.context.mem_get_info().map_err(failed("asking for free memory"))?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    /// What the driver says of the device; nothing below zero.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<u64, CudaError> {
        let about = failed("asking the device what it is");
        let value = self.context.attribute(attribute).map_err(about)?;
        Ok(u64::try_from(value).unwrap_or(0))
    }

    /// Makes this thread's calls of libraries calls to this device.
    pub fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().map_err(failed("binding the device"))
    }

    /// Waits for all that streams do.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.context.synchronize().map_err(failed("waiting for the device"))
    }

    fn load(&self, program: &Program) -> Result<Functions, CudaError> {
        let compiled = compile(program, &self.architecture)?;
        let loading = failed("loading kernels");
        let module = self.context.load_module(compiled.image()).map_err(loading)?;
        let function = |kernel: String| {
            let function = module.load_function(&kernel).map_err(loading)?;
            Ok((kernel, function))
        };
        program.kernels().into_iter().map(function).collect()
    }
}

#[derive(Debug)]
pub(super) struct DeviceMemory {
    context: Arc<CudaContext>,
    begin: u64,
    bytes: u64,
}

impl DeviceMemory {
    /// So many bytes, which hold anything.
    pub fn new(context: &Context, what: &'static str, bytes: Bytes) -> Result<Self, CudaError> {
        let too_little = |free| CudaError::TooLittleMemory { what, needed: bytes, free };
        let (free, _) = context.memory()?;
        if bytes > free {
            return Err(too_little(free));
        }
        // SAFETY: the context is bound to this thread, by asking it for its memory.
        let begin = unsafe { result::malloc_sync(bytes.0.max(1) as usize) };
        // Free memory may be in pieces.
        let begin = begin.map_err(|_| too_little(free))?;
        Ok(Self { context: context.context.clone(), begin, bytes: bytes.0 })
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The address of a place.
    ///
    /// # Panics
    /// If it does not lie inside: the proof of the plan was wrong then.
    pub fn address(&self, at: u64, bytes: u64) -> u64 {
        let end = at.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "a place outside of the device's memory");
        self.begin + at
    }

    /// Copies to the device, while no stream does anything.
    pub fn write<T: Copy>(&mut self, at: u64, data: &[T]) -> Result<(), CudaError> {
        let to = self.address(at, std::mem::size_of_val(data) as u64);
        self.bind()?;
        // SAFETY: the place lies inside, and no stream uses it.
        unsafe { result::memcpy_htod_sync(to, data) }.map_err(failed("writing a tensor"))?;
        // From memory that is not pinned, the copy returns when it has taken the data, not when
        // that has arrived; and our streams do not wait for the stream that it is on.
        self.context.synchronize().map_err(failed("writing a tensor"))
    }

    /// Copies from the device, while no stream does anything.
    pub fn read<T: Copy>(&self, at: u64, data: &mut [T]) -> Result<(), CudaError> {
        let from = self.address(at, std::mem::size_of_val(data) as u64);
        self.bind()?;
        // SAFETY: the place lies inside, and no stream uses it; callers read numbers, of which
        // every pattern of bits is one.
        unsafe { result::memcpy_dtoh_sync(data, from) }.map_err(failed("reading a tensor"))
    }

    fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().map_err(failed("binding the device"))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.bind().is_ok() {
            // SAFETY: allocated by `new`, and given back once. What fails has no remedy here.
            let _ = unsafe { result::free_sync(self.begin) };
        }
    }
}

/// Pinned memory of the host, which kernels can reach, too.
#[derive(Debug)]
pub(super) struct Pinned {
    context: Arc<CudaContext>,
    begin: *mut c_void,
    bytes: u64,
}

// SAFETY: plain memory; access to it is as the module says.
unsafe impl Send for Pinned {}

impl Pinned {
    /// So many bytes, which hold anything.
    pub fn new(context: &Context, bytes: Bytes) -> Result<Self, CudaError> {
        let none = |error| CudaError::NoPinnedMemory { needed: bytes, why: text(error) };
        context.context.bind_to_thread().map_err(failed("binding the device"))?;
        // Not write-combined, which would be slow to read. Its address is one for kernels, too
        // (unified addressing).
        // SAFETY: the context is bound.
        let begin = unsafe { result::malloc_host(bytes.0.max(1) as usize, 0) }.map_err(none)?;
        Ok(Self { context: context.context.clone(), begin, bytes: bytes.0 })
    }

    /// The address of a place.
    ///
    /// # Panics
    /// If it does not lie inside: the proof of the plan was wrong then.
    pub fn address(&self, at: u64, bytes: u64) -> u64 {
        let end = at.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "a place outside of pinned memory");
        self.begin as u64 + at
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `new`, and given back once. What fails has no remedy here.
            let _ = unsafe { result::free_host(self.begin) };
        }
    }
}
