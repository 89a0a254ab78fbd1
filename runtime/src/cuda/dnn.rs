//! cuDNN on a stream: convolutions, means and softmax.
//!
//! # Always the same bits
//!
//! Of each sort one algorithm is asked for, among those that cuDNN's documentation calls
//! deterministic, whatever the sizes: implicit products with indices worked out before, and the
//! first algorithm of either gradient (the one numbered 0 adds up in any order). Products are not
//! rounded to TF32. What has no such algorithm, an op of odd sizes perhaps, is left to our own
//! kernels, which is decided once for each op, when the device is opened; so recomputing takes what
//! running took.
//!
//! # Memory to work in
//!
//! What an algorithm works in is known to the library alone, and a plan is made without it. So it
//! is no part of the plan's arena, but an allocation of its own, as large as the most that any op
//! needs, and is said with what else is outside of it. All calls are on one stream, one after the
//! other.
//!
//! # Why this is sound
//!
//! As for the driver: addresses come from the plan, and the stream and the workspace outlive the
//! handle.
#![allow(unsafe_code)]

mod prepared;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::cudnn::sys;
use schema::{Bytes, OpId};

use super::CudaError;
use super::driver::{Context, DeviceMemory, Stream};
use super::launches::{DnnKernel, dnn_call};
use super::library::{Cudnn, cudnn};
use crate::network::Network;
use prepared::{FORWARD, How, OF_INPUT, OF_WEIGHTS, Prepared};

type Refusal = (c_int, String);

/// cuDNN on a stream, ready for the ops of a network.
pub(super) struct Dnn {
    prepared: BTreeMap<DnnKernel, BTreeMap<Vec<u64>, Prepared>>,
    workspace: DeviceMemory,
    handle: Handle,
    version: &'static str,
}

// SAFETY: a handle and its descriptors may be used by one thread at a time, whichever it is.
unsafe impl Send for Dnn {}

struct Handle {
    raw: sys::cudnnHandle_t,
    own: &'static Cudnn,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and closed once. What fails has no remedy here.
        let _ = unsafe { (self.own.cudnnDestroy)(self.raw) };
    }
}

const SOFTMAX: (sys::cudnnSoftmaxAlgorithm_t, sys::cudnnSoftmaxMode_t) = (
    sys::cudnnSoftmaxAlgorithm_t::CUDNN_SOFTMAX_ACCURATE,
    sys::cudnnSoftmaxMode_t::CUDNN_SOFTMAX_MODE_INSTANCE,
);

impl Dnn {
    /// For a stream, which outlives it, and the ops of a network. Also returns the ops that could
    /// be said and are not cuDNN's: it has no algorithm for them here.
    pub fn new(
        context: &Context,
        stream: &Stream,
        network: &Network,
    ) -> Result<(Self, BTreeSet<OpId>), CudaError> {
        let library = cudnn()?;
        let own = &library.functions;
        let done = |status| own.done(status).map_err(failed("opening cuDNN"));
        context.bind()?;
        let mut raw = ptr::null_mut();
        // SAFETY: it writes one handle.
        done(unsafe { (own.cudnnCreate)(&raw mut raw) })?;
        let handle = Handle { raw, own };
        // SAFETY: the handle is open, and the stream outlives it.
        done(unsafe { (own.cudnnSetStream)(raw, stream.raw() as sys::cudaStream_t) })?;
        let calls = || {
            let ops = network.ops().iter().enumerate();
            ops.filter_map(|(op, one)| Some((OpId::from_index(op), dnn_call(&one.step)?)))
        };
        let mut prepared: BTreeMap<DnnKernel, BTreeMap<Vec<u64>, Prepared>> = BTreeMap::new();
        let mut asked = BTreeSet::new();
        for (_, call) in calls() {
            if !asked.insert((call.kernel, call.numbers.clone())) {
                continue;
            }
            match Prepared::new(&handle, &call) {
                Ok(made) => {
                    prepared.entry(call.kernel).or_default().insert(call.numbers, made);
                }
                Err((status, _)) if is_unsupported(status) => {}
                Err(refusal) => return Err(failed("describing an op to cuDNN")(refusal)),
            }
        }
        let all = prepared.values().flat_map(BTreeMap::values);
        let most = all.map(|prepared| prepared.workspace).max().unwrap_or(0);
        let workspace = DeviceMemory::new(context, "cuDNN", Bytes(most))?;
        let mut made = Self { prepared, workspace, handle, version: &library.version };
        made.keep_what_runs(context, stream)?;
        let refused = calls().filter(|(_, call)| {
            let of_kernel = made.prepared.get(&call.kernel);
            !of_kernel.is_some_and(|all| all.contains_key(&call.numbers))
        });
        let refused = refused.map(|(op, _)| op).collect();
        Ok((made, refused))
    }

    /// Runs each call once, on operands that hold anything, and forgets those that cuDNN refuses,
    /// which it may do as late as that. It also loads its own kernels then, and not in the first
    /// iteration. Where there is no memory for operands, nothing is tried.
    fn keep_what_runs(&mut self, context: &Context, stream: &Stream) -> Result<(), CudaError> {
        let all = self.prepared.values().flat_map(BTreeMap::values);
        let largest = all.map(|prepared| prepared.operand).max().unwrap_or(0);
        let apart = largest.next_multiple_of(256);
        let Ok(operands) = DeviceMemory::new(context, "cuDNN", Bytes(3 * apart)) else {
            return Ok(());
        };
        let at = [0, 1, 2].map(|operand| operands.address(operand * apart, apart));
        let mut prepared = std::mem::take(&mut self.prepared);
        for (kernel, calls) in &mut prepared {
            calls.retain(|_, call| self.call(*kernel, call, &at[..kernel.addresses()]).is_ok());
        }
        self.prepared = prepared;
        // What failed for good is not a refusal.
        stream.synchronize()?;
        context.synchronize()
    }

    /// Its version, such as `9.2.1`.
    pub fn version(&self) -> &'static str {
        self.version
    }

    /// Bytes of device memory of its own.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace.bytes()
    }

    /// Carries a launch out, whose arguments are numbers and then addresses.
    pub fn carry_out(&self, kernel: &str, arguments: &[u64]) -> Result<(), CudaError> {
        let what = "a call of cuDNN";
        let unknown = || CudaError::Call { what, why: format!("nothing prepared for {kernel}") };
        let kernel = DnnKernel::ALL.iter().find(|one| one.name() == kernel).copied();
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
        Prepared { x, y, how, workspace, .. }: &Prepared,
        at: &[u64],
    ) -> Result<(), Refusal> {
        let bytes = *workspace as usize;
        let room = self.workspace.address(0, *workspace) as *mut c_void;
        let (one, zero) = (1.0f32, 0.0f32);
        let (one, zero) = (ptr::from_ref(&one).cast(), ptr::from_ref(&zero).cast());
        let at = |index: usize| at[index] as *mut c_void;
        let (h, own) = (self.handle.raw, self.handle.own);
        let (x, y) = (x.raw, y.raw);
        // SAFETY: descriptors say what the op's operands are, which the plan's proof has room for;
        // factors are read before the call returns.
        let status = unsafe {
            match (kernel, how) {
                (DnnKernel::Convolution, How::Convolution { filter, convolution }) => {
                    let (call, w, c) = (own.cudnnConvolutionForward, filter.raw, convolution.raw);
                    call(h, one, x, at(0), w, at(1), c, FORWARD, room, bytes, zero, y, at(2))
                }
                (DnnKernel::ConvolutionWeights, How::Convolution { filter, convolution }) => {
                    let (w, c) = (filter.raw, convolution.raw);
                    let call = own.cudnnConvolutionBackwardFilter;
                    call(h, one, x, at(0), y, at(1), c, OF_WEIGHTS, room, bytes, zero, w, at(2))
                }
                (DnnKernel::ConvolutionInput, How::Convolution { filter, convolution }) => {
                    let (w, c) = (filter.raw, convolution.raw);
                    let call = own.cudnnConvolutionBackwardData;
                    call(h, one, w, at(0), y, at(1), c, OF_INPUT, room, bytes, zero, x, at(2))
                }
                (DnnKernel::AveragePool, How::Pool(pool)) => {
                    (own.cudnnPoolingForward)(h, pool.raw, one, x, at(0), zero, y, at(1))
                }
                // Input and output are operands, too, on which the gradient of a mean does not
                // depend; whatever has their sizes will do.
                (DnnKernel::AveragePoolBackward, How::Pool(pool)) => {
                    let (call, pool) = (own.cudnnPoolingBackward, pool.raw);
                    call(h, pool, one, y, at(0), y, at(0), x, at(1), zero, x, at(1))
                }
                (DnnKernel::Softmax, How::Softmax) => {
                    let (algorithm, mode) = SOFTMAX;
                    (own.cudnnSoftmaxForward)(h, algorithm, mode, one, x, at(0), zero, y, at(1))
                }
                (DnnKernel::SoftmaxBackward, How::Softmax) => {
                    let (call, (algorithm, mode)) = (own.cudnnSoftmaxBackward, SOFTMAX);
                    call(h, algorithm, mode, one, y, at(0), y, at(1), zero, x, at(2))
                }
                _ => sys::cudnnStatus_t::CUDNN_STATUS_BAD_PARAM as c_int,
            }
        };
        own.done(status)
    }
}

/// Whether this algorithm does not do that, which cuDNN says with one of a thousand numbers.
fn is_unsupported(status: c_int) -> bool {
    (3000..4000).contains(&status)
}

fn failed(what: &'static str) -> impl Fn(Refusal) -> CudaError + Copy {
    move |(_, why)| CudaError::Call { what, why }
}
