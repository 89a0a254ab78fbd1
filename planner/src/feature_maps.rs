//! The tensors that published methods decide about.

use schema::{Phase, TensorId, Trace};
use simulator::{GapId, Model};

/// What an op writes beside an output so many times as large is no feature map.
const BESIDE: u64 = 100;

/// The gaps of feature maps: tensors that a forward op makes and the backward phase needs again.
/// The gap is the one between the last forward and the first backward use, as in PooCH (4.1):
/// weights and gradients stay.
///
/// Recordings also hold hundreds of tensors that an op saves for its own backward op beside its
/// output and that are tiny against it, such as the statistics of a batch norm. The papers'
/// frameworks do not treat them as feature maps, and they are left out: what an op writes beside
/// an output that is over a hundred times as large. What is an op's output is a feature map
/// however small it is.
///
/// A tensor that only adjacent ops use has no gap in which anything could become of it: of
/// ResNet50's 105 feature maps that is what the loss makes, and 104 are decided about.
pub fn feature_maps(trace: &Trace, model: &Model) -> Vec<GapId> {
    let phase = |op: schema::OpId| trace.ops[op.index()].phase;
    let crossing = model.gaps().iter().enumerate().filter(|(_, gap)| {
        model.producer(gap.tensor).is_some()
            && phase(gap.after) == Phase::Forward
            && gap.before.is_some_and(|op| phase(op) != Phase::Forward)
    });
    crossing
        .filter(|(_, gap)| !is_beside_output(trace, model, gap.tensor))
        .map(|(id, _)| id)
        .collect()
}

/// Whether the op that makes a tensor makes another beside which it is negligible.
fn is_beside_output(trace: &Trace, model: &Model, tensor: TensorId) -> bool {
    let bytes = |tensor: TensorId| trace.tensors[tensor.index()].bytes.0;
    let writes = model.producer(tensor).map(|op| trace.ops[op.index()].writes.as_slice());
    let largest = writes.unwrap_or_default().iter().map(|other| bytes(*other)).max();
    largest.is_some_and(|largest| largest / BESIDE > bytes(tensor))
}
