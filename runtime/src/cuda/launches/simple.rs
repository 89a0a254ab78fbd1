//! Element by element, pooling, and copies.

use super::arguments::{Argument, OpOperands, Writer, args};
use crate::layers::{Activation, Adam, Optimizer, SEED_BITS, SEED_CELLS, Sgd};
use crate::network::Step;

pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    match step {
        Step::Activation(function, elements) => {
            let numbers = args![number(*function)?, *elements];
            writer.each("elementwise/activation", *elements, numbers, op.first([1, 0, 1])?);
        }
        Step::ActivationBackward(function, elements) => {
            let (numbers, operands) = (args![number(*function)?, *elements], op.first([2, 0, 1])?);
            writer.each("elementwise/activation_backward", *elements, numbers, operands);
        }
        Step::Add { elements } => {
            writer.each("elementwise/add", *elements, args![*elements], op.first([2, 0, 1])?);
        }
        Step::AddBroadcast(by) => {
            let (elements, numbers) = (by.elements(), list(&by.numbers()));
            writer.each("elementwise/add_broadcast", elements, numbers, op.first([2, 0, 1])?);
        }
        Step::Multiply(by) => {
            let (elements, numbers) = (by.elements(), list(&by.numbers()));
            writer.each("elementwise/multiply_broadcast", elements, numbers, op.first([2, 0, 1])?);
        }
        Step::SumRepeated(broadcast) => {
            sum(writer, broadcast.numbers(), Argument::Nothing, op.read(0)?, op.write(0)?);
        }
        Step::MultiplyRight(broadcast) => {
            sum(writer, broadcast.numbers(), op.read(0)?, op.read(1)?, op.write(0)?);
        }
        Step::Dropout(dropout, elements) => {
            let (scale, bound) = dropout.scale_and_bound();
            let mut numbers = args![*elements, u64::from(dropout.layer), bound, scale];
            numbers.extend(args![SEED_CELLS, u64::from(SEED_BITS)]);
            writer.each("elementwise/dropout", *elements, numbers, op.first([2, 0, 1])?);
        }
        Step::MaxPool(pool) => {
            let (outputs, numbers) = (pool.output().elements(), list(&pool.numbers()));
            writer.each("pool/max_pool", outputs, numbers, op.first([1, 0, 2])?);
        }
        Step::MaxPoolBackward(pool) => {
            let (inputs, numbers) = (pool.input.elements(), list(&pool.numbers()));
            writer.each("pool/max_pool_backward", inputs, numbers, op.first([2, 0, 1])?);
        }
        Step::AveragePool(pool) => {
            let (outputs, numbers) = (pool.output().elements(), list(&pool.numbers()));
            writer.each("pool/average_pool", outputs, numbers, op.first([1, 0, 1])?);
        }
        Step::AveragePoolBackward(pool) => {
            let (inputs, numbers) = (pool.input.elements(), list(&pool.numbers()));
            writer.each("pool/average_pool_backward", inputs, numbers, op.first([1, 0, 1])?);
        }
        Step::Upsample(upsample) => {
            let (outputs, numbers) = (upsample.output().elements(), list(&upsample.numbers()));
            writer.each("pool/upsample", outputs, numbers, op.first([1, 0, 1])?);
        }
        Step::UpsampleBackward(upsample) => {
            let (inputs, numbers) = (op.writes.first()?.elements, list(&upsample.numbers()));
            writer.each("pool/upsample_backward", inputs, numbers, op.first([1, 0, 1])?);
        }
        Step::Concat { outer, elements } => {
            let (width, mut start) = (elements / outer, 0);
            for index in 0..op.reads.len() {
                let part = (*op.reads.get(index)?)?.elements / outer;
                let numbers = args![*outer, part, part, 0usize, width, start];
                let operands = args![op.read(index)?, op.write(0)?];
                writer.each("movement/copy_rows", outer * part, numbers, operands);
                start += part;
            }
        }
        Step::Split { outer, elements } => {
            let (width, mut start) = (elements / outer, 0);
            for (index, output) in op.writes.iter().enumerate() {
                let part = output.elements / outer;
                let numbers = args![*outer, part, width, start, part, 0usize];
                let operands = args![op.read(0)?, op.write(index)?];
                writer.each("movement/copy_rows", outer * part, numbers, operands);
                start += part;
            }
        }
        Step::Movement(movement) => {
            let (outputs, numbers) = (movement.output(), list(&movement.numbers()));
            writer.each("movement/move_forward", outputs, numbers, op.first([1, 0, 1])?);
        }
        Step::MovementBackward(movement) => {
            let (inputs, outputs) = (movement.input(), movement.output());
            writer.each("elementwise/fill", inputs, args![inputs, 0.0f32], op.first([0, 0, 1])?);
            let (numbers, operands) = (list(&movement.numbers()), op.first([1, 0, 1])?);
            writer.each("movement/move_backward", outputs, numbers, operands);
        }
        Step::Update { optimizer: Optimizer::Sgd(sgd), elements } => {
            let Sgd { learning_rate, momentum, weight_decay } = *sgd;
            let velocity = op.update(1).unwrap_or(Argument::Nothing);
            let numbers = args![*elements, learning_rate, momentum, weight_decay];
            let operands = args![op.read(0)?, op.update(0)?, velocity];
            writer.each("elementwise/sgd", *elements, numbers, operands);
        }
        Step::Update { optimizer: Optimizer::Adam(adam), elements } => {
            let Adam { learning_rate, beta1, beta2, epsilon } = *adam;
            writer.each("elementwise/adam_step", 1, args![*elements], args![op.update(1)?]);
            let numbers = args![*elements, learning_rate, beta1, beta2, epsilon];
            writer.each("elementwise/adam", *elements, numbers, op.first([1, 2, 0])?);
        }
        _ => return None,
    }
    Some(())
}

fn number(function: Activation) -> Option<usize> {
    Activation::ALL.iter().position(|other| *other == function)
}

fn list<A>(numbers: &[u64]) -> Vec<Argument<A>> {
    numbers.iter().copied().map(Argument::Number).collect()
}

/// Sums of `dy`, or of `a` times `dy`, over what a [`Broadcast`] of these numbers repeats: in
/// parts, of which there are as many for a shape on every device.
pub(super) fn sum<A: Copy>(
    writer: &mut Writer<A>,
    numbers: [u64; 12],
    a: Argument<A>,
    dy: Argument<A>,
    db: Argument<A>,
) {
    let (extents, strides) = numbers.split_at(6);
    let of = |repeated: bool| -> usize {
        let all = extents.iter().zip(strides).filter(|(_, stride)| (**stride == 0) == repeated);
        all.map(|(extent, _)| *extent as usize).product()
    };
    let (count, repeats) = (of(false), of(true));
    if let ([1, 1, 1, 1, _, _], [.., 0, 1]) = (extents, strides) {
        let (parts, sums) = column_parts(writer, repeats, count);
        let tiles = count.div_ceil(32) * parts;
        let numbers = args![repeats, count, parts];
        writer.rows("elementwise/sum_columns", tiles, numbers, args![a, dy, sums]);
        return sum_parts(writer, (parts, sums), count, db);
    }
    let parts = repeats.div_ceil(PART).clamp(1, PARTS);
    if let ([1, 1, 1, images, channels, plane], [.., 0, 1, 0]) = (extents, strides) {
        let sums = writer.floats(parts * count);
        let numbers = args![*images, *channels, *plane, parts];
        writer.rows("elementwise/sum_channels", count * parts, numbers, args![a, dy, sums]);
        return sum_parts(writer, (parts, sums), count, db);
    }
    let sums = if parts > 1 { writer.floats(parts * count) } else { Argument::Nothing };
    let operands = args![count, parts, a, dy, sums, db];
    writer.rows("elementwise/sum_repeated", count * parts, list(&numbers), operands);
    if parts > 1 {
        sum_parts(writer, (parts, sums), count, db);
    }
}

pub(super) const PART: usize = 4096;
/// Parts of a sum, at most: a thread adds those up.
const PARTS: usize = 256;

/// In how many parts rows are cut for sums down so many columns, and memory for these sums.
pub(super) fn column_parts<A: Copy>(
    writer: &mut Writer<A>,
    rows: usize,
    columns: usize,
) -> (usize, Argument<A>) {
    let parts = rows.div_ceil(64).clamp(1, PARTS);
    (parts, writer.floats(parts * columns))
}

/// Adds up parts, which lie behind one another.
pub(super) fn sum_parts<A: Copy>(
    writer: &mut Writer<A>,
    (parts, sums): (usize, Argument<A>),
    count: usize,
    into: Argument<A>,
) {
    writer.each("elementwise/sum_parts", count, args![count, parts], args![sums, into]);
}

/// Whether a plane has more elements than pooling and up-sampling count.
pub(super) fn is_too_large(step: &Step) -> bool {
    let numbers: &[u64] = match step {
        Step::MaxPool(pool) | Step::MaxPoolBackward(pool) => &pool.numbers(),
        Step::AveragePool(pool) | Step::AveragePoolBackward(pool) => &pool.numbers(),
        Step::Upsample(upsample) | Step::UpsampleBackward(upsample) => &upsample.numbers(),
        _ => return false,
    };
    let plane = |extents: &[u64]| extents.iter().fold(1, |all: u64, n| all.saturating_mul(*n));
    plane(&numbers[1..4]).max(plane(&numbers[4..7])) > u64::from(u32::MAX)
}
