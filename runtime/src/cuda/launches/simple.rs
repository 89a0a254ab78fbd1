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
            sum(writer, broadcast, Argument::Nothing, op.read(0)?, op.write(0)?);
        }
        Step::MultiplyRight(broadcast) => {
            sum(writer, broadcast, op.read(0)?, op.read(1)?, op.write(0)?);
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

fn sum<A: Copy>(
    writer: &mut Writer<A>,
    broadcast: &Broadcast,
    a: Argument<A>,
    dy: Argument<A>,
    db: Argument<A>,
) {
    let count = broadcast.smaller();
    let numbers = broadcast.numbers().into_iter().map(Operand::Number);
    let arguments = numbers.chain(operands![count, a, dy, db]).collect();
    writer.rows(("elementwise", "sum_repeated"), count, arguments);
}

fn of_pool<A>(
    writer: &mut Writer<A>,
    kernel: &str,
    numbers: &[u64],
    elements: usize,
    operands: Vec<Operand<A>>,
) {
    let arguments = numbers.iter().copied().map(Operand::Number).chain(operands).collect();
    writer.each(("pool", kernel), elements, arguments);
}
