//! cuDNN on a stream: convolutions, means and softmax.
//!
//! # Always the same bits
//!
//! Of each sort one algorithm is asked for, among those that cuDNN's documentation calls
//! deterministic, whatever the sizes: implicit products with indices worked out before, and the first
//! algorithm of either gradient (the one numbered 0 adds up in any order). Products are not rounded to
//! TF32. What has no such algorithm, an op of odd sizes perhaps, is left to our own kernels, which is
//! decided once for each op, when the device is opened; so recomputing takes what running took.
//!
//! # Memory to work in
//!
//! What an algorithm works in is known to the library alone, and a plan is made without it. So it is no
//! part of the plan's arena, but an allocation of its own, as large as the most that any op needs, and
//! is said with what else is outside of it. All calls are on one stream, one after the other.
//!
//! # Why this is sound
//!
//! As for the driver: addresses come from the plan, and the stream and the workspace outlive the handle.
#![allow(unsafe_code)]

mod prepared;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ptr;

use cudarc::cudnn::{result, sys};
use schema::{Bytes, OpId};

use super::CudaError;
use super::driver::{Context, DeviceMemory, Stream};
use super::launches::{DnnKernel, dnn_call};
use crate::network::Network;
use prepared::{FORWARD, How, OF_INPUT, OF_WEIGHTS, Prepared};

/// The oldest version that this has the names of.
const OLDEST: usize = 90_000;

/// The version of the library that is there, such as `9.2.1`; as an error where it is too old.
pub(super) fn version() -> Result<String, String> {
    let version = result::get_version();
    let said = format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100);
    match version >= OLDEST {
        true => Ok(said),
        // Older ones count otherwise: 8900 is 8.9.0.
        false => Err(format!("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)),
    }
}

/// cuDNN on a stream, ready for the ops of a network.
pub(super) struct Dnn {
    prepared: BTreeMap<DnnKernel, BTreeMap<Vec<u64>, Prepared>>,
    workspace: DeviceMemory,
    handle: Handle,
}

// SAFETY: a handle and its descriptors may be used by one thread at a time, whichever it is.
unsafe impl Send for Dnn {}

struct Handle(sys::cudnnHandle_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and closed once. What fails has no remedy here.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

const SOFTMAX: (sys::cudnnSoftmaxAlgorithm_t, sys::cudnnSoftmaxMode_t) = (
    sys::cudnnSoftmaxAlgorithm_t::CUDNN_SOFTMAX_ACCURATE,
    sys::cudnnSoftmaxMode_t::CUDNN_SOFTMAX_MODE_INSTANCE,
);

impl Dnn {
    /// For a stream, which outlives it, and the ops of a network. Also returns the ops that could be
    /// said and have no algorithm here.
    pub fn new(
        context: &Context,
        stream: &Stream,
        network: &Network,
    ) -> Result<(Self, BTreeSet<OpId>), CudaError> {
        let opening = failed("opening cuDNN");
        context.bind()?;
        let handle = Handle(result::create_handle().map_err(opening)?);
        // SAFETY: the handle is open, and the stream outlives it.
        unsafe { result::set_stream(handle.0, stream.raw() as sys::cudaStream_t) }
            .map_err(opening)?;
        let mut prepared: BTreeMap<DnnKernel, BTreeMap<Vec<u64>, Prepared>> = BTreeMap::new();
        let mut refused = BTreeSet::new();
        for (index, op) in network.ops().iter().enumerate() {
            let Some(call) = dnn_call(&op.step) else { continue };
            let of_kernel = prepared.entry(call.kernel).or_default();
            if of_kernel.contains_key(&call.numbers) {
                continue;
            }
            match Prepared::new(&handle, &call) {
                Ok(made) => {
                    of_kernel.insert(call.numbers, made);
                }
                Err(error) if is_unsupported(error) => {
                    refused.insert(OpId::from_index(index));
                }
                Err(error) => return Err(failed("describing an op to cuDNN")(error)),
            }
        }
        let all = prepared.values().flat_map(BTreeMap::values);
        let most = all.map(|prepared| prepared.workspace).max().unwrap_or(0);
        let workspace = DeviceMemory::new(context, "cuDNN", Bytes(most))?;
        Ok((Self { prepared, workspace, handle }, refused))
    }

    /// Bytes of device memory of its own.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace.bytes()
    }

    /// Carries a launch out, whose arguments are numbers and then addresses.
    pub fn carry_out(&self, kernel: &str, arguments: &[u64]) -> Result<(), CudaError> {
        let what = "a call of cuDNN";
        let unknown = || CudaError::Call { what, why: format!("nothing prepared for {kernel}") };
        let kernel = DnnKernel::ALL.into_iter().find(|one| one.name() == kernel);
        let kernel = kernel.ok_or_else(unknown)?;
        let (numbers, at) = arguments.split_at_checked(kernel.numbers()).ok_or_else(unknown)?;
        let of_kernel = self.prepared.get(&kernel);
        let prepared = of_kernel.and_then(|all| all.get(numbers)).ok_or_else(unknown)?;
        if at.len() != kernel.addresses() {
            return Err(unknown());
        }
        self.call(kernel, prepared, at).map_err(failed(what))
    }

    fn call(
        &self,
        kernel: DnnKernel,
        Prepared { x, y, how, workspace }: &Prepared,
        at: &[u64],
    ) -> Result<(), result::CudnnError> {
        let bytes = *workspace as usize;
        let room = self.workspace.address(0, *workspace) as *mut c_void;
        let (one, zero) = (1.0f32, 0.0f32);
        let (one, zero) = (ptr::from_ref(&one).cast(), ptr::from_ref(&zero).cast());
        let at = |index: usize| at[index] as *mut c_void;
        let handle = self.handle.0;
        // SAFETY: descriptors say what the op's operands are, which the plan's proof has room for;
        // factors are read before the call returns.
        unsafe {
            match (kernel, how) {
                (DnnKernel::Convolution, How::Convolution { filter, convolution }) => {
                    result::convolution_forward(
                        handle,
                        one,
                        x.raw,
                        at(0),
                        filter.raw,
                        at(1),
                        convolution.raw,
                        FORWARD,
                        room,
                        bytes,
                        zero,
                        y.raw,
                        at(2),
                    )
                }
                (DnnKernel::ConvolutionWeights, How::Convolution { filter, convolution }) => {
                    result::convolution_backward_filter(
                        handle,
                        one,
                        x.raw,
                        at(0),
                        y.raw,
                        at(1),
                        convolution.raw,
                        OF_WEIGHTS,
                        room,
                        bytes,
                        zero,
                        filter.raw,
                        at(2),
                    )
                }
                (DnnKernel::ConvolutionInput, How::Convolution { filter, convolution }) => {
                    result::convolution_backward_data(
                        handle,
                        one,
                        filter.raw,
                        at(0),
                        y.raw,
                        at(1),
                        convolution.raw,
                        OF_INPUT,
                        room,
                        bytes,
                        zero,
                        x.raw,
                        at(2),
                    )
                }
                (DnnKernel::AveragePool, How::Pool(pool)) => {
                    result::pooling_forward(handle, pool.raw, one, x.raw, at(0), zero, y.raw, at(1))
                }
                // Input and output are operands, too, on which the gradient of a mean does not
                // depend; whatever has their sizes will do.
                (DnnKernel::AveragePoolBackward, How::Pool(pool)) => sys::cudnnPoolingBackward(
                    handle,
                    pool.raw,
                    one,
                    y.raw,
                    at(0),
                    y.raw,
                    at(0),
                    x.raw,
                    at(1),
                    zero,
                    x.raw,
                    at(1),
                )
                .result(),
                (DnnKernel::Softmax, How::Softmax) => result::softmax_forward(
                    handle,
                    SOFTMAX.0,
                    SOFTMAX.1,
                    one,
                    x.raw,
                    at(0),
                    zero,
                    y.raw,
                    at(1),
                ),
                (DnnKernel::SoftmaxBackward, How::Softmax) => sys::cudnnSoftmaxBackward(
                    handle,
                    SOFTMAX.0,
                    SOFTMAX.1,
                    one,
                    y.raw,
                    at(0),
                    y.raw,
                    at(1),
                    zero,
                    x.raw,
                    at(2),
                )
                .result(),
                _ => Err(result::CudnnError(sys::cudnnStatus_t::CUDNN_STATUS_BAD_PARAM)),
            }
        }
    }
}

/// Whether this algorithm does not do that, which cuDNN says with one of a thousand numbers.
fn is_unsupported(error: result::CudnnError) -> bool {
    (3000..4000).contains(&(error.0 as u32))
}

fn failed(what: &'static str) -> impl Fn(result::CudnnError) -> CudaError + Copy {
    move |error| CudaError::Call { what, why: error.to_string() }
}
