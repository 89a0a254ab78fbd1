//! Op times of a trace that nobody ran.

use std::cell::Cell;

use networks::Efficiencies;
use schema::{Bytes, Document, Machine, Nanos, Op, OpKind, Origin, Trace, Untimed};

use crate::carry_over::{CarryOverError, roofline_secs};

/// The trace whose ops that say no time take what the machine's device would at its peak figures: a kernel's
/// launch and [the roofline](crate::carry_over) of an op's FLOPs and bytes moved. Where a trace does not know these,
/// an op moves what it reads and writes, and computes nothing. Views take no time.
///
/// # Errors
/// Where the machine is not well formed, or the times are longer than a trace's may be.
pub fn modelled_times(untimed: Untimed, machine: &Machine) -> Result<Trace, CarryOverError> {
    let name = machine.name.clone();
    machine.check().map_err(|source| CarryOverError::Machine { name: name.clone(), source })?;
    let launch = Efficiencies::bundled().launch_ns;
    let (is_timed, network) = (untimed.is_timed(), untimed.network().to_string());
    let unknown = Cell::new(0);
    let time = |trace: &Trace, op: &Op| {
        let is_known = op.flops.is_some() && op.bytes_moved.is_some();
        unknown.set(unknown.get() + usize::from(!is_known));
        let of = Op {
            flops: op.flops.or(Some(0)),
            bytes_moved: op.bytes_moved.or_else(|| Some(operands(trace, op))),
            ..op.clone()
        };
        let secs = roofline_secs(trace, &of, &machine.device.compute).unwrap_or(0.0);
        match op.kind {
            OpKind::View => Nanos::ZERO,
            _ => Nanos(launch.saturating_add((secs * 1e9).round() as u64)),
        }
    };
    let mut modelled = untimed.timed(time).map_err(|source| CarryOverError::Trace {
        network,
        machine: name,
        source,
    })?;
    if is_timed {
        return Ok(modelled);
    }
    modelled.provenance.origin = Origin::Modelled;
    modelled.provenance.device = machine.device.name.clone();
    let mut note =
        "nothing was run: times are a launch and the roofline of each op's FLOPs and bytes"
            .to_string();
    let (unknown, all) = (unknown.get(), modelled.ops.len());
    if unknown > 0 {
        note += &format!(
            "; {unknown} of {all} ops do not state both, and move what they read and write"
        );
    }
    modelled.provenance.notes.push(note);
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
        let modelled = modelled_times(Untimed::without_times(trace.clone()), &machine)
            .expect("it is well formed");
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
