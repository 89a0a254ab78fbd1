//! Times for ops of which only the work is known.

use schema::{Dtype, Machine, Nanos, Op, OpKind, Origin, Phase, TensorId, Trace, Untimed};

use super::class::{Class, Pass};
use super::efficiency::Efficiencies;
use super::error::NetworkError;
use super::work::Work;

/// The trace whose ops that say no time take what a machine's rates and some efficiencies give, by what
/// an op says of itself: its kind, phase, element type, operations and bytes. Where it does not say
/// how many bytes it moves they are its operands', and where no operations, none count.
///
/// # Errors
/// Where the iteration is longer than a trace may be.
pub fn timed_trace(
    untimed: Untimed,
    machine: &Machine,
    efficiencies: &Efficiencies,
) -> Result<Trace, NetworkError> {
    if untimed.is_timed() {
        return timed(untimed, |_, _| Nanos::ZERO);
    }
    let device = &machine.device;
    let mut trace =
        timed(untimed, |trace, op| efficiencies.time(&work(trace, op), &device.compute))?;
    let provenance = &mut trace.provenance;
    (provenance.origin, provenance.device) = (Origin::Modelled, device.name.clone());
    provenance.notes.push(format!(
        "times are modelled for {}, from the operations and bytes of each op and the efficiencies of \
         its kind: nothing was run",
        device.name
    ));
    Ok(trace)
}

fn timed(untimed: Untimed, time: impl Fn(&Trace, &Op) -> Nanos) -> Result<Trace, NetworkError> {
    untimed.timed(time).map_err(|why| NetworkError::Invalid { network: "the trace".into(), why })
}

/// What an op says that it has to do.
fn work(trace: &Trace, op: &Op) -> Work {
    let of = |tensor: &TensorId| trace.tensors.get(tensor.index());
    let operands = || op.reads.iter().chain(&op.writes).filter_map(of);
    let moved = || operands().map(|tensor| tensor.bytes.0).fold(0, u64::saturating_add);
    let bytes = op.bytes_moved.map_or_else(moved, |bytes| bytes.0);
    let dtype = op.writes.iter().chain(&op.reads).find_map(|tensor| of(tensor)?.dtype);
    let halves = matches!(dtype, Some(Dtype::F16 | Dtype::Bf16));
    let multiplies =
        matches!(op.kind, OpKind::Convolution | OpKind::MatrixProduct | OpKind::Attention);
    let work = Work::new(op.kind, class(op, halves), op.flops.unwrap_or(0), bytes);
    Work { matrix_units: halves && multiplies, ..work }
}

fn class(op: &Op, halves: bool) -> Class {
    let pass = if op.phase == Phase::Forward { Pass::Forward } else { Pass::Input };
    match op.kind {
        _ if op.phase == Phase::Update => Class::Optimizer,
        OpKind::Convolution | OpKind::MatrixProduct if halves => Class::Matrix16,
        OpKind::Convolution => Class::Window(pass),
        OpKind::MatrixProduct => Class::Matrix,
        OpKind::Normalisation if op.name.contains("batch") => Class::BatchNorm(pass),
        OpKind::Normalisation => Class::RowNorm(pass),
        OpKind::Pooling => Class::MaxPool(pass),
        OpKind::Softmax => Class::Softmax,
        OpKind::Attention => Class::Attention(pass),
        OpKind::Embedding if pass == Pass::Forward => Class::Embedding(pass),
        OpKind::Embedding => Class::Embedding(Pass::Parameters),
        OpKind::Movement => Class::Movement,
        OpKind::View => Class::View,
        OpKind::Loss => Class::Loss,
        OpKind::Optimizer => Class::Optimizer,
        OpKind::Activation | OpKind::Dropout | OpKind::Elementwise | OpKind::Other => {
            Class::Elementwise(pass)
        }
    }
}
