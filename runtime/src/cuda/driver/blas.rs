//! cuBLAS on a stream.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::cublas::sys;
use schema::Bytes;

use super::{Context, DeviceMemory, Stream};
use crate::cuda::CudaError;
use crate::cuda::error::call;
use crate::cuda::launches::BLAS_ARGUMENTS;
use crate::cuda::library::{Cublas, cublas};

/// cuBLAS on a stream.
pub struct Blas {
    handle: Handle,
    workspace: DeviceMemory,
}

struct Handle {
    raw: sys::cublasHandle_t,
    own: &'static Cublas,
}

// SAFETY: a handle may be used by one thread at a time, whichever it is.
unsafe impl Send for Blas {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and closed once. What fails has no remedy here.
        let _ = unsafe { (self.own.cublasDestroy_v2)(self.raw) };
    }
}

/// What NVIDIA recommends for its newest devices; with memory of its own, cuBLAS gives the same
/// bits whatever other streams do.
const WORKSPACE: Bytes = Bytes(32 << 20);

impl Blas {
    /// For a stream, which outlives it.
    pub fn new(context: &Context, stream: &Stream) -> Result<Self, CudaError> {
        let own = &cublas()?.functions;
        let done = |status| own.done(status).map_err(call("opening cuBLAS"));
        context.bind()?;
        let mut raw = ptr::null_mut();
        // SAFETY: it writes one handle.
        done(unsafe { (own.cublasCreate_v2)(&raw mut raw) })?;
        let handle = Handle { raw, own };
        let workspace = DeviceMemory::new(context, "cuBLAS", WORKSPACE)?;
        let at = workspace.address(0, WORKSPACE.0) as *mut c_void;
        // SAFETY: the handle is open; the stream outlives it; the workspace is its own.
        unsafe {
            done((own.cublasSetStream_v2)(raw, stream.raw() as sys::cudaStream_t))?;
            done((own.cublasSetWorkspace_v2)(raw, at, WORKSPACE.0 as usize))?;
        }
        Ok(Self { handle, workspace })
    }

    /// Bytes of device memory of its own.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace.bytes()
    }

    /// Products, whose arguments are those of [`BLAS_ARGUMENTS`], of floats or of operands in 16
    /// bits.
    pub fn multiply(&self, arguments: &[u64], in_halves: bool) -> Result<(), CudaError> {
        let Ok(arguments) = <&[u64; BLAS_ARGUMENTS]>::try_from(arguments) else {
            let why = "another number of arguments".into();
            return Err(CudaError::Call { what: "multiplying matrices", why });
        };
        let [ta, tb] = [0, 1].map(|index| match arguments[index] {
            0 => sys::cublasOperation_t::CUBLAS_OP_N,
            _ => sys::cublasOperation_t::CUBLAS_OP_T,
        });
        let [m, n, k, lda, ldb, ldc, batch] =
            [2, 3, 4, 7, 10, 14, 16].map(|index| arguments[index] as c_int);
        let [alpha, beta] = [5, 12].map(|index| f32::from_bits(arguments[index] as u32));
        let [a, b, c] = [6, 9, 13].map(|index| arguments[index] as *mut c_void);
        let [apart_a, apart_b, apart_c] = [8, 11, 15].map(|index| arguments[index] as i64);
        let Handle { raw: h, own } = &self.handle;
        let (h, one, zero) = (*h, &raw const alpha, &raw const beta);
        let (half, float) = (sys::cudaDataType::CUDA_R_16BF, sys::cudaDataType::CUDA_R_32F);
        // SAFETY: matrices lie within their operands, as their strides have it, which tests hold on
        // an emulator; alpha and beta are read before the call returns. Operands in halves have 16
        // bits, and factors, sums and output 32.
        let multiplied = unsafe {
            match in_halves {
                true => (own.cublasGemmStridedBatchedEx)(
                    h,
                    ta,
                    tb,
                    m,
                    n,
                    k,
                    one.cast(),
                    a,
                    half,
                    lda,
                    apart_a,
                    b,
                    half,
                    ldb,
                    apart_b,
                    zero.cast(),
                    c,
                    float,
                    ldc,
                    apart_c,
                    batch,
                    sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                    sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
                ),
                false => {
                    let (a, b, c) = (a.cast(), b.cast(), c.cast());
                    let (multiply, sa, sb, sc) =
                        (own.cublasSgemmStridedBatched, apart_a, apart_b, apart_c);
                    multiply(
                        h, ta, tb, m, n, k, one, a, lda, sa, b, ldb, sb, zero, c, ldc, sc, batch,
                    )
                }
            }
        };
        own.done(multiplied).map_err(call(match in_halves {
            true => "multiplying matrices of 16 bits",
            false => "multiplying matrices",
        }))
    }
}
