//! Op times of a trace that nobody ran.

use networks::Efficiencies;
use schema::{Bytes, Document, Machine, Nanos, Op, OpKind, Origin, Trace};

use crate::carry_over::{CarryOverError, roofline_secs};

/// The trace with times as the machine's device would take at its peak figures: of each op a kernel's launch
/// and [the roofline](crate::carry_over) of its FLOPs and bytes moved. Where a trace does not know these, an op moves
/// what it reads and writes, and computes nothing. Views take no time.
///
/// # Errors
/// Where the trace or the machine is not well formed, or the times are longer than a trace's may be.
pub fn modelled_times(trace: &Trace, machine: &Machine) -> Result<Trace, CarryOverError> {
    let (network, name) = (trace.network.clone(), machine.name.clone());
    machine.check().map_err(|source| CarryOverError::Machine { name: name.clone(), source })?;
    let no_trace = |source| CarryOverError::Trace { network, machine: name, source };
    if let Err(source) = trace.check() {
        return Err(no_trace(source));
    }
    let launch = Efficiencies::bundled().launch_ns;
    let mut modelled = trace.clone();
    let mut unknown = 0;
    for op in &mut modelled.ops {
        op.recompute = None;
        unknown += usize::from(op.flops.is_none() || op.bytes_moved.is_none());
        let of = Op {
            flops: op.flops.or(Some(0)),
            bytes_moved: op.bytes_moved.or_else(|| Some(operands(trace, op))),
            ..op.clone()
        };
        let secs = roofline_secs(trace, &of, &machine.device.compute).unwrap_or(0.0);
        op.duration = match op.kind {
            OpKind::View => Nanos::ZERO,
            _ => Nanos(launch.saturating_add((secs * 1e9).round() as u64)),
        };
    }
    modelled.provenance.origin = Origin::Modelled;
    modelled.provenance.device = machine.device.name.clone();
    let mut note =
        "nothing was run: times are a launch and the roofline of each op's FLOPs and bytes"
            .to_string();
    if unknown > 0 {
        let ops = trace.ops.len();
        note += &format!(
            "; {unknown} of {ops} ops do not state both, and move what they read and write"
        );
    }
    modelled.provenance.notes.push(note);
    modelled.check().map_err(no_trace)?;
    Ok(modelled)
}

fn operands(trace: &Trace, op: &Op) -> Bytes {
    op.reads.iter().chain(&op.writes).map(|tensor| trace.tensors[tensor.index()].bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_rooflines_and_what_is_unknown_moves_its_operands() {
        let mut trace = crate::trace("resnet18-host").expect("it is bundled");
        let machine = crate::machine("v100-pcie").expect("it is bundled");
        let compute = &machine.device.compute;
        let launch = Efficiencies::bundled().launch_ns;
        let (flops, bytes) = (compute.f32_flops, compute.memory_bandwidth.0);
        let cases = [
            (OpKind::Convolution, Some(flops / 1000), Some(0), launch + 1_000_000),
            (OpKind::Elementwise, Some(0), Some(bytes / 1000), launch + 1_000_000),
            (OpKind::View, Some(flops), Some(bytes), 0),
        ];
        for (op, (kind, flops, bytes, _)) in trace.ops.iter_mut().zip(cases) {
            (op.kind, op.flops, op.bytes_moved) = (kind, flops, bytes.map(Bytes));
        }
        (trace.ops[3].flops, trace.ops[3].bytes_moved) = (None, None);
        let modelled = modelled_times(&trace, &machine).expect("it is well formed");
        for (op, (.., nanos)) in modelled.ops.iter().zip(cases) {
            assert_eq!(op.duration, Nanos(nanos), "{}", op.name);
        }
        let moved = operands(&trace, &trace.ops[3]).0 as f64 / bytes as f64;
        assert_eq!(modelled.ops[3].duration.0, launch + (moved * 1e9).round() as u64);
        assert_eq!(modelled.provenance.origin, Origin::Modelled);
        let notes = modelled.provenance.notes.join("\n");
        assert!(notes.contains("; 1 of 200 ops do not state both"), "{notes}");
    }
}
