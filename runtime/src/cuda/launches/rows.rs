//! Normalisation, softmax, losses, look-ups, rotation.

use super::arguments::operands;
use super::{Argument, OpOperands, Writer};
use crate::layers::{Embedding, ROTARY_BASE, RowNorm};
use crate::network::Step;

pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    match step {
        Step::BatchNorm(norm) => {
            let (n, c, plane) = (norm.shape.n, norm.shape.c, norm.shape.plane());
            let arguments = operands![
                n,
                c,
                plane,
                op.read(0)?,
                op.read(1)?,
                op.read(2)?,
                op.write(0)?,
                op.write(1)?
            ];
            writer.rows(("normalise", "batch_norm"), c, arguments);
        }
        Step::BatchNormBackward(norm) => {
            let (n, c, plane) = (norm.shape.n, norm.shape.c, norm.shape.plane());
            let mut arguments = operands![n, c, plane];
            for read in 0..4 {
                arguments.push(op.read(read)?.into());
            }
            arguments.extend(operands![op.write(0)?, op.write(1)?, op.write(2)?]);
            writer.rows(("normalise", "batch_norm_backward"), c, arguments);
        }
        Step::RunningStatistics(norm) => {
            let (count, c) = (norm.shape.n * norm.shape.plane(), norm.shape.c);
            let arguments = operands![count, c, op.read(0)?, op.update(0)?, op.update(1)?];
            writer.each(("floats", "running_statistics"), c, arguments);
        }
        Step::RowNorm(RowNorm { rows, width, centred }) => {
            let (x, gamma, beta) = (op.read(0)?, op.read(1)?, op.optional_read(2));
            let arguments =
                operands![*rows, *width, *centred, x, gamma, beta, op.write(0)?, op.write(1)?];
            writer.rows(("normalise", "row_norm"), *rows, arguments);
        }
        Step::RowNormBackward(RowNorm { rows, width, centred }) => {
            let (x, gamma) = (op.read(0)?, op.read(1)?);
            let (saved, dy) = (op.read(2)?, op.read(3)?);
            let arguments = operands![*rows, *width, *centred, x, gamma, saved, dy, op.write(0)?];
            writer.rows(("normalise", "row_norm_backward"), *rows, arguments);
            let dbeta = op.write(2).unwrap_or(Argument::Nothing);
            let arguments = operands![*rows, *width, *centred, x, saved, dy, op.write(1)?, dbeta];
            writer.each(("normalise", "row_norm_parameters"), *width, arguments);
        }
        Step::Softmax { width, elements } => {
            let (rows, x) = (elements / width, op.read_or_write(0, 0)?);
            let arguments = operands![rows, *width, x, op.write(0)?, Argument::Nothing];
            writer.rows(("rows", "softmax"), rows, arguments);
        }
        Step::SoftmaxBackward { width, elements } => {
            let (rows, dy) = (elements / width, op.read_or_write(1, 0)?);
            let arguments = operands![rows, *width, op.read(0)?, dy, op.write(0)?];
            writer.rows(("rows", "softmax_backward"), rows, arguments);
        }
        Step::Loss(loss, rows) => {
            let mut arguments = operands![*rows, loss.classes, writer.op];
            arguments.extend(operands![op.read(0)?, op.read(1)?, op.write(0)?, op.write(1)?]);
            arguments.push(Argument::Status.into());
            writer.one(("rows", "cross_entropy"), arguments);
        }
        Step::LossBackward(loss, rows) => {
            let mut arguments = operands![*rows, loss.classes, writer.op];
            arguments.extend(operands![op.read(0)?, op.read(1)?, op.write(0)?, Argument::Status]);
            writer.each(("rows", "cross_entropy_backward"), rows * loss.classes, arguments);
        }
        Step::BinaryLoss(_, elements) => {
            let mut arguments = operands![*elements, writer.op];
            arguments.extend(operands![op.read(0)?, op.read(1)?, op.write(0)?, op.write(1)?]);
            arguments.push(Argument::Status.into());
            writer.one(("rows", "binary_cross_entropy"), arguments);
        }
        Step::BinaryLossBackward(_, elements) => {
            let mut arguments = operands![*elements, writer.op];
            arguments.extend(operands![op.read(0)?, op.read(1)?, op.write(0)?, Argument::Status]);
            writer.each(("rows", "binary_cross_entropy_backward"), *elements, arguments);
        }
        _ => return write_tokens(step, op, writer),
    }
    Some(())
}

/// Look-ups and rotation.
fn write_tokens<A: Copy>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    match step {
        Step::Embedding(Embedding { rows, width }) => {
            let positions = (*op.reads.first()?)?.elements;
            let mut arguments = operands![positions, *rows, *width, writer.op];
            arguments.extend(operands![op.read(0)?, op.read(1)?, op.write(0)?, Argument::Status]);
            writer.each(("rows", "embedding"), positions * width, arguments);
        }
        Step::EmbeddingBackward(Embedding { rows, width }) => {
            let positions = (*op.reads.first()?)?.elements;
            let (elements, table) = (rows * width, op.write(0)?);
            writer.each(("elementwise", "fill"), elements, operands![elements, 0.0f32, table]);
            let mut arguments = operands![positions, *rows, *width, writer.op];
            arguments.extend(operands![op.read(0)?, op.read(1)?, table, Argument::Status]);
            writer.each(("floats", "embedding_backward"), *width, arguments);
        }
        Step::Rotary(rotary, elements) | Step::RotaryBackward(rotary, elements) => {
            let direction = if matches!(step, Step::Rotary(..)) { 1.0f32 } else { -1.0 };
            let mut arguments = operands![*elements, rotary.tokens, rotary.features, rotary.width];
            arguments.extend(operands![ROTARY_BASE, direction]);
            arguments.extend(operands![op.read_or_write(0, 0)?, op.write(0)?]);
            writer.each(("rows", "rotary"), elements / 2, arguments);
        }
        _ => return None,
    }
    Some(())
}
