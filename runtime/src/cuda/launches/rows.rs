//! Normalisation, softmax, losses, look-ups, rotation.

use super::arguments::operands;
use super::blas::behind;
use super::simple::{PART, column_parts, sum_parts};
use super::{Argument, OpOperands, Operand, Writer};
use crate::layers::{BatchNorm, Embedding, ROTARY_BASE, RowNorm};
use crate::network::Step;

pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    match step {
        Step::BatchNorm(norm) => {
            let channels = Channels::new(norm);
            let sums = writer.floats(2 * channels.rows());
            let (x, saved) = (op.read(0)?, op.write(1)?);
            let arguments = channels.and(operands![x, sums]);
            writer.rows(("normalise", "batch_norm_parts"), channels.rows(), arguments);
            let arguments = channels.and(operands![sums, saved]);
            writer.rows(("normalise", "batch_norm_statistics"), channels.channels, arguments);
            let (gamma, beta) = (op.read(1)?, op.read(2)?);
            let arguments = channels.and(operands![x, gamma, beta, saved, op.write(0)?]);
            writer.rows(("normalise", "batch_norm"), channels.rows(), arguments);
        }
        Step::BatchNormBackward(norm) => {
            let channels = Channels::new(norm);
            let (sums, totals) =
                (writer.floats(2 * channels.rows()), writer.floats(2 * channels.channels));
            let (x, gamma, saved, dy) = (op.read(0)?, op.read(1)?, op.read(2)?, op.read(3)?);
            let arguments = channels.and(operands![x, saved, dy, sums]);
            writer.rows(("normalise", "batch_norm_backward_parts"), channels.rows(), arguments);
            let (dgamma, dbeta) = (op.write(1)?, op.write(2)?);
            let Channels { channels: count, parts, .. } = channels;
            let arguments = operands![count, parts, sums, saved, totals, dgamma, dbeta];
            writer.rows(("normalise", "batch_norm_backward_sums"), count, arguments);
            let arguments = channels.and(operands![x, gamma, saved, totals, dy, op.write(0)?]);
            writer.rows(("normalise", "batch_norm_backward"), channels.rows(), arguments);
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
            // Sums for gamma, and behind them for beta, whether there is one or not.
            let (parts, sums) = column_parts(writer, *rows, 2 * width);
            let arguments = operands![*rows, *width, *centred, parts, x, saved, dy, sums];
            let tiles = width.div_ceil(32) * parts;
            writer.rows(("normalise", "row_norm_parameters"), tiles, arguments);
            sum_parts(writer, (parts, sums), *width, op.write(1)?);
            if let Some(dbeta) = op.write(2) {
                let sums = behind(sums, 4 * (parts * width) as u64);
                sum_parts(writer, (parts, sums), *width, dbeta);
            }
        }
        Step::Softmax { width, elements } => {
            let (rows, x) = (elements / width, op.read_or_write(0, 0)?);
            let arguments = operands![rows, *width, x, op.write(0)?];
            writer.rows(("rows", "softmax"), rows, arguments);
        }
        Step::SoftmaxBackward { width, elements } => {
            let (rows, dy) = (elements / width, op.read_or_write(1, 0)?);
            let arguments = operands![rows, *width, op.read(0)?, dy, op.write(0)?];
            writer.rows(("rows", "softmax_backward"), rows, arguments);
        }
        Step::Loss(loss, rows) => {
            let mut arguments = operands![*rows, loss.classes, writer.op];
            let losses = writer.floats(*rows);
            arguments.extend(operands![op.read(0)?, op.read(1)?, losses, op.write(1)?]);
            arguments.push(Argument::Status.into());
            writer.rows(("rows", "cross_entropy"), *rows, arguments);
            mean(writer, *rows, losses, op.write(0)?);
        }
        Step::LossBackward(loss, rows) => {
            let mut arguments = operands![*rows, loss.classes, writer.op];
            arguments.extend(operands![op.read(0)?, op.read(1)?, op.write(0)?, Argument::Status]);
            writer.each(("rows", "cross_entropy_backward"), rows * loss.classes, arguments);
        }
        Step::BinaryLoss(_, elements) => {
            let mut arguments = operands![*elements, writer.op];
            let losses = writer.floats(*elements);
            arguments.extend(operands![op.read(0)?, op.read(1)?, losses, op.write(1)?]);
            arguments.push(Argument::Status.into());
            writer.each(("rows", "binary_cross_entropy"), *elements, arguments);
            mean(writer, *elements, losses, op.write(0)?);
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

/// The values of each channel, in parts that a block of threads takes at once.
struct Channels {
    images: usize,
    channels: usize,
    plane: usize,
    parts: usize,
}

impl Channels {
    fn new(norm: &BatchNorm) -> Self {
        let (images, channels, plane) = (norm.shape.n, norm.shape.c, norm.shape.plane());
        let of_size = |size: usize| (images * plane).div_ceil(size).max(1);
        // Larger ones where these are enough for any device.
        let parts = match of_size(2 * PART) {
            few if few * channels >= 1024 => few,
            _ => of_size(PART),
        };
        Self { images, channels, plane, parts }
    }

    /// Parts of all channels.
    fn rows(&self) -> usize {
        self.channels * self.parts
    }

    /// The arguments of a kernel.
    fn and<A>(&self, more: Vec<Operand<A>>) -> Vec<Operand<A>> {
        let mut arguments = operands![self.images, self.channels, self.plane, self.parts];
        arguments.extend(more);
        arguments
    }
}

/// The mean of losses, which are summed up in parts first.
fn mean<A: Copy>(writer: &mut Writer<A>, count: usize, losses: Argument<A>, loss: Argument<A>) {
    let parts = count.div_ceil(PART);
    let sums = writer.floats(parts);
    writer.rows(("rows", "sum_losses"), parts, operands![count, PART, losses, sums]);
    writer.one(("rows", "mean_loss"), operands![count, parts, sums, loss]);
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
            writer.rows(("floats", "embedding_backward"), positions, arguments);
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
