//! Descriptors: what cuDNN is told of an op's operands, once.

use std::ffi::c_int;

use cudarc::cudnn::{result, sys};

use super::Handle;
use crate::cuda::launches::{DnnCall, DnnKernel};

/// Descriptors of a call.
pub(super) struct Prepared {
    pub x: Descriptor<sys::cudnnTensorDescriptor_t>,
    pub y: Descriptor<sys::cudnnTensorDescriptor_t>,
    pub how: How,
    pub workspace: u64,
}

pub(super) enum How {
    Convolution {
        filter: Descriptor<sys::cudnnFilterDescriptor_t>,
        convolution: Descriptor<sys::cudnnConvolutionDescriptor_t>,
    },
    Pool(Descriptor<sys::cudnnPoolingDescriptor_t>),
    Softmax,
}

/// A descriptor, and how it is given back.
pub(super) struct Descriptor<T: Copy> {
    pub raw: T,
    destroy: unsafe fn(T) -> sys::cudnnStatus_t,
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
    pub fn new(handle: &Handle, call: &DnnCall) -> Result<Self, result::CudnnError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Library;

    /// The library itself reads descriptors as they were meant. It needs no device for that; only where it
    /// is installed, which is said.
    #[test]
    fn the_real_cudnn_takes_descriptors_and_computes_the_same_extents() {
        if let Err(missing) = Library::Cudnn.require() {
            eprintln!("skipped: descriptors are not read: {missing}");
            return;
        }
        eprintln!("cuDNN {}", super::super::version().unwrap());
        // Input, output, window, step and padding; channels, filters and groups.
        let (flat, deep) = (
            [1, 9, 12, 1, 4, 6, 1, 3, 2, 1, 2, 2, 0, 0, 0],
            [6, 9, 12, 3, 5, 12, 2, 3, 3, 2, 2, 1, 0, 1, 1],
        );
        for numbers in [flat, deep] {
            let sides = Sides::of(&numbers);
            let [channels, filters, groups] = [6, 4, 2];
            let x = tensor(&[&[2, channels], sides.input].concat()).unwrap();
            let w = filter(&[&[filters, channels / groups], sides.window].concat()).unwrap();
            let convolution = sides.convolution(groups).unwrap();
            let mut extents = vec![0; sides.input.len() + 2];
            let axes = extents.len() as c_int;
            // SAFETY: the descriptors are made; the slice is of so many axes.
            let asked = unsafe {
                sys::cudnnGetConvolutionNdForwardOutputDim(
                    convolution.raw,
                    x.raw,
                    w.raw,
                    axes,
                    extents.as_mut_ptr(),
                )
            };
            asked.result().unwrap();
            assert_eq!(extents, [&[2, filters], sides.output].concat());
            let mut math = sys::cudnnMathType_t::CUDNN_DEFAULT_MATH;
            // SAFETY: the descriptor is made; it writes one value of the type.
            unsafe { sys::cudnnGetConvolutionMathType(convolution.raw, &raw mut math) }
                .result()
                .unwrap();
            assert_eq!(math, sys::cudnnMathType_t::CUDNN_FMA_MATH);

            let pool = sides.pool().unwrap();
            // SAFETY: as above.
            let asked = unsafe {
                sys::cudnnGetPoolingNdForwardOutputDim(pool.raw, x.raw, axes, extents.as_mut_ptr())
            };
            asked.result().unwrap();
            assert_eq!(extents, [&[2, channels], sides.output].concat());
        }
    }
}
