//! What an op computes, and what that costs.

use schema::OpKind;

use crate::layers::{
    BatchNorm, Convolution, GlobalAveragePool, Linear, MaxPool, Sgd, SoftmaxCrossEntropy,
};

/// What an op computes. Each variant states its operands as `reads -> writes`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// `x, w -> y`
    Convolution(Convolution),
    /// `x, w, dy -> dx, dw`
    ConvolutionBackward(Convolution),
    /// `x, w, dy -> dw`: the first layer, whose input needs no gradient.
    ConvolutionBackwardWeights(Convolution),
    /// `x, gamma, beta -> y, saved`
    BatchNorm(BatchNorm),
    /// `x, gamma, saved, dy -> dx, dgamma, dbeta`
    BatchNormBackward(BatchNorm),
    /// `x -> y`, in place where the input dies.
    Relu {
        /// Number of elements.
        elements: usize,
    },
    /// `y, dy -> dx`, in place of `dy` where that dies.
    ReluBackward {
        /// Number of elements.
        elements: usize,
    },
    /// `x -> y, positions`
    MaxPool(MaxPool),
    /// `positions, dy -> dx`
    MaxPoolBackward(MaxPool),
    /// `x -> y`
    AveragePool(GlobalAveragePool),
    /// `dy -> dx`
    AveragePoolBackward(GlobalAveragePool),
    /// `x, w, bias -> y`
    Linear(Linear),
    /// `x, w, dy -> dx, dw, dbias`
    LinearBackward(Linear),
    /// `a, b -> sum`, in place of `a` where that dies. Its backward pass is no op: both inputs
    /// have the gradient of the sum.
    Add {
        /// Number of elements.
        elements: usize,
    },
    /// `logits, labels -> loss, probabilities`
    Loss(SoftmaxCrossEntropy, usize),
    /// `probabilities, labels -> dlogits`
    LossBackward(SoftmaxCrossEntropy, usize),
    /// `gradient ->`; changes parameter and momentum.
    Sgd {
        /// The optimizer.
        sgd: Sgd,
        /// Number of elements.
        elements: usize,
    },
}

impl Step {
    /// What methods tell ops apart by.
    pub fn kind(&self) -> OpKind {
        match self {
            Self::Convolution(_)
            | Self::ConvolutionBackward(_)
            | Self::ConvolutionBackwardWeights(_) => OpKind::Convolution,
            Self::BatchNorm(_) | Self::BatchNormBackward(_) => OpKind::Normalisation,
            Self::Relu { .. } | Self::ReluBackward { .. } => OpKind::Activation,
            Self::MaxPool(_)
            | Self::MaxPoolBackward(_)
            | Self::AveragePool(_)
            | Self::AveragePoolBackward(_) => OpKind::Pooling,
            Self::Linear(_) | Self::LinearBackward(_) => OpKind::MatrixProduct,
            Self::Add { .. } => OpKind::Elementwise,
            Self::Loss(..) | Self::LossBackward(..) => OpKind::Loss,
            Self::Sgd { .. } => OpKind::Optimizer,
        }
    }

    /// Floating-point operations, from the shapes alone.
    pub fn flops(&self) -> u64 {
        match *self {
            Self::Convolution(conv) | Self::ConvolutionBackwardWeights(conv) => conv.flops(),
            Self::ConvolutionBackward(conv) => 2 * conv.flops(),
            Self::BatchNorm(norm) => norm.flops(),
            Self::BatchNormBackward(norm) => norm.backward_flops(),
            Self::Relu { elements } | Self::ReluBackward { elements } | Self::Add { elements } => {
                elements as u64
            }
            Self::MaxPool(pool) => pool.flops(),
            Self::MaxPoolBackward(pool) => pool.output().elements() as u64,
            Self::AveragePool(pool) | Self::AveragePoolBackward(pool) => pool.flops(),
            Self::Linear(linear) => linear.flops() + (linear.batch * linear.outputs) as u64,
            Self::LinearBackward(linear) => {
                2 * linear.flops() + (linear.batch * linear.outputs) as u64
            }
            // Maximum, difference, exponential, sum, quotient.
            Self::Loss(loss, batch) => 5 * (loss.classes * batch) as u64,
            Self::LossBackward(loss, batch) => (loss.classes * batch) as u64,
            Self::Sgd { elements, .. } => Sgd::FLOPS * elements as u64,
        }
    }

    /// Floats of memory that the op needs while it runs.
    pub fn workspace_floats(&self) -> usize {
        match self {
            Self::Convolution(conv)
            | Self::ConvolutionBackward(conv)
            | Self::ConvolutionBackwardWeights(conv) => conv.workspace_floats(),
            _ => 0,
        }
    }

    /// The position in the reads and in the writes of the operands that the step can lay over
    /// each other.
    pub(super) fn can_overlay(&self) -> Option<(usize, usize)> {
        match self {
            Self::Relu { .. } | Self::Add { .. } => Some((0, 0)),
            Self::ReluBackward { .. } => Some((1, 0)),
            _ => None,
        }
    }
}
