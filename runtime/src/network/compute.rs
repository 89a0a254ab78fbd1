//! What each step does with its operands.

use super::{Operands, Step};
use crate::layers::{
    Function, LabelError, Rotary, TokenError, add, add_assign, concat, softmax, softmax_backward,
    split,
};

/// Why a step did not run.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum Failure {
    #[error("other operands")]
    Operands,
    Label(#[from] LabelError),
    Token(#[from] TokenError),
}

impl Step {
    /// Computes the outputs from the inputs. The slices' lengths were checked.
    pub(super) fn compute(&self, operands: &mut Operands) -> Result<(), Failure> {
        if operands.updates.is_empty() { self.forward(operands) } else { self.change(operands) }
    }

    fn forward(&self, operands: &mut Operands) -> Result<(), Failure> {
        let workspace = &mut operands.workspace[..self.workspace_floats()];
        match (self, &operands.reads[..], &mut operands.writes[..]) {
            (Self::Convolution(conv), &[Some(x), Some(w)], [y]) => {
                conv.forward((x, w, None), y, workspace);
            }
            (Self::Convolution(conv), &[Some(x), Some(w), bias], [y]) => {
                conv.forward((x, w, bias), y, workspace);
            }
            (Self::Linear(linear), &[Some(x), Some(w)], [y]) => linear.forward(x, w, None, y),
            (Self::Linear(linear), &[Some(x), Some(w), bias], [y]) => linear.forward(x, w, bias, y),
            (Self::Product(product), &[Some(a), Some(b)], [y]) => product.forward(a, b, y),
            (Self::BatchNorm(norm), &[Some(x), Some(gamma), Some(beta)], [y, saved]) => {
                norm.forward((x, gamma, beta), y, saved);
            }
            (Self::RowNorm(norm), &[Some(x), Some(gamma)], [y, saved]) => {
                norm.forward((x, gamma, None), y, saved);
            }
            (Self::RowNorm(norm), &[Some(x), Some(gamma), beta], [y, saved]) => {
                norm.forward((x, gamma, beta), y, saved);
            }
            (Self::Activation(function, _), &[x], [y]) => function.forward(x, y),
            (Self::MaxPool(pool), &[Some(x)], [y, positions]) => pool.forward(x, y, positions),
            (Self::AveragePool(pool), &[Some(x)], [y]) => pool.forward(x, y),
            (Self::Dropout(dropout, _), &[x, Some(seed)], [y]) => dropout.apply(x, seed, y),
            (Self::Add { .. }, &[Some(a), Some(b)], [sum]) => add(a, b, sum),
            (Self::Add { .. }, &[None, Some(b)], [sum]) => add_assign(sum, b),
            (Self::AddBroadcast(broadcast), &[a, Some(b)], [sum]) => broadcast.add(a, b, sum),
            (Self::Multiply(broadcast), &[a, Some(b)], [y]) => broadcast.multiply(a, b, y),
            (Self::Concat { outer, .. }, inputs, [y]) if inputs.iter().all(Option::is_some) => {
                concat(*outer, inputs.iter().copied().flatten(), y);
            }
            (Self::Softmax { width, .. }, &[x], [y]) => softmax(*width, x, y),
            (Self::Attention(attention), &[Some(q), Some(k), Some(v)], [y, saved]) => {
                attention.forward((q, k, v), y, saved, workspace);
            }
            (Self::Embedding(table), &[Some(tokens), Some(rows)], [y]) => {
                table.forward(tokens, rows, y)?;
            }
            (Self::Rotary(rotary, _), &[x], [y]) => Rotary::forward(rotary, x, y),
            (Self::Movement(movement), &[Some(x)], [y]) => movement.forward(x, y),
            (Self::Upsample(upsample), &[Some(x)], [y]) => upsample.forward(x, y),
            (Self::Loss(loss, _), &[Some(logits), Some(labels)], [value, probabilities]) => {
                loss.forward(logits, labels, value, probabilities)?;
            }
            (Self::BinaryLoss(loss, _), &[Some(logits), Some(labels)], [value, probabilities]) => {
                loss.forward(logits, labels, value, probabilities)?;
            }
            _ => return self.backward(operands),
        }
        Ok(())
    }

    fn backward(&self, operands: &mut Operands) -> Result<(), Failure> {
        let workspace = &mut operands.workspace[..self.workspace_floats()];
        match (self, &operands.reads[..], &mut operands.writes[..]) {
            (Self::ConvolutionWeights(conv), &[Some(x), Some(dy)], [dw, dbias @ ..]) => {
                conv.backward_weights((x, dy), dw, optional(dbias)?, workspace);
            }
            (Self::ConvolutionInput(conv), &[Some(w), Some(dy)], [dx]) => {
                conv.backward_input((w, dy), dx, workspace);
            }
            (Self::LinearWeights(linear), &[Some(x), Some(dy)], [dw, dbias @ ..]) => {
                linear.backward_weights((x, dy), dw, optional(dbias)?);
            }
            (Self::LinearInput(linear), &[Some(w), Some(dy)], [dx]) => {
                linear.backward_input((w, dy), dx);
            }
            (Self::ProductLeft(product), &[Some(b), Some(dy)], [da]) => {
                product.backward_left(b, dy, da);
            }
            (Self::ProductRight(product), &[Some(a), Some(dy)], [db]) => {
                product.backward_right(a, dy, db);
            }
            (
                Self::BatchNormBackward(norm),
                &[Some(x), Some(gamma), Some(saved), Some(dy)],
                [dx, dgamma, dbeta],
            ) => norm.backward((x, gamma, saved, dy), dx, dgamma, dbeta),
            (
                Self::RowNormBackward(norm),
                &[Some(x), Some(gamma), Some(saved), Some(dy)],
                [dx, dgamma, dbeta @ ..],
            ) => norm.backward((x, gamma, saved, dy), dx, dgamma, optional(dbeta)?),
            (Self::ActivationBackward(function, _), &[Some(saved), dy], [dx]) => {
                function.backward(saved, dy, dx);
            }
            (Self::MaxPoolBackward(pool), &[Some(positions), Some(dy)], [dx]) => {
                pool.backward(positions, dy, dx);
            }
            (Self::AveragePoolBackward(pool), &[Some(dy)], [dx]) => pool.backward(dy, dx),
            (Self::SumRepeated(broadcast), &[Some(dy)], [db]) => broadcast.sum(dy, db),
            (Self::MultiplyRight(broadcast), &[Some(a), Some(dy)], [db]) => {
                broadcast.sum_of_products(a, dy, db);
            }
            (Self::Split { outer, .. }, &[Some(dy)], outputs) => split(*outer, dy, outputs),
            (Self::SoftmaxBackward { width, .. }, &[Some(y), dy], [dx]) => {
                softmax_backward(*width, y, dy, dx);
            }
            (
                Self::AttentionBackward(attention),
                &[Some(q), Some(k), Some(v), Some(y), Some(saved), Some(dy)],
                [dq, dk, dv],
            ) => attention.backward((q, k, v), (y, saved, dy), (dq, dk, dv), workspace),
            (Self::EmbeddingBackward(table), &[Some(tokens), Some(dy)], [gradient]) => {
                table.backward(tokens, dy, gradient)?;
            }
            (Self::RotaryBackward(rotary, _), &[dy], [dx]) => rotary.backward(dy, dx),
            (Self::MovementBackward(movement), &[Some(dy)], [dx]) => movement.backward(dy, dx),
            (Self::UpsampleBackward(upsample), &[Some(dy)], [dx]) => upsample.backward(dy, dx),
            (Self::LossBackward(loss, _), &[Some(probabilities), Some(labels)], [dlogits]) => {
                loss.backward(probabilities, labels, dlogits)?;
            }
            (
                Self::BinaryLossBackward(loss, _),
                &[Some(probabilities), Some(labels)],
                [dlogits],
            ) => loss.backward(probabilities, labels, dlogits)?,
            _ => return Err(Failure::Operands),
        }
        Ok(())
    }

    fn change(&self, operands: &mut Operands) -> Result<(), Failure> {
        match (self, &operands.reads[..], &mut operands.updates[..]) {
            (Self::RunningStatistics(norm), &[Some(saved)], [mean, variance]) => {
                norm.track(saved, mean, variance);
            }
            (Self::Update { optimizer, .. }, &[Some(gradient)], [parameter]) => {
                optimizer.update(gradient, parameter, &mut []);
            }
            (Self::Update { optimizer, .. }, &[Some(gradient)], [parameter, state]) => {
                optimizer.update(gradient, parameter, state);
            }
            _ => return Err(Failure::Operands),
        }
        Ok(())
    }
}

fn optional<'a>(outputs: &'a mut [&mut [f32]]) -> Result<Option<&'a mut [f32]>, Failure> {
    match outputs {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(Failure::Operands),
    }
}
