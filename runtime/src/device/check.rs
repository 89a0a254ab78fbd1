//! What a plan must be before a device takes it.

use codecs::claims::check_claims;
use schema::{Document, Plan, Trace};
use simulator::{check_contract, check_figures, prove};

use super::DeviceError;
use crate::network::{Measured, Network};

/// Checks that a plan is safe, computes the trace, and that the trace is the network's.
pub(crate) fn check(network: &Network, trace: &Trace, plan: &Plan) -> Result<(), DeviceError> {
    plan.check()?;
    check_network(network, trace)?;
    prove(plan)?;
    check_figures(plan)?;
    check_contract(plan, trace)?;
    check_claims(plan, trace)?;
    Ok(())
}

/// That a trace is one of a network: all but what was measured.
fn check_network(network: &Network, trace: &Trace) -> Result<(), DeviceError> {
    let nothing = Measured { durations: Vec::new(), sparsity: Vec::new() };
    let own = network.trace(&nothing, trace.provenance.clone());
    match difference(&own, trace) {
        None => Ok(()),
        Some(why) => Err(DeviceError::OtherNetwork { network: network.name.clone(), why }),
    }
}

fn difference(own: &Trace, trace: &Trace) -> Option<String> {
    let count = |what: &str, ours: usize, theirs: usize| {
        (ours != theirs).then(|| format!("it has {theirs} {what}, the network {ours}"))
    };
    let counts = count("tensors", own.tensors.len(), trace.tensors.len())
        .or_else(|| count("ops", own.ops.len(), trace.ops.len()));
    if counts.is_some() {
        return counts;
    }
    let tensors = own.tensors.iter().zip(&trace.tensors);
    for (index, (ours, theirs)) in tensors.enumerate() {
        let of = |t: &schema::Tensor| (t.bytes, t.role, t.dtype, t.home, t.appears_before);
        if of(ours) != of(theirs) || ours.name != theirs.name {
            return Some(format!(
                "tensor {index} is `{}`, the network's `{}`, or differs in size, type or role",
                theirs.name, ours.name
            ));
        }
    }
    for (index, (ours, theirs)) in own.ops.iter().zip(&trace.ops).enumerate() {
        let same = ours.name == theirs.name
            && (ours.kind, ours.phase, ours.rerunnable)
                == (theirs.kind, theirs.phase, theirs.rerunnable)
            && ours.reads == theirs.reads
            && ours.writes == theirs.writes
            && ours.in_place == theirs.in_place
            && ours.frees == theirs.frees
            && (&ours.mutates, &ours.rerun, ours.random)
                == (&theirs.mutates, &theirs.rerun, theirs.random)
            && ours.workspace <= theirs.workspace;
        if !same {
            return Some(format!(
                "op {index} is `{}`, the network's `{}`, or differs in operands or workspace",
                theirs.name, ours.name
            ));
        }
    }
    None
}
