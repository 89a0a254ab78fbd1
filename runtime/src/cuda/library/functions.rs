//! What is called of NVRTC, cuBLAS and cuDNN, as their headers have it.
//!
//! Statuses are numbers here: a library that is newer than its header may say one that no list has.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};

use cudarc::cublas::sys::{
    self as blas, cublasHandle_t as BlasHandle, cublasOperation_t as Operation,
};
use cudarc::cudnn::sys::{
    cudaStream_t as Stream, cudnnConvolutionBwdDataAlgo_t as OfInput,
    cudnnConvolutionBwdFilterAlgo_t as OfWeights, cudnnConvolutionDescriptor_t as Convolution,
    cudnnConvolutionFwdAlgo_t as Forward, cudnnConvolutionMode_t as ConvolutionMode,
    cudnnDataType_t as DataType, cudnnFilterDescriptor_t as Filter, cudnnHandle_t as H,
    cudnnMathType_t as Math, cudnnNanPropagation_t as Nan, cudnnPoolingDescriptor_t as Pooling,
    cudnnPoolingMode_t as PoolingMode, cudnnSoftmaxAlgorithm_t as SoftmaxAlgorithm,
    cudnnSoftmaxMode_t as SoftmaxMode, cudnnTensorDescriptor_t as Tensor,
    cudnnTensorFormat_t as Format,
};
use cudarc::nvrtc::sys as nvrtc;

use super::About;

macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($name:ident: fn($($argument:ty),* $(,)?) -> $result:ty;)+ }) => {
        $(#[$about])*
        #[allow(non_snake_case, reason = "the names of the library's functions")]
        pub struct $table {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)+
        }

        impl $table {
            fn of(library: &libloading::Library) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let name = stringify!($name);
                        // SAFETY: the type is that of the header, in each version that is known
                        // here; the table is not used after the library is closed.
                        let found = unsafe { library.get(name.as_bytes()) };
                        *found.map_err(|_| format!("has no `{name}`"))?
                    },)+
                })
            }
        }
    };
}

functions! {
    Nvrtc {
        nvrtcVersion: fn(*mut c_int, *mut c_int) -> c_int;
        nvrtcGetErrorString: fn(c_int) -> *const c_char;
        nvrtcGetNumSupportedArchs: fn(*mut c_int) -> c_int;
        nvrtcGetSupportedArchs: fn(*mut c_int) -> c_int;
        nvrtcCreateProgram: fn(
            *mut nvrtc::nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        nvrtcDestroyProgram: fn(*mut nvrtc::nvrtcProgram) -> c_int;
        nvrtcCompileProgram: fn(nvrtc::nvrtcProgram, c_int, *const *const c_char) -> c_int;
        nvrtcGetProgramLogSize: fn(nvrtc::nvrtcProgram, *mut usize) -> c_int;
        nvrtcGetProgramLog: fn(nvrtc::nvrtcProgram, *mut c_char) -> c_int;
        nvrtcGetPTXSize: fn(nvrtc::nvrtcProgram, *mut usize) -> c_int;
        nvrtcGetPTX: fn(nvrtc::nvrtcProgram, *mut c_char) -> c_int;
        nvrtcGetCUBINSize: fn(nvrtc::nvrtcProgram, *mut usize) -> c_int;
        nvrtcGetCUBIN: fn(nvrtc::nvrtcProgram, *mut c_char) -> c_int;
    }
}

functions! {
    Cublas {
        cublasGetProperty: fn(c_int, *mut c_int) -> c_int;
        cublasGetStatusString: fn(c_int) -> *const c_char;
        cublasCreate_v2: fn(*mut BlasHandle) -> c_int;
        cublasDestroy_v2: fn(BlasHandle) -> c_int;
        cublasSetStream_v2: fn(BlasHandle, blas::cudaStream_t) -> c_int;
        cublasSetWorkspace_v2: fn(BlasHandle, *mut c_void, usize) -> c_int;
        cublasSgemmStridedBatched: fn(
            BlasHandle, Operation, Operation, c_int, c_int, c_int, *const f32, *const f32, c_int,
            c_longlong, *const f32, c_int, c_longlong, *const f32, *mut f32, c_int, c_longlong,
            c_int,
        ) -> c_int;
        cublasGemmStridedBatchedEx: fn(
            BlasHandle, Operation, Operation, c_int, c_int, c_int, *const c_void, *const c_void,
            blas::cudaDataType, c_int, c_longlong, *const c_void, blas::cudaDataType, c_int,
            c_longlong, *const c_void, *mut c_void, blas::cudaDataType, c_int, c_longlong, c_int,
            blas::cublasComputeType_t, blas::cublasGemmAlgo_t,
        ) -> c_int;
    }
}

functions! {
    Cudnn {
        cudnnGetVersion: fn() -> usize;
        cudnnGetCudartVersion: fn() -> usize;
        cudnnGetErrorString: fn(c_int) -> *const c_char;
        cudnnCreate: fn(*mut H) -> c_int;
        cudnnDestroy: fn(H) -> c_int;
        cudnnSetStream: fn(H, Stream) -> c_int;
        cudnnCreateTensorDescriptor: fn(*mut Tensor) -> c_int;
        cudnnDestroyTensorDescriptor: fn(Tensor) -> c_int;
        cudnnSetTensorNdDescriptor: fn(
            Tensor, DataType, c_int, *const c_int, *const c_int,
        ) -> c_int;
        cudnnCreateFilterDescriptor: fn(*mut Filter) -> c_int;
        cudnnDestroyFilterDescriptor: fn(Filter) -> c_int;
        cudnnSetFilterNdDescriptor: fn(Filter, DataType, Format, c_int, *const c_int) -> c_int;
        cudnnCreateConvolutionDescriptor: fn(*mut Convolution) -> c_int;
        cudnnDestroyConvolutionDescriptor: fn(Convolution) -> c_int;
        cudnnSetConvolutionNdDescriptor: fn(
            Convolution, c_int, *const c_int, *const c_int, *const c_int, ConvolutionMode, DataType,
        ) -> c_int;
        cudnnSetConvolutionGroupCount: fn(Convolution, c_int) -> c_int;
        cudnnSetConvolutionMathType: fn(Convolution, Math) -> c_int;
        cudnnCreatePoolingDescriptor: fn(*mut Pooling) -> c_int;
        cudnnDestroyPoolingDescriptor: fn(Pooling) -> c_int;
        cudnnSetPoolingNdDescriptor: fn(
            Pooling, PoolingMode, Nan, c_int, *const c_int, *const c_int, *const c_int,
        ) -> c_int;
        cudnnGetConvolutionForwardWorkspaceSize: fn(
            H, Tensor, Filter, Convolution, Tensor, Forward, *mut usize,
        ) -> c_int;
        cudnnGetConvolutionBackwardDataWorkspaceSize: fn(
            H, Filter, Tensor, Convolution, Tensor, OfInput, *mut usize,
        ) -> c_int;
        cudnnGetConvolutionBackwardFilterWorkspaceSize: fn(
            H, Tensor, Tensor, Convolution, Filter, OfWeights, *mut usize,
        ) -> c_int;
        cudnnConvolutionForward: fn(
            H, *const c_void, Tensor, *const c_void, Filter, *const c_void, Convolution, Forward,
            *mut c_void, usize, *const c_void, Tensor, *mut c_void,
        ) -> c_int;
        cudnnConvolutionBackwardData: fn(
            H, *const c_void, Filter, *const c_void, Tensor, *const c_void, Convolution, OfInput,
            *mut c_void, usize, *const c_void, Tensor, *mut c_void,
        ) -> c_int;
        cudnnConvolutionBackwardFilter: fn(
            H, *const c_void, Tensor, *const c_void, Tensor, *const c_void, Convolution, OfWeights,
            *mut c_void, usize, *const c_void, Filter, *mut c_void,
        ) -> c_int;
        cudnnPoolingForward: fn(
            H, Pooling, *const c_void, Tensor, *const c_void, *const c_void, Tensor, *mut c_void,
        ) -> c_int;
        cudnnPoolingBackward: fn(
            H, Pooling, *const c_void, Tensor, *const c_void, Tensor, *const c_void, Tensor,
            *const c_void, *const c_void, Tensor, *mut c_void,
        ) -> c_int;
        cudnnSoftmaxForward: fn(
            H, SoftmaxAlgorithm, SoftmaxMode, *const c_void, Tensor, *const c_void, *const c_void,
            Tensor, *mut c_void,
        ) -> c_int;
        cudnnSoftmaxBackward: fn(
            H, SoftmaxAlgorithm, SoftmaxMode, *const c_void, Tensor, *const c_void, Tensor,
            *const c_void, *const c_void, Tensor, *mut c_void,
        ) -> c_int;
    }
}

/// The oldest cuDNN that this has the names of.
const OLDEST_CUDNN: usize = 90_000;

impl Nvrtc {
    /// What the library says of itself.
    pub fn about(library: &libloading::Library) -> Result<About<Self>, String> {
        let functions = Self::of(library)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: it writes two numbers.
        unsafe { (functions.nvrtcVersion)(&raw mut major, &raw mut minor) };
        Ok(About { functions, version: format!("{major}.{minor}"), cuda: major.unsigned_abs() })
    }

    /// A call that succeeded, or what the library says.
    pub fn done(&self, status: c_int) -> Result<(), String> {
        // SAFETY: it takes any number, and texts last.
        done(status, || unsafe { (self.nvrtcGetErrorString)(status) })
    }
}

impl Cublas {
    /// What the library says of itself.
    pub fn about(library: &libloading::Library) -> Result<About<Self>, String> {
        let functions = Self::of(library)?;
        // `libraryPropertyType`: major, minor, patch.
        let [major, minor, patch] = [0, 1, 2].map(|property| {
            let mut value = 0;
            // SAFETY: it writes one number.
            unsafe { (functions.cublasGetProperty)(property, &raw mut value) };
            value
        });
        let version = format!("{major}.{minor}.{patch}");
        Ok(About { functions, version, cuda: major.unsigned_abs() })
    }

    /// A call that succeeded, or what the library says.
    pub fn done(&self, status: c_int) -> Result<(), String> {
        // SAFETY: it takes any number, and texts last.
        done(status, || unsafe { (self.cublasGetStatusString)(status) })
    }
}

impl Cudnn {
    /// What the library says of itself.
    pub fn about(library: &libloading::Library) -> Result<About<Self>, String> {
        let functions = Self::of(library)?;
        // SAFETY: it takes nothing.
        let version = unsafe { (functions.cudnnGetVersion)() };
        if version < OLDEST_CUDNN {
            // Older ones count otherwise: 8900 is 8.9.0.
            let [major, minor, patch] = [version / 1000, version / 100 % 10, version % 100];
            return Err(format!("is cuDNN {major}.{minor}.{patch}, older than 9"));
        }
        // SAFETY: it takes nothing.
        let cuda = unsafe { (functions.cudnnGetCudartVersion)() } / 1000;
        let version = format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100);
        Ok(About { functions, version, cuda: u32::try_from(cuda).unwrap_or(u32::MAX) })
    }

    /// A call that succeeded, or the status and what the library says.
    pub fn done(&self, status: c_int) -> Result<(), (c_int, String)> {
        // SAFETY: it takes any number, and texts last.
        done(status, || unsafe { (self.cudnnGetErrorString)(status) }).map_err(|why| (status, why))
    }
}

fn done(status: c_int, text: impl Fn() -> *const c_char) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    let text = text();
    if text.is_null() {
        return Err(format!("status {status}"));
    }
    // SAFETY: the library's texts end and last.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    Err(format!("{text} (status {status})"))
}
