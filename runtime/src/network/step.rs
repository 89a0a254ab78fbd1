//! What an op computes, and what that costs.

use schema::OpKind;

use crate::layers::{
    Activation, Attention, AveragePool, BatchNorm, Broadcast, Convolution, Dropout, Embedding,
    Linear, MaxPool, Movement, Optimizer, Product, Rotary, RowNorm, SigmoidCrossEntropy,
    SoftmaxCrossEntropy, Upsample,
};

/// What an op computes. Each variant states its operands as `reads -> writes`; what is in
/// brackets is there or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// `x, w, [bias] -> y`
    Convolution(Convolution),
    /// `x, dy -> dw, [dbias]`
    ConvolutionWeights(Convolution),
    /// `w, dy -> dx`
    ConvolutionInput(Convolution),
    /// `x, w, [bias] -> y`
    Linear(Linear),
    /// `x, dy -> dw, [dbias]`
    LinearWeights(Linear),
    /// `w, dy -> dx`
    LinearInput(Linear),
    /// `a, b -> y`
    Product(Product),
    /// `b, dy -> da`
    ProductLeft(Product),
    /// `a, dy -> db`
    ProductRight(Product),
    /// `x, gamma, beta -> y, saved`
    BatchNorm(BatchNorm),
    /// `saved ->`; changes running mean and variance. It is no part of the forward op, so that
    /// recomputing that counts no batch twice.
    RunningStatistics(BatchNorm),
    /// `x, gamma, saved, dy -> dx, dgamma, dbeta`
    BatchNormBackward(BatchNorm),
    /// `x, gamma, [beta] -> y, saved`
    RowNorm(RowNorm),
    /// `x, gamma, saved, dy -> dx, dgamma, [dbeta]`
    RowNormBackward(RowNorm),
    /// `x -> y`, in place where the input dies.
    Activation(Activation, usize),
    /// `y or x, dy -> dx`, in place of `dy` where that dies.
    ActivationBackward(Activation, usize),
    /// `x -> y, positions`
    MaxPool(MaxPool),
    /// `positions, dy -> dx`
    MaxPoolBackward(MaxPool),
    /// `x -> y`
    AveragePool(AveragePool),
    /// `dy -> dx`
    AveragePoolBackward(AveragePool),
    /// `x, seed -> y`, in place where the input dies; its own backward, as `dy, seed -> dx`.
    Dropout(Dropout, usize),
    /// `a, b -> sum`, in place of `a` where that dies. Its backward pass is no op: both inputs
    /// have the gradient of the sum.
    Add {
        /// Number of elements.
        elements: usize,
    },
    /// `a, b -> sum` with a `b` that is repeated; in place of `a` where that dies.
    AddBroadcast(Broadcast),
    /// `dy -> db`: the gradient of what was repeated in a sum.
    SumRepeated(Broadcast),
    /// `a, b -> y`, in place of `a` where that dies; as `dy, b -> da` the gradient of `a`.
    Multiply(Broadcast),
    /// `a, dy -> db`
    MultiplyRight(Broadcast),
    /// `x1, x2, ... -> y`: so many times one after another.
    Concat {
        /// How often; the places before the dimension that is joined.
        outer: usize,
        /// Elements of the output.
        elements: usize,
    },
    /// `dy -> dx1, dx2, ...`
    Split {
        /// As for [`Step::Concat`].
        outer: usize,
        /// Elements of the input.
        elements: usize,
    },
    /// `x -> y`, in place where the input dies.
    Softmax {
        /// Elements of a row.
        width: usize,
        /// Elements of all rows.
        elements: usize,
    },
    /// `y, dy -> dx`, in place of `dy` where that dies.
    SoftmaxBackward {
        /// Elements of a row.
        width: usize,
        /// Elements of all rows.
        elements: usize,
    },
    /// `q, k, v -> y, saved`
    Attention(Attention),
    /// `q, k, v, y, saved, dy -> dq, dk, dv`
    AttentionBackward(Attention),
    /// `tokens, table -> y`
    Embedding(Embedding),
    /// `tokens, dy -> dtable`
    EmbeddingBackward(Embedding),
    /// `x -> y`, in place where the input dies.
    Rotary(Rotary, usize),
    /// `dy -> dx`, in place of `dy` where that dies.
    RotaryBackward(Rotary, usize),
    /// `x -> y`
    Movement(Movement),
    /// `dy -> dx`
    MovementBackward(Movement),
    /// `x -> y`
    Upsample(Upsample),
    /// `dy -> dx`
    UpsampleBackward(Upsample),
    /// `logits, labels -> loss, probabilities`, of so many rows.
    Loss(SoftmaxCrossEntropy, usize),
    /// `probabilities, labels -> dlogits`
    LossBackward(SoftmaxCrossEntropy, usize),
    /// `logits, labels -> loss, probabilities`, of so many elements.
    BinaryLoss(SigmoidCrossEntropy, usize),
    /// `probabilities, labels -> dlogits`
    BinaryLossBackward(SigmoidCrossEntropy, usize),
    /// `gradient ->`; changes the parameter and, where there is any, the optimizer's state.
    Update {
        /// The optimizer.
        optimizer: Optimizer,
        /// Number of elements.
        elements: usize,
    },
}

impl Step {
    /// What methods tell ops apart by.
    pub fn kind(&self) -> OpKind {
        match self {
            Self::Convolution(_) | Self::ConvolutionWeights(_) | Self::ConvolutionInput(_) => {
                OpKind::Convolution
            }
            Self::Linear(_)
            | Self::LinearWeights(_)
            | Self::LinearInput(_)
            | Self::Product(_)
            | Self::ProductLeft(_)
            | Self::ProductRight(_) => OpKind::MatrixProduct,
            Self::BatchNorm(_)
            | Self::RunningStatistics(_)
            | Self::BatchNormBackward(_)
            | Self::RowNorm(_)
            | Self::RowNormBackward(_) => OpKind::Normalisation,
            Self::Activation(..) | Self::ActivationBackward(..) => OpKind::Activation,
            Self::MaxPool(_)
            | Self::MaxPoolBackward(_)
            | Self::AveragePool(_)
            | Self::AveragePoolBackward(_) => OpKind::Pooling,
            Self::Dropout(..) => OpKind::Dropout,
            Self::Add { .. }
            | Self::AddBroadcast(_)
            | Self::SumRepeated(_)
            | Self::Multiply(_)
            | Self::MultiplyRight(_)
            | Self::Rotary(..)
            | Self::RotaryBackward(..) => OpKind::Elementwise,
            Self::Concat { .. }
            | Self::Split { .. }
            | Self::Movement(_)
            | Self::MovementBackward(_)
            | Self::Upsample(_)
            | Self::UpsampleBackward(_) => OpKind::Movement,
            Self::Softmax { .. } | Self::SoftmaxBackward { .. } => OpKind::Softmax,
            Self::Attention(_) | Self::AttentionBackward(_) => OpKind::Attention,
            Self::Embedding(_) | Self::EmbeddingBackward(_) => OpKind::Embedding,
            Self::Loss(..)
            | Self::LossBackward(..)
            | Self::BinaryLoss(..)
            | Self::BinaryLossBackward(..) => OpKind::Loss,
            Self::Update { .. } => OpKind::Optimizer,
        }
    }

    /// Floating-point operations, from the shapes alone.
    pub fn flops(&self) -> u64 {
        match *self {
            Self::Convolution(conv)
            | Self::ConvolutionWeights(conv)
            | Self::ConvolutionInput(conv) => conv.flops(),
            Self::Linear(linear) | Self::LinearWeights(linear) | Self::LinearInput(linear) => {
                linear.flops()
            }
            Self::Product(product) | Self::ProductLeft(product) | Self::ProductRight(product) => {
                product.flops()
            }
            Self::BatchNorm(norm) => norm.flops(),
            Self::RunningStatistics(norm) => norm.track_flops(),
            Self::BatchNormBackward(norm) => norm.backward_flops(),
            Self::RowNorm(norm) => norm.flops(),
            Self::RowNormBackward(norm) => norm.backward_flops(),
            Self::Activation(activation, elements)
            | Self::ActivationBackward(activation, elements) => {
                activation.flops() * elements as u64
            }
            Self::MaxPool(pool) => pool.flops(),
            Self::MaxPoolBackward(pool) => pool.output().elements() as u64,
            Self::AveragePool(pool) | Self::AveragePoolBackward(pool) => pool.flops(),
            Self::Add { elements } => elements as u64,
            Self::AddBroadcast(broadcast)
            | Self::SumRepeated(broadcast)
            | Self::Multiply(broadcast) => broadcast.elements() as u64,
            Self::MultiplyRight(broadcast) => 2 * broadcast.elements() as u64,
            // Of the random numbers, which are integers, nothing counts but the choice.
            Self::Dropout(_, elements) => 2 * elements as u64,
            Self::Softmax { elements, .. } => 5 * elements as u64,
            Self::SoftmaxBackward { elements, .. } => 4 * elements as u64,
            Self::Attention(attention) => attention.flops(),
            Self::AttentionBackward(attention) => attention.backward_flops(),
            Self::Rotary(_, elements) | Self::RotaryBackward(_, elements) => {
                Rotary::FLOPS * elements as u64
            }
            Self::Upsample(upsample) | Self::UpsampleBackward(upsample) => upsample.flops(),
            // Maximum, difference, exponential, sum, quotient.
            Self::Loss(loss, rows) => 5 * (loss.classes * rows) as u64,
            Self::LossBackward(loss, rows) => (loss.classes * rows) as u64,
            Self::BinaryLoss(_, elements) => 8 * elements as u64,
            Self::BinaryLossBackward(_, elements) => 2 * elements as u64,
            Self::Update { optimizer, elements } => optimizer.flops() * elements as u64,
            Self::Embedding(_)
            | Self::EmbeddingBackward(_)
            | Self::Concat { .. }
            | Self::Split { .. }
            | Self::Movement(_)
            | Self::MovementBackward(_) => 0,
        }
    }

    /// Floats of memory that the op needs while it runs.
    pub fn workspace_floats(&self) -> usize {
        match self {
            Self::Convolution(conv)
            | Self::ConvolutionWeights(conv)
            | Self::ConvolutionInput(conv) => conv.workspace_floats(),
            Self::Attention(attention) => attention.workspace_floats(),
            Self::AttentionBackward(attention) => attention.backward_workspace_floats(),
            _ => 0,
        }
    }

    /// The position in the reads and in the writes of the operands that the step can lay over
    /// each other.
    pub(super) fn can_overlay(&self) -> Option<(usize, usize)> {
        match self {
            Self::Activation(..)
            | Self::Dropout(..)
            | Self::Add { .. }
            | Self::AddBroadcast(_)
            | Self::Multiply(_)
            | Self::Softmax { .. }
            | Self::Rotary(..)
            | Self::RotaryBackward(..) => Some((0, 0)),
            Self::ActivationBackward(..) | Self::SoftmaxBackward { .. } => Some((1, 0)),
            _ => None,
        }
    }
}
