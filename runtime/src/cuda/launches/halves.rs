//! Products of what is stored in 16 bits, on a device's units for that, by cuBLAS.
//!
//! A product of two numbers of 8 significant bits is a float, exactly, and cuBLAS adds floats up:
//! so these are products of floats as before, whose operands need not be widened first. Weights
//! stay as they are, in 32 bits: three numbers of 16 bits add up to one of them, exactly
//! ([`PARTS`]), and three products to its product. Nothing is rounded that was not.
//!
//! Two things differ. What is smaller than 2^-133 is left out of weights. And where an activation
//! is infinite, so is what follows from it on the host, and here it may be no number.

use schema::OpId;

use super::arguments::{ALIGNMENT, Cells, Halves, Means, OpOperands, Parts, Writer, args};
use super::bf16::convert;
use super::matrices::{self, sum_of_channels};
use crate::layers::Linear;
use crate::network::Step;

/// Numbers of 16 bits that a weight is taken apart into.
const PARTS: u64 = 3;

/// The launches of a step with these operands; nothing where it is no product, where operands are
/// stored otherwise, and where cuBLAS cannot be told it.
pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    id: OpId,
    op: &OpOperands<'_, A>,
    means: Means,
) -> Option<Writer<A>> {
    let weights = match (step, means.halves) {
        (_, Halves::None) => return None,
        (Step::Linear(_), Halves::WithWeights) => Some(1),
        (Step::LinearInput(_), Halves::WithWeights) => Some(0),
        (Step::LinearWeights(_), _) => None,
        (Step::Product(_) | Step::ProductLeft(_) | Step::ProductRight(_), _) => None,
        _ => return None,
    };
    if op.writes.is_empty() {
        return None;
    }
    let mut writer = Writer::new(means, id, op.scratch);
    let mut scratch = Scratch { at: op.scratch, end: 0 };
    let mut parts = Parts { count: 1, apart: 0 };
    let mut reads = op.reads.to_vec();
    for index in [0, 1] {
        let cells = (*op.reads.get(index)?)?;
        match (weights == Some(index), cells.narrow) {
            (false, true) => {}
            (true, false) => {
                let apart = (2 * cells.elements as u64).next_multiple_of(ALIGNMENT);
                let all = scratch.take(&cells, PARTS * apart);
                let numbers = args![cells.elements, apart / 2];
                let operands = args![cells.address(), all.address()];
                writer.each("bf16/take_apart", cells.elements, numbers, operands);
                parts = Parts { count: PARTS, apart };
                reads[index] = Some(all);
            }
            _ => return None,
        }
    }
    // What is made is rounded afterwards, where it is stored in 16 bits.
    let wide: Vec<_> = op.writes.iter().map(|made| scratch.floats(made)).collect();
    writer.halves = Some(parts);
    // A bias has a gradient of its own, which is no product.
    let product = OpOperands { reads: &reads, writes: &wide[..1], ..*op };
    matrices::write(step, &product, &mut writer)?;
    if writer.launches.iter().any(|launch| launch.program == "product") {
        return None;
    }
    if let (Step::LinearWeights(Linear { rows, outputs, .. }), Some(dbias)) = (step, wide.get(1)) {
        let dy = (*op.reads.get(1)?)?;
        let floats = scratch.floats(&dy);
        writer.scratch_bytes = scratch.end;
        convert(&mut writer, "bf16/widen", &dy, &floats);
        let sizes = [*rows, *outputs, 1];
        sum_of_channels(&mut writer, sizes, floats.address(), dbias.address());
    }
    for (wide, made) in wide.iter().zip(op.writes).filter(|(_, made)| made.narrow) {
        convert(&mut writer, "bf16/narrow", wide, made);
    }
    writer.scratch_bytes = writer.scratch_bytes.max(scratch.end);
    Some(writer)
}

struct Scratch<A> {
    at: A,
    end: u64,
}

impl<A: Copy> Scratch<A> {
    /// So many bytes for what belongs to an operand.
    fn take(&mut self, of: &Cells<A>, bytes: u64) -> Cells<A> {
        let offset = self.end;
        self.end += bytes.next_multiple_of(ALIGNMENT);
        Cells { at: self.at, offset, ..*of }
    }

    /// An operand's floats: room for them, or where they are.
    fn floats(&mut self, of: &Cells<A>) -> Cells<A> {
        match of.narrow {
            true => Cells { narrow: false, ..self.take(of, 4 * of.elements as u64) },
            false => *of,
        }
    }
}
