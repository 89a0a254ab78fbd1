//! Convolutions, means and softmax by cuDNN, where they can be said in its words.
//!
//! Maxima are not: cuDNN finds where they were from input and output, and ours says where they are,
//! so that neither has to be kept. Nor is a window that goes beyond the padding, which cuDNN has
//! not.

use strum::VariantArray;

use super::arguments::{Argument, OpOperands, Writer};
use super::matrices::{add_to_channels, outputs, sum_of_channels};
use crate::layers::{AveragePool, Shape};
use crate::network::Step;

/// The program that calls of cuDNN have in a list of launches.
pub const DNN: &str = "cudnn";

/// What cuDNN is to do. A launch of it has the kernel's name, [`Self::numbers`] and then addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DnnCall {
    /// What to do.
    pub kernel: DnnKernel,
    /// The sizes, from which descriptors are made.
    pub numbers: Vec<u64>,
}

/// What cuDNN is asked for, with its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
pub enum DnnKernel {
    /// `x, w, y`; numbers as those of a convolution.
    Convolution,
    /// `x, dy, dw`
    ConvolutionWeights,
    /// `w, dy, dx`
    ConvolutionInput,
    /// `x, y`; images, channels, and the other numbers of a pool, always of windows.
    AveragePool,
    /// `dy, dx`
    AveragePoolBackward,
    /// `x, y`; rows and their width.
    Softmax,
    /// `y, dy, dx`
    SoftmaxBackward,
}

impl DnnKernel {
    /// All of them.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The kernel's name, and how many numbers and addresses are its arguments.
    fn about(self) -> (&'static str, usize, usize) {
        match self {
            Self::Convolution => ("convolution", 19, 3),
            Self::ConvolutionWeights => ("convolution_weights", 19, 3),
            Self::ConvolutionInput => ("convolution_input", 19, 3),
            Self::AveragePool => ("average_pool", 18, 2),
            Self::AveragePoolBackward => ("average_pool_backward", 18, 2),
            Self::Softmax => ("softmax", 2, 2),
            Self::SoftmaxBackward => ("softmax_backward", 2, 3),
        }
    }

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        self.about().0
    }

    /// How many numbers come before the addresses.
    pub fn numbers(self) -> usize {
        self.about().1
    }

    /// How many addresses there are.
    pub fn addresses(self) -> usize {
        self.about().2
    }
}

/// What cuDNN would be asked for a step; nothing where it cannot be said.
pub fn dnn_call(step: &Step) -> Option<DnnCall> {
    let (kernel, numbers) = match step {
        Step::Convolution(conv) => (DnnKernel::Convolution, conv.numbers().to_vec()),
        Step::ConvolutionWeights(conv) => (DnnKernel::ConvolutionWeights, conv.numbers().to_vec()),
        Step::ConvolutionInput(conv) => (DnnKernel::ConvolutionInput, conv.numbers().to_vec()),
        Step::AveragePool(pool) => (DnnKernel::AveragePool, windows(pool)?),
        Step::AveragePoolBackward(pool) => (DnnKernel::AveragePoolBackward, windows(pool)?),
        Step::Softmax { width, elements } => (DnnKernel::Softmax, rows(*width, *elements)),
        Step::SoftmaxBackward { width, elements } => {
            (DnnKernel::SoftmaxBackward, rows(*width, *elements))
        }
        _ => return None,
    };
    // cuDNN counts in 32 bits, elements of a tensor, too.
    let elements = |of: &[u64]| of.iter().fold(1u64, |all, extent| all.saturating_mul(*extent));
    let counts = match kernel.numbers() {
        19 => [
            elements(&[numbers[0], numbers[1], elements(&numbers[4..7])]),
            elements(&[numbers[0], numbers[2], elements(&numbers[7..10])]),
        ],
        18 => [elements(&numbers[..5]), 1],
        _ => [elements(&numbers), 1],
    };
    let fits = |number: &u64| i32::try_from(*number).is_ok();
    // Its means and softmax go over images and channels, or rows, by a dimension of a grid that
    // counts in 16 bits: more are refused, and only when it is launched.
    let gridded: &[u64] = match kernel.numbers() {
        19 => &[],
        18 => &numbers[..2],
        _ => &numbers[..1],
    };
    let is_said = counts.iter().chain(&numbers).all(fits)
        && !counts.contains(&0)
        && gridded.iter().all(|extent| u16::try_from(*extent).is_ok());
    is_said.then_some(DnnCall { kernel, numbers })
}

fn rows(width: usize, elements: usize) -> Vec<u64> {
    vec![(elements / width.max(1)) as u64, width as u64]
}

/// The numbers of means over windows; those of parts where these are windows, too. cuDNN has as
/// many windows as fit, and none that may lie in the padding alone.
fn windows(pool: &AveragePool) -> Option<Vec<u64>> {
    let mut numbers = pool.numbers();
    for axis in 0..3 {
        let (input, output) = (numbers[1 + axis], numbers[4 + axis]);
        if numbers[16] != 0 {
            if output == 0 || !input.is_multiple_of(output) {
                return None;
            }
            (numbers[7 + axis], numbers[10 + axis]) = (input / output, input / output);
        }
        let [window, step, padding] = [7, 10, 13].map(|first| numbers[first + axis]);
        let room = (input + 2 * padding).checked_sub(window)?;
        if padding >= window || output != 1 + room / step {
            return None;
        }
    }
    numbers[16] = 0;
    let Shape { n, c, .. } = pool.input;
    Some([n as u64, c as u64].into_iter().chain(numbers.into_iter().skip(1)).collect())
}

/// Writes a call, and what goes with it; nothing where there is none.
pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    let DnnCall { kernel, numbers } = dnn_call(step)?;
    let addresses = op.first([kernel.addresses() - 1, 0, 1])?;
    // Where it has channels: images, channels and plane of the output.
    let output = <&[u64; 19]>::try_from(&numbers[..]).map(outputs);
    let arguments = numbers.iter().copied().map(Argument::Number).chain(addresses);
    writer.library((DNN, kernel.name()), arguments.collect());
    match kernel {
        DnnKernel::Convolution if op.reads.len() > 2 => {
            add_to_channels(writer, output.ok()?, op.write(0)?, op.read(2)?);
        }
        DnnKernel::ConvolutionWeights if op.writes.len() > 1 => {
            sum_of_channels(writer, output.ok()?, op.read(1)?, op.write(1)?);
        }
        _ => {}
    }
    Some(())
}
