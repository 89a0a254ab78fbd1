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

pub(super) mod host_call;
pub(super) mod identity;
mod launch;
mod modules;
mod moves;
mod streams;

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use codecs::kernels::Program;
use cudarc::cublas;
use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{CudaContext, DriverError, result};
use schema::Bytes;

use super::launches::BLAS_ARGUMENTS;
use super::{ARCHITECTURES, CudaError, Library, compile};
pub(super) use launch::Prepared;
pub(super) use modules::Kernels;
use modules::{Functions, Loaded};
pub(super) use streams::{Event, Stream, Urgency};

/// A device and its driver.
#[derive(Debug, Clone)]
pub(super) struct Context {
    context: Arc<CudaContext>,
    /// What any user of the device has loaded into it.
    loaded: Arc<Loaded>,
    pub name: String,
    /// Major and minor.
    pub capability: (i32, i32),
    pub multiprocessors: u32,
}

/// The oldest driver, by the version of CUDA that it is for, which has all that is called here.
const OLDEST_DRIVER: (u32, u32) = (12, 0);

/// The architecture that kernels are compiled for, for a compute capability: the newest that is not
/// newer than the device. The driver makes of it what the device runs.
pub(super) fn architecture(capability: (i32, i32)) -> Option<&'static str> {
    let number = |name: &str| name.trim_start_matches("sm_").parse::<i32>().ok();
    let own = 10 * capability.0 + capability.1;
    ARCHITECTURES.into_iter().rfind(|name| number(name).is_some_and(|number| number <= own))
}

impl Context {
    /// The device of this number.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        Library::Driver.require()?;
        Library::Nvrtc.require()?;
        let no_device = |error: DriverError| CudaError::NoDevice { why: text(error) };
        result::init().map_err(no_device)?;
        let driver = identity::driver_version()?;
        if driver < OLDEST_DRIVER {
            return Err(CudaError::OldDriver { version: driver, least: OLDEST_DRIVER });
        }
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
        if architecture(capability).is_none() {
            return Err(CudaError::TooOld { device: name, capability });
        }
        let processors = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors = context.attribute(processors).map_err(about)?.max(1) as u32;
        Ok(Self { context, loaded, name, capability, multiprocessors })
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

    /// Compiles and loads a program: its functions by name.
    fn load(&self, program: &Program) -> Result<Functions, CudaError> {
        let architecture = architecture(self.capability).unwrap_or(ARCHITECTURES[0]);
        let compiled = compile(program, architecture)?;
        let loading = failed("loading kernels (NVRTC must not be newer than the driver)");
        let module = self.context.load_module(compiled.ptx).map_err(loading)?;
        let function = |kernel: String| {
            let function = module.load_function(&kernel).map_err(loading)?;
            Ok((kernel, function))
        };
        program.kernels().into_iter().map(function).collect()
    }
}

/// cuBLAS on a stream.
#[derive(Debug)]
pub(super) struct Blas {
    handle: cublas::sys::cublasHandle_t,
    workspace: DeviceMemory,
}

// SAFETY: a handle may be used by one thread at a time, whichever it is.
unsafe impl Send for Blas {}

/// What NVIDIA recommends for its newest devices; with memory of its own, cuBLAS gives the same bits
/// whatever other streams do.
const BLAS_WORKSPACE: Bytes = Bytes(32 << 20);

impl Blas {
    /// For a stream, which outlives it.
    pub fn new(context: &Context, stream: &Stream) -> Result<Self, CudaError> {
        let workspace = DeviceMemory::new(context, "cuBLAS", BLAS_WORKSPACE)?;
        let failed = blas_failed("opening cuBLAS");
        let handle = cublas::result::create_handle().map_err(failed)?;
        let made = Self { handle, workspace };
        let at = made.workspace.address(0, BLAS_WORKSPACE.0) as *mut c_void;
        // SAFETY: the handle is open; the stream outlives it; the workspace is its own.
        unsafe {
            let stream = stream.stream.cu_stream() as cublas::sys::cudaStream_t;
            cublas::result::set_stream(made.handle, stream).map_err(failed)?;
            cublas::sys::cublasSetWorkspace_v2(made.handle, at, BLAS_WORKSPACE.0 as usize)
                .result()
                .map_err(failed)?;
        }
        Ok(made)
    }

    /// Bytes of device memory of its own.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace.bytes
    }

    /// Products, whose arguments are those of [`BLAS_ARGUMENTS`], of floats or of operands in 16 bits.
    pub fn multiply(&self, arguments: &[u64], in_halves: bool) -> Result<(), CudaError> {
        let Ok(arguments) = <&[u64; BLAS_ARGUMENTS]>::try_from(arguments) else {
            let why = "another number of arguments".into();
            return Err(CudaError::Call { what: "multiplying matrices", why });
        };
        let int = |index: usize| arguments[index] as i32;
        let float = |index: usize| f32::from_bits(arguments[index] as u32);
        let transposed = |index: usize| match arguments[index] {
            0 => cublas::sys::cublasOperation_t::CUBLAS_OP_N,
            _ => cublas::sys::cublasOperation_t::CUBLAS_OP_T,
        };
        let (alpha, beta) = (float(5), float(12));
        if in_halves {
            let half = cublas::sys::cudaDataType::CUDA_R_16BF;
            // SAFETY: as below; operands are of 16 bits, and factors, sums and output of 32.
            let multiplied = unsafe {
                cublas::result::gemm_strided_batched_ex(
                    self.handle,
                    transposed(0),
                    transposed(1),
                    int(2),
                    int(3),
                    int(4),
                    ptr::from_ref(&alpha).cast(),
                    arguments[6] as *const c_void,
                    half,
                    int(7),
                    arguments[8] as i64,
                    arguments[9] as *const c_void,
                    half,
                    int(10),
                    arguments[11] as i64,
                    ptr::from_ref(&beta).cast(),
                    arguments[13] as *mut c_void,
                    cublas::sys::cudaDataType::CUDA_R_32F,
                    int(14),
                    arguments[15] as i64,
                    int(16),
                    cublas::sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                    cublas::sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
                )
            };
            return multiplied.map_err(blas_failed("multiplying matrices of 16 bits"));
        }
        // SAFETY: matrices lie within their operands, as their strides have it, which tests hold on
        // an emulator; alpha and beta are read before the call returns.
        let multiplied = unsafe {
            cublas::result::sgemm_strided_batched(
                self.handle,
                transposed(0),
                transposed(1),
                int(2),
                int(3),
                int(4),
                &alpha,
                arguments[6] as *const f32,
                int(7),
                arguments[8] as i64,
                arguments[9] as *const f32,
                int(10),
                arguments[11] as i64,
                &beta,
                arguments[13] as *mut f32,
                int(14),
                arguments[15] as i64,
                int(16),
            )
        };
        multiplied.map_err(blas_failed("multiplying matrices"))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and closed once. What fails has no remedy here.
        let _ = unsafe { cublas::result::destroy_handle(self.handle) };
    }
}

fn blas_failed(what: &'static str) -> impl Fn(cublas::result::CublasError) -> CudaError + Copy {
    move |error| CudaError::Call { what, why: error.to_string() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compiled_for_what_the_device_can_run() {
        let of = [(6, 1), (7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (12, 0)].map(architecture);
        let [volta, ampere, hopper] = ARCHITECTURES.map(Some);
        assert_eq!(of, [None, volta, volta, ampere, ampere, hopper, hopper]);
    }
}
