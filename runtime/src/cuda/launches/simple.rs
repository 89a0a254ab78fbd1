//! Element by element, pooling, and copies.

use super::arguments::operands;
use super::{Argument, OpOperands, Operand, Writer};
use crate::layers::{Activation, Adam, Broadcast, Optimizer, SEED_BITS, SEED_CELLS, Sgd};
use crate::network::Step;

pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    match step {
        Step::Activation(function, elements) => {
            let (x, y) = (op.read_or_write(0, 0)?, op.write(0)?);
            let arguments = operands![number(*function)?, *elements, x, y];
            writer.each(("elementwise", "activation"), *elements, arguments);
        }
        Step::ActivationBackward(function, elements) => {
            let (saved, dy) = (op.read(0)?, op.read_or_write(1, 0)?);
            let arguments = operands![number(*function)?, *elements, saved, dy, op.write(0)?];
            writer.each(("elementwise", "activation_backward"), *elements, arguments);
        }
        Step::Add { elements } => {
            let (a, b) = (op.read_or_write(0, 0)?, op.read(1)?);
            let arguments = operands![*elements, a, b, op.write(0)?];
            writer.each(("elementwise", "add"), *elements, arguments);
        }
        Step::AddBroadcast(broadcast) => {
            apply(writer, "add_broadcast", broadcast, op)?;
        }
        Step::Multiply(broadcast) => {
            apply(writer, "multiply_broadcast", broadcast, op)?;
        }
        Step::SumRepeated(broadcast) => {
            sum(writer, broadcast.numbers(), Argument::Nothing, op.read(0)?, op.write(0)?);
        }
        Step::MultiplyRight(broadcast) => {
            sum(writer, broadcast.numbers(), op.read(0)?, op.read(1)?, op.write(0)?);
        }
        Step::Dropout(dropout, elements) => {
            let (scale, bound) = dropout.scale_and_bound();
            let mut arguments = operands![*elements, u64::from(dropout.layer), bound, scale];
            arguments.extend(operands![SEED_CELLS, u64::from(SEED_BITS)]);
            arguments.extend(operands![op.read_or_write(0, 0)?, op.read(1)?, op.write(0)?]);
            writer.each(("elementwise", "dropout"), *elements, arguments);
        }
        Step::MaxPool(pool) => {
            let operands = operands![op.read(0)?, op.write(0)?, op.write(1)?];
            let outputs = pool.output().elements();
            of_pool(writer, "max_pool", &pool.numbers(), outputs, operands);
        }
        Step::MaxPoolBackward(pool) => {
            let operands = operands![op.read(0)?, op.read(1)?, op.write(0)?];
            let inputs = pool.input.elements();
            of_pool(writer, "max_pool_backward", &pool.numbers(), inputs, operands);
        }
        Step::AveragePool(pool) => {
            let operands = operands![op.read(0)?, op.write(0)?];
            let outputs = pool.output().elements();
            of_pool(writer, "average_pool", &pool.numbers(), outputs, operands);
        }
        Step::AveragePoolBackward(pool) => {
            let operands = operands![op.read(0)?, op.write(0)?];
            let inputs = pool.input.elements();
            of_pool(writer, "average_pool_backward", &pool.numbers(), inputs, operands);
        }
        Step::Upsample(upsample) => {
            let operands = operands![op.read(0)?, op.write(0)?];
            let outputs = upsample.output().elements();
            of_pool(writer, "upsample", &upsample.numbers(), outputs, operands);
        }
        Step::UpsampleBackward(upsample) => {
            let operands = operands![op.read(0)?, op.write(0)?];
            let inputs = op.writes.first()?.elements;
            of_pool(writer, "upsample_backward", &upsample.numbers(), inputs, operands);
        }
        Step::Concat { outer, elements } => {
            let (width, mut start) = (elements / outer, 0);
            for index in 0..op.reads.len() {
                let part = (*op.reads.get(index)?)?.elements / outer;
                let mut arguments = operands![*outer, part, part, 0usize, width, start];
                arguments.extend(operands![op.read(index)?, op.write(0)?]);
                writer.each(("movement", "copy_rows"), outer * part, arguments);
                start += part;
            }
        }
        Step::Split { outer, elements } => {
            let (width, mut start) = (elements / outer, 0);
            for (index, output) in op.writes.iter().enumerate() {
                let part = output.elements / outer;
                let mut arguments = operands![*outer, part, width, start, part, 0usize];
                arguments.extend(operands![op.read(0)?, op.write(index)?]);
                writer.each(("movement", "copy_rows"), outer * part, arguments);
                start += part;
            }
        }
        Step::Movement(movement) => {
            let numbers = movement.numbers().into_iter().map(Operand::Number);
            let arguments = numbers.chain(operands![op.read(0)?, op.write(0)?]).collect();
            writer.each(("movement", "move_forward"), movement.output(), arguments);
        }
        Step::MovementBackward(movement) => {
            let (inputs, dx) = (movement.input(), op.write(0)?);
            writer.each(("elementwise", "fill"), inputs, operands![inputs, 0.0f32, dx]);
            let numbers = movement.numbers().into_iter().map(Operand::Number);
            let arguments = numbers.chain(operands![op.read(0)?, dx]).collect();
            writer.each(("movement", "move_backward"), movement.output(), arguments);
        }
        Step::Update { optimizer: Optimizer::Sgd(sgd), elements } => {
            let Sgd { learning_rate, momentum, weight_decay } = *sgd;
            let velocity = op.update(1).unwrap_or(Argument::Nothing);
            let mut arguments = operands![*elements, learning_rate, momentum, weight_decay];
            arguments.extend(operands![op.read(0)?, op.update(0)?, velocity]);
            writer.each(("elementwise", "sgd"), *elements, arguments);
        }
        Step::Update { optimizer: Optimizer::Adam(adam), elements } => {
            let Adam { learning_rate, beta1, beta2, epsilon } = *adam;
            let state = op.update(1)?;
            writer.each(("elementwise", "adam_step"), 1, operands![*elements, state]);
            let mut arguments = operands![*elements, learning_rate, beta1, beta2, epsilon];
            arguments.extend(operands![op.read(0)?, op.update(0)?, state]);
            writer.each(("elementwise", "adam"), *elements, arguments);
        }
        _ => return None,
    }
    Some(())
}

/// The number that stands for a function.
fn number(function: Activation) -> Option<usize> {
    Activation::ALL.iter().position(|other| *other == function)
}

fn apply<A: Copy>(
    writer: &mut Writer<A>,
    kernel: &str,
    broadcast: &Broadcast,
    op: &OpOperands<'_, A>,
) -> Option<()> {
    let numbers = broadcast.numbers().into_iter().map(Operand::Number);
    let operands = operands![op.read_or_write(0, 0)?, op.read(1)?, op.write(0)?];
    let arguments = numbers.chain(operands).collect();
    writer.each(("elementwise", kernel), broadcast.elements(), arguments);
    Some(())
}

/// Sums of `dy`, or of `a` times `dy`, over what a [`Broadcast`] of these numbers repeats: in parts, of
/// which there are as many for a shape on every device.
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
        let arguments = operands![repeats, count, parts, a, dy, sums];
        writer.rows(("elementwise", "sum_columns"), tiles, arguments);
        return sum_parts(writer, (parts, sums), count, db);
    }
    let parts = repeats.div_ceil(PART).clamp(1, PARTS);
    if let ([1, 1, 1, images, channels, plane], [.., 0, 1, 0]) = (extents, strides) {
        let sums = writer.floats(parts * count);
        let arguments = operands![*images, *channels, *plane, parts, a, dy, sums];
        writer.rows(("elementwise", "sum_channels"), count * parts, arguments);
        return sum_parts(writer, (parts, sums), count, db);
    }
    let sums = if parts > 1 { writer.floats(parts * count) } else { Argument::Nothing };
    let mut arguments: Vec<_> = numbers.map(Operand::Number).into();
    arguments.extend(operands![count, parts, a, dy, sums, db]);
    writer.rows(("elementwise", "sum_repeated"), count * parts, arguments);
    if parts > 1 {
        sum_parts(writer, (parts, sums), count, db);
    }
}

/// Elements of a part of a sum.
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
    writer.each(("elementwise", "sum_parts"), count, operands![count, parts, sums, into]);
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

fn of_pool<A: Copy>(
    writer: &mut Writer<A>,
    kernel: &str,
    numbers: &[u64],
    elements: usize,
    operands: Vec<Operand<A>>,
) {
    let arguments = numbers.iter().copied().map(Operand::Number).chain(operands).collect();
    writer.each(("pool", kernel), elements, arguments);
}
