//! What an op computes.

use crate::layers::{
    Activation, Attention, AveragePool, BatchNorm, Broadcast, Convolution, Dropout, Embedding,
    Linear, MaxPool, Movement, Optimizer, Product, Rotary, RowNorm, SigmoidCrossEntropy,
    SoftmaxCrossEntropy, Upsample,
};

/// What an op computes. Each variant states its operands as `reads -> writes`; what is in
/// brackets is there or not.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "the variants name the fields")]
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
    Add { elements: usize },
    /// `a, b -> sum` with a `b` that is repeated; in place of `a` where that dies.
    AddBroadcast(Broadcast),
    /// `dy -> db`: the gradient of what was repeated in a sum.
    SumRepeated(Broadcast),
    /// `a, b -> y`, in place of `a` where that dies; as `dy, b -> da` the gradient of `a`.
    Multiply(Broadcast),
    /// `a, dy -> db`
    MultiplyRight(Broadcast),
    /// `x1, x2, ... -> y`: one after another, `outer` times, which are the places before the
    /// dimension that is joined.
    Concat { outer: usize, elements: usize },
    /// `dy -> dx1, dx2, ...`
    Split { outer: usize, elements: usize },
    /// `x -> y` of rows of `width` elements, in place where the input dies.
    Softmax { width: usize, elements: usize },
    /// `y, dy -> dx`, in place of `dy` where that dies.
    SoftmaxBackward { width: usize, elements: usize },
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
    Update { optimizer: Optimizer, elements: usize },
}

impl Step {
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
}
