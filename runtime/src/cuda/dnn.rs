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

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::cudnn::{result, sys};
use schema::{Bytes, OpId};

use super::CudaError;
use super::driver::{Context, DeviceMemory, Stream};
use super::launches::{DnnCall, DnnKernel, dnn_call};
use crate::network::Network;

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

/// Descriptors of a call.
struct Prepared {
    x: Descriptor<sys::cudnnTensorDescriptor_t>,
    y: Descriptor<sys::cudnnTensorDescriptor_t>,
    how: How,
    workspace: u64,
}

enum How {
    Convolution {
        filter: Descriptor<sys::cudnnFilterDescriptor_t>,
        convolution: Descriptor<sys::cudnnConvolutionDescriptor_t>,
    },
    Pool(Descriptor<sys::cudnnPoolingDescriptor_t>),
    Softmax,
}

/// A descriptor, and how it is given back.
struct Descriptor<T: Copy> {
    raw: T,
    destroy: unsafe fn(T) -> sys::cudnnStatus_t,
}

impl<T: Copy> Drop for Descriptor<T> {
    fn drop(&mut self) {
        // SAFETY: made by cuDNN, and given back once. What fails has no remedy here.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

const FORWARD: sys::cudnnConvolutionFwdAlgo_t =
    sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
const OF_INPUT: sys::cudnnConvolutionBwdDataAlgo_t =
    sys::cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
const OF_WEIGHTS: sys::cudnnConvolutionBwdFilterAlgo_t =
    sys::cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
const FLOAT: sys::cudnnDataType_t = sys::cudnnDataType_t::CUDNN_DATA_FLOAT;
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

impl Prepared {
    fn new(handle: &Handle, call: &DnnCall) -> Result<Self, result::CudnnError> {
        let n: Vec<c_int> = call.numbers.iter().map(|number| *number as c_int).collect();
        match call.kernel {
            DnnKernel::Softmax | DnnKernel::SoftmaxBackward => {
                let rows = || tensor(&[n[0], n[1], 1, 1]);
                Ok(Self { x: rows()?, y: rows()?, how: How::Softmax, workspace: 0 })
            }
            DnnKernel::AveragePool | DnnKernel::AveragePoolBackward => {
                let sides = Sides::of(&n[1..]);
                let image = |extents: &[c_int]| tensor(&[&[n[0], 1], extents].concat());
                let (x, y) = (image(sides.input)?, image(sides.output)?);
                Ok(Self { x, y, how: How::Pool(sides.pool()?), workspace: 0 })
            }
            DnnKernel::Convolution
            | DnnKernel::ConvolutionWeights
            | DnnKernel::ConvolutionInput => {
                let sides = Sides::of(&n[4..]);
                let x = tensor(&[&[n[0], n[1]], sides.input].concat())?;
                let y = tensor(&[&[n[0], n[2]], sides.output].concat())?;
                let filter = filter(&[&[n[2], n[1] / n[3]], sides.window].concat())?;
                let convolution = sides.convolution(n[3])?;
                let (w, c) = (filter.raw, convolution.raw);
                // SAFETY: the handle is open, and the descriptors are made.
                let workspace = unsafe {
                    match call.kernel {
                        DnnKernel::Convolution => result::get_convolution_forward_workspace_size(
                            handle.0, x.raw, w, c, y.raw, FORWARD,
                        ),
                        DnnKernel::ConvolutionWeights => {
                            result::get_convolution_backward_filter_workspace_size(
                                handle.0, x.raw, y.raw, c, w, OF_WEIGHTS,
                            )
                        }
                        _ => result::get_convolution_backward_data_workspace_size(
                            handle.0, w, y.raw, c, x.raw, OF_INPUT,
                        ),
                    }
                }? as u64;
                Ok(Self { x, y, how: How::Convolution { filter, convolution }, workspace })
            }
        }
    }
}

/// Extents, and how a window goes over them: two axes where depth is nothing but one cell, or three.
struct Sides<'a> {
    input: &'a [c_int],
    output: &'a [c_int],
    window: &'a [c_int],
    step: &'a [c_int],
    padding: &'a [c_int],
}

impl<'a> Sides<'a> {
    /// Of five times three numbers.
    fn of(numbers: &'a [c_int]) -> Self {
        let flat = [0, 3, 6].iter().all(|first| numbers[*first] == 1) && numbers[12] == 0;
        let part = |index: usize| &numbers[3 * index + usize::from(flat)..3 * index + 3];
        let [input, output, window, step, padding] = [0, 1, 2, 3, 4].map(part);
        Self { input, output, window, step, padding }
    }

    fn pool(&self) -> Result<Descriptor<sys::cudnnPoolingDescriptor_t>, result::CudnnError> {
        let raw = result::create_pooling_descriptor()?;
        let made = Descriptor { raw, destroy: sys::cudnnDestroyPoolingDescriptor };
        let mode = sys::cudnnPoolingMode_t::CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
        let nan = sys::cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN;
        let axes = self.window.len() as c_int;
        // SAFETY: the descriptor is made; the slices are of so many axes, and read at once.
        unsafe {
            result::set_pooling_descriptor(
                raw,
                mode,
                nan,
                axes,
                self.window,
                self.padding,
                self.step,
            )?;
        }
        Ok(made)
    }

    fn convolution(
        &self,
        groups: c_int,
    ) -> Result<Descriptor<sys::cudnnConvolutionDescriptor_t>, result::CudnnError> {
        let raw = result::create_convolution_descriptor()?;
        let made = Descriptor { raw, destroy: sys::cudnnDestroyConvolutionDescriptor };
        let dense = vec![1; self.window.len()];
        let (axes, padding, step) =
            (self.window.len() as c_int, self.padding.as_ptr(), self.step.as_ptr());
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        // SAFETY: the descriptor is made; the slices are of so many axes, and read at once.
        unsafe {
            result::set_convolutionnd_descriptor(
                raw,
                axes,
                padding,
                step,
                dense.as_ptr(),
                mode,
                FLOAT,
            )?;
            result::set_convolution_group_count(raw, groups)?;
            result::set_convolution_math_type(raw, sys::cudnnMathType_t::CUDNN_FMA_MATH)?;
        }
        Ok(made)
    }
}

/// A tensor whose elements lie behind one another.
fn tensor(
    extents: &[c_int],
) -> Result<Descriptor<sys::cudnnTensorDescriptor_t>, result::CudnnError> {
    let raw = result::create_tensor_descriptor()?;
    let made = Descriptor { raw, destroy: sys::cudnnDestroyTensorDescriptor };
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    let (axes, extents) = (extents.len() as c_int, extents.as_ptr());
    // SAFETY: the descriptor is made; both are of so many axes, and read at once.
    unsafe { result::set_tensornd_descriptor(raw, FLOAT, axes, extents, strides.as_ptr())? };
    Ok(made)
}

/// Weights whose elements lie behind one another.
fn filter(
    extents: &[c_int],
) -> Result<Descriptor<sys::cudnnFilterDescriptor_t>, result::CudnnError> {
    let raw = result::create_filter_descriptor()?;
    let made = Descriptor { raw, destroy: sys::cudnnDestroyFilterDescriptor };
    let order = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
    let (axes, extents) = (extents.len() as c_int, extents.as_ptr());
    // SAFETY: the descriptor is made; the extents are of so many axes, and read at once.
    unsafe { result::set_filternd_descriptor(raw, FLOAT, order, axes, extents)? };
    Ok(made)
}

/// Whether this algorithm does not do that, which cuDNN says with one of a thousand numbers.
fn is_unsupported(error: result::CudnnError) -> bool {
    (3000..4000).contains(&(error.0 as u32))
}

fn failed(what: &'static str) -> impl Fn(result::CudnnError) -> CudaError + Copy {
    move |error| CudaError::Call { what, why: error.to_string() }
}
