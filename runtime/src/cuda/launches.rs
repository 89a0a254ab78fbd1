//! What to launch for an op.

mod arguments;
mod attention;
mod bf16;
mod blas;
mod dnn;
mod halves;
mod matrices;
mod product;
mod rows;
mod simple;

use codecs::kernels::Launches;
use schema::OpId;

use crate::network::Step;
use arguments::Writer;
pub(super) use arguments::args;
pub use arguments::{Argument, Cells, Halves, Means, OpOperands};
use bf16::Widened;
pub use blas::{BLAS, BLAS_ARGUMENTS, BLAS_HALVES};
pub use dnn::{DNN, DnnCall, DnnKernel, dnn_call};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no CUDA kernel for {what}")]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct NoKernel {
    pub what: &'static str,
}

/// What to launch for an op, one after the other, with these means, and the scratch memory that it
/// takes.
///
/// Operands are as [`Step`] states them; an input that an output lies over is not given. The op's
/// number goes into the status where labels or tokens are no numbers of a class or row.
///
/// # Errors
/// [`NoKernel`] for steps that the host has and CUDA has not, and for other operands than the
/// step's.
pub fn launches<A: Copy + PartialEq>(
    step: &Step,
    op: OpId,
    operands: &OpOperands<'_, A>,
    means: Means,
) -> Result<Launches<Argument<A>>, NoKernel> {
    if matrices::is_too_large(step) {
        return Err(NoKernel { what: "a convolution of 2^32 positions or more" });
    }
    if simple::is_too_large(step) {
        return Err(NoKernel { what: "pooling or up-sampling of planes of 2^32 elements or more" });
    }
    let mut writer = Writer::new(means, op, operands.scratch);
    if bf16::has_elements(step, operands) {
        // Nothing to gain from a library that takes floats.
        writer.means = Means::kernels(means.blocks);
        writer.has_elements = true;
        write(step, operands, &mut writer)?;
    } else if let Some(in_halves) = halves::write(step, op, operands, means) {
        writer = in_halves;
    } else if let Some(widened) = Widened::new(operands, &mut writer) {
        write(step, &widened.operands(operands), &mut writer)?;
        widened.round(&mut writer);
    } else {
        write(step, operands, &mut writer)?;
    }
    Ok(Launches { launches: writer.launches, scratch_bytes: writer.scratch_bytes })
}

fn write<A: Copy + PartialEq>(
    step: &Step,
    operands: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Result<(), NoKernel> {
    if writer.means.dnn && dnn::write(step, operands, writer).is_some() {
        return Ok(());
    }
    let done = matrices::write(step, operands, writer)
        .or_else(|| attention::write(step, operands, writer))
        .or_else(|| rows::write(step, operands, writer))
        .or_else(|| simple::write(step, operands, writer));
    done.ok_or(NoKernel { what: "an op with other operands than its step has" })
}
