//! The trace that comes with tidegate is of this network.

use std::path::Path;

use networks::{NetworkOptions, network};
use runtime::network::{Measured, Network, Step};
use schema::{Bytes, Document, Nanos, OpKind, Phase, Trace};

/// What kind of op a forward op is, from how much and to how much it computes; of convolutions, in how
/// many operations. Layers had other names then.
type Forward = (OpKind, Option<u64>, Vec<Bytes>, Vec<Bytes>);

fn forward(trace: &Trace) -> Vec<Forward> {
    let bytes = |ids: &[schema::TensorId]| {
        ids.iter().map(|id| trace.tensors[id.index()].bytes).collect::<Vec<_>>()
    };
    let ops = trace.ops.iter().filter(|op| op.phase == Phase::Forward && !op.writes.is_empty());
    ops.map(|op| {
        let flops = op.flops.filter(|_| op.kind == OpKind::Convolution);
        (op.kind, flops, bytes(&op.reads), bytes(&op.writes))
    })
    .collect()
}

/// It was measured before running statistics were kept and before the gradients of weights and
/// inputs were ops of their own, so that only the forward phase is the same op by op.
#[test]
fn the_forward_phase_of_the_bundled_trace_is_that_of_the_network() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/traces/resnet18-host.json");
    let trace = Trace::read(Path::new(file)).unwrap();
    let options = NetworkOptions { batch: 16, ..NetworkOptions::default() };
    let network = Network::new(&network("resnet18", &options).unwrap(), None).unwrap();
    let measured = Measured { durations: Vec::new(), sparsity: Vec::new() };
    let now = network.trace(&measured, trace.provenance.clone());
    assert!(trace.total_time() > Nanos::ZERO);
    let (then, now) = (forward(&trace), forward(&now));
    assert_eq!(then.len(), now.len());
    then.into_iter().zip(now).for_each(|(then, now)| assert_eq!(then, now));
    let running = |op: &&runtime::network::Op| matches!(op.step, Step::RunningStatistics(_));
    assert_eq!(network.ops().iter().filter(running).count(), 20);
}
