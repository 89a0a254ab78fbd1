//! The trace that comes with tidegate is of the network as it is now.

use std::path::Path;

use runtime::network::ResNet;
use schema::{Document, Nanos, Trace};

/// The trace without what a measurement finds out.
fn structure(mut trace: Trace) -> Trace {
    trace.tensors.iter_mut().for_each(|tensor| tensor.sparsity = None);
    trace.ops.iter_mut().for_each(|op| op.duration = Nanos::ZERO);
    trace
}

#[test]
fn the_bundled_trace_is_of_the_network_as_it_is_now() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/traces/resnet18-host.json");
    let trace = Trace::read(Path::new(file)).unwrap();
    let network = ResNet::resnet18(16, 224).build(&trace.network).unwrap();
    let measured = runtime::network::Measured { durations: Vec::new(), sparsity: Vec::new() };
    let now = network.trace(&measured, trace.provenance.clone());
    assert!(trace.total_time() > Nanos::ZERO);
    assert!(structure(trace) == now, "measure it again: its provenance names the command");
}
