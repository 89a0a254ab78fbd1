//! Normalisation, softmax, losses, look-ups, rotation.

use super::arguments::{Argument, OpOperands, Writer, args};
use super::simple::{PART, column_parts, sum_parts};
use crate::layers::{BatchNorm, Embedding, ROTARY_BASE, RowNorm};
use crate::network::Step;

pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    let number = writer.op;
    // What is said of labels and tokens goes into the status.
    let with_status = || Some([op.first([2, 0, 1])?, vec![Argument::Status]].concat());
    match step {
        Step::BatchNorm(norm) => {
            let channels = Channels::new(norm);
            let (rows, numbers) = (channels.rows(), || channels.numbers());
            let sums = writer.floats(2 * rows);
            let (x, saved) = (op.read(0)?, op.write(1)?);
            writer.rows("normalise/batch_norm_parts", rows, numbers(), args![x, sums]);
            let (kernel, count) = ("normalise/batch_norm_statistics", channels.channels);
            writer.rows(kernel, count, numbers(), args![sums, saved]);
            let operands = args![x, op.read(1)?, op.read(2)?, saved, op.write(0)?];
            writer.rows("normalise/batch_norm", rows, numbers(), operands);
        }
        Step::BatchNormBackward(norm) => {
            let channels = Channels::new(norm);
            let (rows, numbers) = (channels.rows(), || channels.numbers());
            let Channels { channels: count, parts, .. } = channels;
            let (sums, totals) = (writer.floats(2 * rows), writer.floats(2 * count));
            let (x, gamma, saved, dy) = (op.read(0)?, op.read(1)?, op.read(2)?, op.read(3)?);
            let operands = args![x, saved, dy, sums];
            writer.rows("normalise/batch_norm_backward_parts", rows, numbers(), operands);
            let operands = args![sums, saved, totals, op.write(1)?, op.write(2)?];
            let kernel = "normalise/batch_norm_backward_sums";
            writer.rows(kernel, count, args![count, parts], operands);
            let operands = args![x, gamma, saved, totals, dy, op.write(0)?];
            writer.rows("normalise/batch_norm_backward", rows, numbers(), operands);
        }
        Step::RunningStatistics(norm) => {
            let (count, c) = (norm.shape.n * norm.shape.plane(), norm.shape.c);
            writer.each("floats/running_statistics", c, args![count, c], op.first([1, 2, 0])?);
        }
        Step::RowNorm(RowNorm { rows, width, centred }) => {
            let (numbers, beta) = (args![*rows, *width, *centred], op.optional_read(2));
            let operands = args![op.read(0)?, op.read(1)?, beta, op.write(0)?, op.write(1)?];
            writer.rows("normalise/row_norm", *rows, numbers, operands);
        }
        Step::RowNormBackward(RowNorm { rows, width, centred }) => {
            let (x, saved, dy) = (op.read(0)?, op.read(2)?, op.read(3)?);
            let numbers = args![*rows, *width, *centred];
            writer.rows("normalise/row_norm_backward", *rows, numbers, op.first([4, 0, 1])?);
            // Sums for gamma, and behind them for beta, whether there is one or not.
            let (parts, sums) = column_parts(writer, *rows, 2 * width);
            let numbers = args![*rows, *width, *centred, parts];
            let (kernel, tiles) = ("normalise/row_norm_parameters", width.div_ceil(32) * parts);
            writer.rows(kernel, tiles, numbers, args![x, saved, dy, sums]);
            sum_parts(writer, (parts, sums), *width, op.write(1)?);
            if let Some(dbeta) = op.write(2) {
                let sums = sums.behind(4 * (parts * width) as u64);
                sum_parts(writer, (parts, sums), *width, dbeta);
            }
        }
        Step::Softmax { width, elements } => {
            let rows = elements / width;
            writer.rows("rows/softmax", rows, args![rows, *width], op.first([1, 0, 1])?);
        }
        Step::SoftmaxBackward { width, elements } => {
            let (rows, operands) = (elements / width, op.first([2, 0, 1])?);
            writer.rows("rows/softmax_backward", rows, args![rows, *width], operands);
        }
        Step::Loss(loss, rows) => {
            let losses = writer.floats(*rows);
            let numbers = args![*rows, loss.classes, number];
            let operands = args![op.read(0)?, op.read(1)?, losses, op.write(1)?, Argument::Status];
            writer.rows("rows/cross_entropy", *rows, numbers, operands);
            mean(writer, *rows, losses, op.write(0)?);
        }
        Step::LossBackward(loss, rows) => {
            let (count, numbers) = (rows * loss.classes, args![*rows, loss.classes, number]);
            writer.each("rows/cross_entropy_backward", count, numbers, with_status()?);
        }
        Step::BinaryLoss(_, elements) => {
            let losses = writer.floats(*elements);
            let operands = args![op.read(0)?, op.read(1)?, losses, op.write(1)?, Argument::Status];
            let numbers = args![*elements, number];
            writer.each("rows/binary_cross_entropy", *elements, numbers, operands);
            mean(writer, *elements, losses, op.write(0)?);
        }
        Step::BinaryLossBackward(_, elements) => {
            let (kernel, numbers) =
                ("rows/binary_cross_entropy_backward", args![*elements, number]);
            writer.each(kernel, *elements, numbers, with_status()?);
        }
        Step::Embedding(Embedding { rows, width }) => {
            let positions = (*op.reads.first()?)?.elements;
            let numbers = args![positions, *rows, *width, number];
            writer.each("rows/embedding", positions * width, numbers, with_status()?);
        }
        Step::EmbeddingBackward(Embedding { rows, width }) => {
            let positions = (*op.reads.first()?)?.elements;
            let elements = rows * width;
            let zeros = args![elements, 0.0f32];
            writer.each("elementwise/fill", elements, zeros, op.first([0, 0, 1])?);
            let numbers = args![positions, *rows, *width, number];
            writer.rows("floats/embedding_backward", positions, numbers, with_status()?);
        }
        Step::Rotary(rotary, elements) | Step::RotaryBackward(rotary, elements) => {
            let direction = if matches!(step, Step::Rotary(..)) { 1.0f32 } else { -1.0 };
            let mut numbers = args![*elements, rotary.tokens, rotary.features, rotary.width];
            numbers.extend(args![ROTARY_BASE, direction]);
            writer.each("rows/rotary", elements / 2, numbers, op.first([1, 0, 1])?);
        }
        _ => return None,
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

    fn rows(&self) -> usize {
        self.channels * self.parts
    }

    fn numbers<A>(&self) -> Vec<Argument<A>> {
        args![self.images, self.channels, self.plane, self.parts]
    }
}

/// The mean of losses, which are summed up in parts first.
fn mean<A: Copy>(writer: &mut Writer<A>, count: usize, losses: Argument<A>, loss: Argument<A>) {
    let parts = count.div_ceil(PART);
    let sums = writer.floats(parts);
    writer.rows("rows/sum_losses", parts, args![count, PART], args![losses, sums]);
    writer.one("rows/mean_loss", args![count, parts, sums, loss]);
}
