//! Descriptors: what cuDNN is told of an op's operands, once.

use std::ffi::c_int;
use std::ptr;

use cudarc::cudnn::sys;

use super::{Handle, Refusal};
use crate::cuda::launches::{DnnCall, DnnKernel};
use crate::cuda::library::Cudnn;

pub(super) struct Prepared {
    pub x: Descriptor<sys::cudnnTensorDescriptor_t>,
    pub y: Descriptor<sys::cudnnTensorDescriptor_t>,
    pub how: How,
    pub workspace: u64,
    /// Bytes of the largest operand.
    pub operand: u64,
}

pub(super) enum How {
    Convolution {
        filter: Descriptor<sys::cudnnFilterDescriptor_t>,
        convolution: Descriptor<sys::cudnnConvolutionDescriptor_t>,
    },
    Pool(Descriptor<sys::cudnnPoolingDescriptor_t>),
    Softmax,
}

pub(super) struct Descriptor<T: Copy> {
    pub raw: T,
    destroy: unsafe extern "C" fn(T) -> c_int,
}

impl<T: Copy> Descriptor<*mut T> {
    fn new(
        own: &Cudnn,
        create: unsafe extern "C" fn(*mut *mut T) -> c_int,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> Result<Self, Refusal> {
        let mut raw = ptr::null_mut();
        // SAFETY: it writes one descriptor.
        own.done(unsafe { create(&raw mut raw) })?;
        Ok(Self { raw, destroy })
    }
}

impl<T: Copy> Drop for Descriptor<T> {
    fn drop(&mut self) {
        // SAFETY: made by cuDNN, and given back once. What fails has no remedy here.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

pub(super) const FORWARD: sys::cudnnConvolutionFwdAlgo_t =
    sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
pub(super) const OF_INPUT: sys::cudnnConvolutionBwdDataAlgo_t =
    sys::cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
pub(super) const OF_WEIGHTS: sys::cudnnConvolutionBwdFilterAlgo_t =
    sys::cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
const FLOAT: sys::cudnnDataType_t = sys::cudnnDataType_t::CUDNN_DATA_FLOAT;

impl Prepared {
    /// Descriptions of a call, and what its algorithm works in.
    ///
    /// # Errors
    /// What cuDNN says, also where the algorithm does not do that.
    pub fn new(handle: &Handle, call: &DnnCall) -> Result<Self, Refusal> {
        let n: Vec<c_int> = call.numbers.iter().map(|number| *number as c_int).collect();
        let own = handle.own;
        match call.kernel {
            DnnKernel::Softmax | DnnKernel::SoftmaxBackward => {
                let extents = [n[0], n[1], 1, 1];
                let (x, y) = (tensor(own, &extents)?, tensor(own, &extents)?);
                Ok(Self { x, y, how: How::Softmax, workspace: 0, operand: bytes(&extents) })
            }
            DnnKernel::AveragePool | DnnKernel::AveragePoolBackward => {
                let sides = Sides::of(&n[2..]);
                let image = |extents: &[c_int]| [&n[..2], extents].concat();
                let (input, output) = (image(sides.input), image(sides.output));
                let (x, y) = (tensor(own, &input)?, tensor(own, &output)?);
                let operand = bytes(&input).max(bytes(&output));
                Ok(Self { x, y, how: How::Pool(sides.pool(own)?), workspace: 0, operand })
            }
            DnnKernel::Convolution
            | DnnKernel::ConvolutionWeights
            | DnnKernel::ConvolutionInput => {
                let sides = Sides::of(&n[4..]);
                let input = [&[n[0], n[1]], sides.input].concat();
                let output = [&[n[0], n[2]], sides.output].concat();
                let weights = [&[n[2], n[1] / n[3]], sides.window].concat();
                let (x, y) = (tensor(own, &input)?, tensor(own, &output)?);
                let filter = filter(own, &weights)?;
                let convolution = sides.convolution(own, n[3])?;
                let (h, w, c) = (handle.raw, filter.raw, convolution.raw);
                let mut workspace = 0;
                let to = &raw mut workspace;
                // SAFETY: the handle is open, and the descriptors are made; it writes one number.
                let asked = unsafe {
                    match call.kernel {
                        DnnKernel::Convolution => (own.cudnnGetConvolutionForwardWorkspaceSize)(
                            h, x.raw, w, c, y.raw, FORWARD, to,
                        ),
                        DnnKernel::ConvolutionWeights => (own
                            .cudnnGetConvolutionBackwardFilterWorkspaceSize)(
                            h, x.raw, y.raw, c, w, OF_WEIGHTS, to,
                        ),
                        _ => (own.cudnnGetConvolutionBackwardDataWorkspaceSize)(
                            h, w, y.raw, c, x.raw, OF_INPUT, to,
                        ),
                    }
                };
                own.done(asked)?;
                let operand = bytes(&input).max(bytes(&output)).max(bytes(&weights));
                let how = How::Convolution { filter, convolution };
                Ok(Self { x, y, how, workspace: workspace as u64, operand })
            }
        }
    }
}

fn bytes(extents: &[c_int]) -> u64 {
    4 * extents.iter().map(|extent| u64::from(extent.unsigned_abs())).product::<u64>()
}

/// Extents, and how a window goes over them: two axes where depth is nothing but one cell, or
/// three.
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

    fn pool(&self, own: &Cudnn) -> Result<Descriptor<sys::cudnnPoolingDescriptor_t>, Refusal> {
        let made = Descriptor::new(
            own,
            own.cudnnCreatePoolingDescriptor,
            own.cudnnDestroyPoolingDescriptor,
        )?;
        let mode = sys::cudnnPoolingMode_t::CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
        let nan = sys::cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN;
        let [window, padding, step] = [self.window, self.padding, self.step].map(<[_]>::as_ptr);
        let axes = self.window.len() as c_int;
        // SAFETY: the descriptor is made; the slices are of so many axes, and read at once.
        own.done(unsafe {
            (own.cudnnSetPoolingNdDescriptor)(made.raw, mode, nan, axes, window, padding, step)
        })?;
        Ok(made)
    }

    fn convolution(
        &self,
        own: &Cudnn,
        groups: c_int,
    ) -> Result<Descriptor<sys::cudnnConvolutionDescriptor_t>, Refusal> {
        let made = Descriptor::new(
            own,
            own.cudnnCreateConvolutionDescriptor,
            own.cudnnDestroyConvolutionDescriptor,
        )?;
        let dense = vec![1; self.window.len()];
        let [padding, step, dense] = [self.padding, self.step, &dense].map(<[_]>::as_ptr);
        let axes = self.window.len() as c_int;
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let exact = sys::cudnnMathType_t::CUDNN_FMA_MATH;
        // SAFETY: the descriptor is made; the slices are of so many axes, and read at once.
        unsafe {
            own.done((own.cudnnSetConvolutionNdDescriptor)(
                made.raw, axes, padding, step, dense, mode, FLOAT,
            ))?;
            own.done((own.cudnnSetConvolutionGroupCount)(made.raw, groups))?;
            own.done((own.cudnnSetConvolutionMathType)(made.raw, exact))?;
        }
        Ok(made)
    }
}

/// A tensor whose elements lie behind one another.
fn tensor(
    own: &Cudnn,
    extents: &[c_int],
) -> Result<Descriptor<sys::cudnnTensorDescriptor_t>, Refusal> {
    let made =
        Descriptor::new(own, own.cudnnCreateTensorDescriptor, own.cudnnDestroyTensorDescriptor)?;
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    let (axes, extents) = (extents.len() as c_int, extents.as_ptr());
    // SAFETY: the descriptor is made; both are of so many axes, and read at once.
    own.done(unsafe {
        (own.cudnnSetTensorNdDescriptor)(made.raw, FLOAT, axes, extents, strides.as_ptr())
    })?;
    Ok(made)
}

/// Weights whose elements lie behind one another.
fn filter(
    own: &Cudnn,
    extents: &[c_int],
) -> Result<Descriptor<sys::cudnnFilterDescriptor_t>, Refusal> {
    let made =
        Descriptor::new(own, own.cudnnCreateFilterDescriptor, own.cudnnDestroyFilterDescriptor)?;
    let order = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
    let (axes, extents) = (extents.len() as c_int, extents.as_ptr());
    // SAFETY: the descriptor is made; the extents are of so many axes, and read at once.
    own.done(unsafe { (own.cudnnSetFilterNdDescriptor)(made.raw, FLOAT, order, axes, extents) })?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::library::cudnn;

    macro_rules! fn_of {
        ($($argument:ty),*) => { unsafe extern "C" fn($($argument),*) -> c_int };
    }

    /// The library itself reads descriptors as they were meant. It needs no device for that; only
    /// where it is installed, which is said.
    #[test]
    fn the_real_cudnn_takes_descriptors_and_computes_the_same_extents() {
        let library = match cudnn() {
            Ok(library) => library,
            Err(missing) => {
                eprintln!("skipped: descriptors are not read: {missing}");
                return;
            }
        };
        eprintln!("cuDNN {}", library.version);
        let own = &library.functions;
        type Tensor = sys::cudnnTensorDescriptor_t;
        type Pool = sys::cudnnPoolingDescriptor_t;
        type Convolution = sys::cudnnConvolutionDescriptor_t;
        type Filter = sys::cudnnFilterDescriptor_t;
        // SAFETY: the types are those of the header.
        let (convolved, pooled, math_of) = unsafe {
            (
                library.more::<fn_of!(Convolution, Tensor, Filter, c_int, *mut c_int)>(
                    "cudnnGetConvolutionNdForwardOutputDim",
                ),
                library.more::<fn_of!(Pool, Tensor, c_int, *mut c_int)>(
                    "cudnnGetPoolingNdForwardOutputDim",
                ),
                library.more::<fn_of!(Convolution, *mut sys::cudnnMathType_t)>(
                    "cudnnGetConvolutionMathType",
                ),
            )
        };
        // Input, output, window, step and padding; channels, filters and groups.
        let (flat, deep) = (
            [1, 9, 12, 1, 4, 6, 1, 3, 2, 1, 2, 2, 0, 0, 0],
            [6, 9, 12, 3, 5, 12, 2, 3, 3, 2, 2, 1, 0, 1, 1],
        );
        for numbers in [flat, deep] {
            let sides = Sides::of(&numbers);
            let [channels, filters, groups] = [6, 4, 2];
            let x = tensor(own, &[&[2, channels], sides.input].concat()).unwrap();
            let w = filter(own, &[&[filters, channels / groups], sides.window].concat()).unwrap();
            let convolution = sides.convolution(own, groups).unwrap();
            let mut extents = vec![0; sides.input.len() + 2];
            let axes = extents.len() as c_int;
            // SAFETY: the descriptors are made; the slice is of so many axes.
            own.done(unsafe {
                convolved(convolution.raw, x.raw, w.raw, axes, extents.as_mut_ptr())
            })
            .unwrap();
            assert_eq!(extents, [&[2, filters], sides.output].concat());
            let mut math = sys::cudnnMathType_t::CUDNN_DEFAULT_MATH;
            // SAFETY: the descriptor is made; it writes one value of the type.
            own.done(unsafe { math_of(convolution.raw, &raw mut math) }).unwrap();
            assert_eq!(math, sys::cudnnMathType_t::CUDNN_FMA_MATH);

            let pool = sides.pool(own).unwrap();
            // SAFETY: as above.
            own.done(unsafe { pooled(pool.raw, x.raw, axes, extents.as_mut_ptr()) }).unwrap();
            assert_eq!(extents, [&[2, channels], sides.output].concat());
        }
    }
}
