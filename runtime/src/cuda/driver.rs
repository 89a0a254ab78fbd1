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
mod moves;

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use codecs::kernels::Program;
use cudarc::driver::sys::{
    CUdevice_attribute, CUevent, CUevent_flags, CUstream, cuEventElapsedTime,
};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaStream, DriverError, result};
use schema::Bytes;

use super::compile::{architecture, architectures};
use super::error::LEAST;
use super::{CudaError, Library, compile, library};
pub(super) use blas::Blas;

/// A device and its driver.
#[derive(Debug, Clone)]
pub(super) struct Context {
    context: Arc<CudaContext>,
    pub name: String,
    /// Major and minor.
    pub capability: (i32, i32),
    pub multiprocessors: u32,
    /// What kernels are compiled for.
    architecture: String,
}

/// The oldest driver, by the version of CUDA that it is for, which has all that is called here.
const OLDEST_DRIVER: (u32, u32) = (12, 0);

impl Context {
    /// The device of this number.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        Library::Driver.require()?;
        let no_device = |error: DriverError| CudaError::NoDevice { why: text(error) };
        let driver = identity::driver_version()?;
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
        let context = CudaContext::new(ordinal).map_err(failed("opening the device"))?;
        // SAFETY: nothing here is a slice of cudarc's; the plan has all ordering.
        unsafe { context.disable_event_tracking() };
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
        Ok(Self { context, name, capability, multiprocessors, architecture })
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

    pub fn stream(&self) -> Result<Stream, CudaError> {
        let stream = self.context.new_stream().map_err(failed("making a stream"))?;
        Ok(Stream { stream })
    }

    /// An event that says when.
    pub fn event(&self) -> Result<Event, CudaError> {
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let event = self.context.new_event(flags).map_err(failed("making an event"))?;
        Ok(Event { event })
    }

    /// An event that only says that, not when.
    pub fn order(&self) -> Result<Event, CudaError> {
        let flags = Some(CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let event = self.context.new_event(flags).map_err(failed("making an event"))?;
        Ok(Event { event })
    }

    /// Makes this thread's calls of libraries calls to this device.
    pub fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().map_err(failed("binding the device"))
    }

    /// Waits for all that streams do.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.context.synchronize().map_err(failed("waiting for the device"))
    }

    /// Compiles and loads programs.
    pub fn kernels(&self, programs: &[Program]) -> Result<Kernels, CudaError> {
        let mut functions = BTreeMap::new();
        for program in programs {
            let compiled = compile(program, &self.architecture)?;
            let loading = failed("loading kernels");
            let module = self.context.load_module(compiled.image()).map_err(loading)?;
            for kernel in program.kernels() {
                let function = module.load_function(&kernel).map_err(loading)?;
                functions.insert((program.name(), kernel), function);
            }
        }
        Ok(Kernels { functions })
    }
}

/// Loaded kernels by program and name.
#[derive(Debug)]
pub(super) struct Kernels {
    functions: BTreeMap<(&'static str, String), CudaFunction>,
}

/// A lane.
#[derive(Debug)]
pub(super) struct Stream {
    stream: Arc<CudaStream>,
}

/// A moment of a stream.
#[derive(Debug)]
pub(super) struct Event {
    event: CudaEvent,
}

impl Stream {
    /// As the driver has it, for a library that works on it.
    pub fn raw(&self) -> CUstream {
        self.stream.cu_stream()
    }

    /// Notes the moment when all that the stream was given so far has ended.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        event.event.record(&self.stream).map_err(failed("recording an event"))
    }

    /// Lets what the stream is given from now on wait for a moment.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        self.stream.wait(&event.event).map_err(failed("waiting for an event"))
    }

    /// Launches a kernel. Addresses among the arguments are those of memory that lives until the
    /// stream is done.
    pub fn launch(
        &self,
        kernels: &Kernels,
        (program, kernel): (&'static str, &str),
        [blocks, threads]: [u32; 2],
        arguments: &[u64],
    ) -> Result<(), CudaError> {
        let key = (program, kernel.to_owned());
        let no_kernel = || CudaError::Call { what: "launching", why: format!("no {kernel}") };
        let function = kernels.functions.get(&key).ok_or_else(no_kernel)?;
        let mut parameters: Vec<*mut c_void> =
            arguments.iter().map(|argument| std::ptr::from_ref(argument) as *mut c_void).collect();
        let (grid, block): ((c_uint, c_uint, c_uint), _) = ((blocks, 1, 1), (threads, 1, 1));
        // SAFETY: the function's module is loaded; each of its parameters has 8 bytes, and the driver
        // copies them before it returns; a test holds the numbers of parameters.
        let launched = unsafe {
            let (function, stream) = (function.cu_function(), self.stream.cu_stream());
            result::launch_kernel(function, grid, block, 0, stream, &mut parameters)
        };
        launched.map_err(failed("launching a kernel"))
    }

    /// Copies from the device to pinned memory, later.
    pub fn copy_out(
        &self,
        (device, from): (&DeviceMemory, u64),
        (host, to): (&Pinned, u64),
        bytes: u64,
    ) -> Result<(), CudaError> {
        let (from, to) = (device.address(from, bytes), host.address(to, bytes));
        // SAFETY: both places lie inside of memory that lives until the stream is done, and nobody
        // else has a slice of the pinned one.
        let copied = unsafe {
            let to = std::slice::from_raw_parts_mut(to as *mut u8, bytes as usize);
            result::memcpy_dtoh_async(to, from, self.stream.cu_stream())
        };
        copied.map_err(failed("copying to the host"))
    }

    /// Copies from pinned memory to the device, later.
    pub fn copy_in(
        &self,
        (device, to): (&DeviceMemory, u64),
        (host, from): (&Pinned, u64),
        bytes: u64,
    ) -> Result<(), CudaError> {
        let (from, to) = (host.address(from, bytes), device.address(to, bytes));
        // SAFETY: both places lie inside of memory that lives until the stream is done.
        let copied = unsafe {
            let from = std::slice::from_raw_parts(from as *const u8, bytes as usize);
            result::memcpy_htod_async(to, from, self.stream.cu_stream())
        };
        copied.map_err(failed("copying to the device"))
    }
}

impl Event {
    /// As the driver has it.
    pub fn raw(&self) -> CUevent {
        self.event.cu_event()
    }

    /// Nanoseconds from another event to this one, both of which have come.
    pub fn since(&self, start: &Self) -> Result<u64, CudaError> {
        let failed = failed("asking when an event came");
        start.event.synchronize().map_err(failed)?;
        self.event.synchronize().map_err(failed)?;
        let mut milliseconds = 0f32;
        // The first version of this function, which says the same: drivers have the second since CUDA
        // 12.8 alone, and what is not there cannot be called.
        // SAFETY: both events are open; it writes one number.
        let asked = unsafe { cuEventElapsedTime(&raw mut milliseconds, start.raw(), self.raw()) };
        asked.result().map_err(failed)?;
        Ok((f64::from(milliseconds.max(0.0)) * 1e6).round() as u64)
    }
}

/// Memory of the device, one allocation.
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

    /// How many there are.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The address of a place.
    ///
    /// # Panics
    ///
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
        // From memory that is not pinned, the copy returns when it has taken the data, not when that
        // has arrived; and our streams do not wait for the stream that it is on.
        self.context.synchronize().map_err(failed("writing a tensor"))
    }

    /// Copies from the device, while no stream does anything.
    pub fn read<T: Copy>(&self, at: u64, data: &mut [T]) -> Result<(), CudaError> {
        let from = self.address(at, std::mem::size_of_val(data) as u64);
        self.bind()?;
        // SAFETY: the place lies inside, and no stream uses it; callers read numbers, of which every
        // pattern of bits is one.
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
    ///
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

fn text(error: DriverError) -> String {
    let text = error.error_string().ok().map(|text| text.to_string_lossy().into_owned());
    text.unwrap_or_else(|| format!("{error:?}"))
}

pub(super) fn failed(what: &'static str) -> impl Fn(DriverError) -> CudaError + Copy {
    move |error| CudaError::Call { what, why: text(error) }
}
