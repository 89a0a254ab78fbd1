//! Operands that are stored in 16 bits.
//!
//! Kernels compute on floats. Most read and write elements of 16 bits themselves: those are
//! compiled a second time with another element ([`has_elements`]). Products, convolutions and what
//! adds up in memory have floats alone: what such an op reads is widened into scratch memory before
//! it, and what it makes there is rounded into its place behind it, as on the host.

use super::arguments::{ALIGNMENT, Cells, OpOperands, Writer, args};
use crate::network::Step;

/// Whether a step's kernels take these operands as they are stored: all that they have of
/// activations and gradients in 16 bits, and parameters, statistics and indices not.
pub(super) fn has_elements<A>(step: &Step, op: &OpOperands<'_, A>) -> bool {
    // Operands that are no elements.
    let (reads, writes): (&[usize], &[usize]) = match step {
        Step::Activation(..)
        | Step::ActivationBackward(..)
        | Step::Add { .. }
        | Step::AddBroadcast(_)
        | Step::Multiply(_)
        | Step::SumRepeated(_)
        | Step::MultiplyRight(_)
        | Step::AveragePool(_)
        | Step::AveragePoolBackward(_)
        | Step::Upsample(_)
        | Step::UpsampleBackward(_)
        | Step::Concat { .. }
        | Step::Split { .. }
        | Step::Movement(_)
        | Step::MovementBackward(_)
        | Step::Softmax { .. }
        | Step::SoftmaxBackward { .. }
        | Step::Rotary(..)
        | Step::RotaryBackward(..)
        | Step::Update { .. } => (&[], &[]),
        Step::Dropout(..) => (&[1], &[]),
        Step::MaxPool(_) => (&[], &[1]),
        Step::MaxPoolBackward(_) => (&[0], &[]),
        Step::BatchNorm(_) | Step::RowNorm(_) => (&[1, 2], &[1]),
        Step::BatchNormBackward(_) | Step::RowNormBackward(_) => (&[1, 2], &[]),
        Step::Embedding(_) => (&[0, 1], &[]),
        Step::Loss(..) | Step::BinaryLoss(..) => (&[1], &[0]),
        Step::LossBackward(..) | Step::BinaryLossBackward(..) => (&[1], &[]),
        _ => return false,
    };
    let is_stored = |(index, cells): (usize, &Cells<A>), floats: &[usize]| {
        cells.narrow != floats.contains(&index)
    };
    let read = op.reads.iter().enumerate();
    let mut read = read.filter_map(|(index, cells)| Some((index, cells.as_ref()?)));
    read.all(|cells| is_stored(cells, reads))
        && op.writes.iter().enumerate().all(|cells| is_stored(cells, writes))
}

pub(super) struct Widened<A> {
    reads: Vec<Option<Cells<A>>>,
    writes: Vec<Cells<A>>,
    /// What was made elsewhere and belongs there.
    made: Vec<(Cells<A>, Cells<A>)>,
}

impl<A: Copy + PartialEq> Widened<A> {
    /// Widens what is stored in 16 bits; none where nothing is.
    pub fn new(op: &OpOperands<'_, A>, writer: &mut Writer<A>) -> Option<Self> {
        let all = op.reads.iter().flatten().chain(op.writes);
        if !all.into_iter().any(|cells| cells.narrow) {
            return None;
        }
        let mut end = 0;
        let mut elsewhere = |cells: &Cells<A>| {
            let offset = end;
            end += (4 * cells.elements as u64).next_multiple_of(ALIGNMENT);
            Cells { at: op.scratch, offset, narrow: false, ..*cells }
        };
        let lies_over = op.reads.iter().any(Option::is_none);
        let mut made = Vec::new();
        let mut writes = Vec::new();
        for (index, cells) in op.writes.iter().enumerate() {
            if !cells.narrow {
                writes.push(*cells);
                continue;
            }
            let wide = elsewhere(cells);
            // An input that an output lies over is under the first one.
            if lies_over && index == 0 {
                convert(writer, "bf16/widen", cells, &wide);
            }
            made.push((wide, *cells));
            writes.push(wide);
        }
        let mut reads = Vec::new();
        for cells in op.reads {
            reads.push(cells.map(|cells| match cells.narrow {
                true => {
                    let wide = elsewhere(&cells);
                    convert(writer, "bf16/widen", &cells, &wide);
                    wide
                }
                false => cells,
            }));
        }
        writer.scratch_bytes = end;
        Some(Self { reads, writes, made })
    }

    pub fn operands<'a>(&'a self, op: &OpOperands<'a, A>) -> OpOperands<'a, A> {
        OpOperands { reads: &self.reads, writes: &self.writes, ..*op }
    }

    pub fn round(&self, writer: &mut Writer<A>) {
        for (from, to) in &self.made {
            convert(writer, "bf16/narrow", from, to);
        }
    }
}

pub(super) fn convert<A: Copy>(
    writer: &mut Writer<A>,
    kernel: &'static str,
    from: &Cells<A>,
    to: &Cells<A>,
) {
    let operands = args![from.address(), to.address()];
    writer.each(kernel, from.elements, args![from.elements], operands);
}
