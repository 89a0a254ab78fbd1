//! What is called of NVRTC, cuBLAS and cuDNN, as their headers have it.
//!
//! Statuses are numbers here: a library that is newer than its header may say one that no list has.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};

use cudarc::{cublas::sys as blas, cudnn::sys as dnn, nvrtc::sys as nvrtc};

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
                        // SAFETY: the type is that of the header, in each version that is known here;
                        // the table is not used after the library is closed.
                        let found = unsafe { library.get(name.as_bytes()) };
                        *found.map_err(|_| format!("has no `{name}`"))?
                    },)+
                })
            }
        }
    };
}

functions! {
    /// NVRTC.
    Nvrtc {
        nvrtcVersion: fn(*mut c_int, *mut c_int) -> c_int;
        nvrtcGetErrorString: fn(c_int) -> *const c_char;
        nvrtcGetNumSupportedArchs: fn(*mut c_int) -> c_int;
        nvrtcGetSupportedArchs: fn(*mut c_int) -> c_int;
        nvrtcCreateProgram: fn(
            *mut nvrtc::nvrtcProgram, *const c_char, *const c_char, c_int,
            *const *const c_char, *const *const c_char,
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
    /// cuBLAS.
    Cublas {
        cublasGetProperty: fn(c_int, *mut c_int) -> c_int;
        cublasGetStatusString: fn(c_int) -> *const c_char;
        cublasCreate_v2: fn(*mut blas::cublasHandle_t) -> c_int;
        cublasDestroy_v2: fn(blas::cublasHandle_t) -> c_int;
        cublasSetStream_v2: fn(blas::cublasHandle_t, blas::cudaStream_t) -> c_int;
        cublasSetWorkspace_v2: fn(blas::cublasHandle_t, *mut c_void, usize) -> c_int;
        cublasSgemmStridedBatched: fn(
            blas::cublasHandle_t, blas::cublasOperation_t, blas::cublasOperation_t,
            c_int, c_int, c_int, *const f32,
            *const f32, c_int, c_longlong, *const f32, c_int, c_longlong, *const f32,
            *mut f32, c_int, c_longlong, c_int,
        ) -> c_int;
        cublasGemmStridedBatchedEx: fn(
            blas::cublasHandle_t, blas::cublasOperation_t, blas::cublasOperation_t,
            c_int, c_int, c_int, *const c_void,
            *const c_void, blas::cudaDataType, c_int, c_longlong,
            *const c_void, blas::cudaDataType, c_int, c_longlong, *const c_void,
            *mut c_void, blas::cudaDataType, c_int, c_longlong, c_int,
            blas::cublasComputeType_t, blas::cublasGemmAlgo_t,
        ) -> c_int;
    }
}

functions! {
    /// cuDNN.
    Cudnn {
        cudnnGetVersion: fn() -> usize;
        cudnnGetCudartVersion: fn() -> usize;
        cudnnGetErrorString: fn(c_int) -> *const c_char;
        cudnnCreate: fn(*mut dnn::cudnnHandle_t) -> c_int;
        cudnnDestroy: fn(dnn::cudnnHandle_t) -> c_int;
        cudnnSetStream: fn(dnn::cudnnHandle_t, dnn::cudaStream_t) -> c_int;
        cudnnCreateTensorDescriptor: fn(*mut dnn::cudnnTensorDescriptor_t) -> c_int;
        cudnnDestroyTensorDescriptor: fn(dnn::cudnnTensorDescriptor_t) -> c_int;
        cudnnSetTensorNdDescriptor: fn(
            dnn::cudnnTensorDescriptor_t, dnn::cudnnDataType_t, c_int, *const c_int, *const c_int,
        ) -> c_int;
        cudnnCreateFilterDescriptor: fn(*mut dnn::cudnnFilterDescriptor_t) -> c_int;
        cudnnDestroyFilterDescriptor: fn(dnn::cudnnFilterDescriptor_t) -> c_int;
        cudnnSetFilterNdDescriptor: fn(
            dnn::cudnnFilterDescriptor_t, dnn::cudnnDataType_t, dnn::cudnnTensorFormat_t,
            c_int, *const c_int,
        ) -> c_int;
        cudnnCreateConvolutionDescriptor: fn(*mut dnn::cudnnConvolutionDescriptor_t) -> c_int;
        cudnnDestroyConvolutionDescriptor: fn(dnn::cudnnConvolutionDescriptor_t) -> c_int;
        cudnnSetConvolutionNdDescriptor: fn(
            dnn::cudnnConvolutionDescriptor_t, c_int, *const c_int, *const c_int, *const c_int,
            dnn::cudnnConvolutionMode_t, dnn::cudnnDataType_t,
        ) -> c_int;
        cudnnSetConvolutionGroupCount: fn(dnn::cudnnConvolutionDescriptor_t, c_int) -> c_int;
        cudnnSetConvolutionMathType:
            fn(dnn::cudnnConvolutionDescriptor_t, dnn::cudnnMathType_t) -> c_int;
        cudnnCreatePoolingDescriptor: fn(*mut dnn::cudnnPoolingDescriptor_t) -> c_int;
        cudnnDestroyPoolingDescriptor: fn(dnn::cudnnPoolingDescriptor_t) -> c_int;
        cudnnSetPoolingNdDescriptor: fn(
            dnn::cudnnPoolingDescriptor_t, dnn::cudnnPoolingMode_t, dnn::cudnnNanPropagation_t,
            c_int, *const c_int, *const c_int, *const c_int,
        ) -> c_int;
        cudnnGetConvolutionForwardWorkspaceSize: fn(
            dnn::cudnnHandle_t, dnn::cudnnTensorDescriptor_t, dnn::cudnnFilterDescriptor_t,
            dnn::cudnnConvolutionDescriptor_t, dnn::cudnnTensorDescriptor_t,
            dnn::cudnnConvolutionFwdAlgo_t, *mut usize,
        ) -> c_int;
        cudnnGetConvolutionBackwardDataWorkspaceSize: fn(
            dnn::cudnnHandle_t, dnn::cudnnFilterDescriptor_t, dnn::cudnnTensorDescriptor_t,
            dnn::cudnnConvolutionDescriptor_t, dnn::cudnnTensorDescriptor_t,
            dnn::cudnnConvolutionBwdDataAlgo_t, *mut usize,
        ) -> c_int;
        cudnnGetConvolutionBackwardFilterWorkspaceSize: fn(
            dnn::cudnnHandle_t, dnn::cudnnTensorDescriptor_t, dnn::cudnnTensorDescriptor_t,
            dnn::cudnnConvolutionDescriptor_t, dnn::cudnnFilterDescriptor_t,
            dnn::cudnnConvolutionBwdFilterAlgo_t, *mut usize,
        ) -> c_int;
        cudnnConvolutionForward: fn(
            dnn::cudnnHandle_t, *const c_void, dnn::cudnnTensorDescriptor_t, *const c_void,
            dnn::cudnnFilterDescriptor_t, *const c_void, dnn::cudnnConvolutionDescriptor_t,
            dnn::cudnnConvolutionFwdAlgo_t, *mut c_void, usize, *const c_void,
            dnn::cudnnTensorDescriptor_t, *mut c_void,
        ) -> c_int;
        cudnnConvolutionBackwardData: fn(
            dnn::cudnnHandle_t, *const c_void, dnn::cudnnFilterDescriptor_t, *const c_void,
            dnn::cudnnTensorDescriptor_t, *const c_void, dnn::cudnnConvolutionDescriptor_t,
            dnn::cudnnConvolutionBwdDataAlgo_t, *mut c_void, usize, *const c_void,
            dnn::cudnnTensorDescriptor_t, *mut c_void,
        ) -> c_int;
        cudnnConvolutionBackwardFilter: fn(
            dnn::cudnnHandle_t, *const c_void, dnn::cudnnTensorDescriptor_t, *const c_void,
            dnn::cudnnTensorDescriptor_t, *const c_void, dnn::cudnnConvolutionDescriptor_t,
            dnn::cudnnConvolutionBwdFilterAlgo_t, *mut c_void, usize, *const c_void,
            dnn::cudnnFilterDescriptor_t, *mut c_void,
        ) -> c_int;
        cudnnPoolingForward: fn(
            dnn::cudnnHandle_t, dnn::cudnnPoolingDescriptor_t, *const c_void,
            dnn::cudnnTensorDescriptor_t, *const c_void, *const c_void,
            dnn::cudnnTensorDescriptor_t, *mut c_void,
        ) -> c_int;
        cudnnPoolingBackward: fn(
            dnn::cudnnHandle_t, dnn::cudnnPoolingDescriptor_t, *const c_void,
            dnn::cudnnTensorDescriptor_t, *const c_void, dnn::cudnnTensorDescriptor_t, *const c_void,
            dnn::cudnnTensorDescriptor_t, *const c_void, *const c_void,
            dnn::cudnnTensorDescriptor_t, *mut c_void,
        ) -> c_int;
        cudnnSoftmaxForward: fn(
            dnn::cudnnHandle_t, dnn::cudnnSoftmaxAlgorithm_t, dnn::cudnnSoftmaxMode_t, *const c_void,
            dnn::cudnnTensorDescriptor_t, *const c_void, *const c_void,
            dnn::cudnnTensorDescriptor_t, *mut c_void,
        ) -> c_int;
        cudnnSoftmaxBackward: fn(
            dnn::cudnnHandle_t, dnn::cudnnSoftmaxAlgorithm_t, dnn::cudnnSoftmaxMode_t, *const c_void,
            dnn::cudnnTensorDescriptor_t, *const c_void, dnn::cudnnTensorDescriptor_t, *const c_void,
            *const c_void, dnn::cudnnTensorDescriptor_t, *mut c_void,
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
