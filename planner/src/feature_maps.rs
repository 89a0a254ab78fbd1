//! The tensors that published methods decide about.

use schema::{Bytes, Phase, Trace};
use simulator::{GapId, Model};

/// Feature maps together this small a share of all are left alone.
const NEGLIGIBLE: u64 = 1000;

/// The gaps of feature maps: tensors that a forward op makes and the backward phase needs again.
/// The gap is the one between the last forward and the first backward use, as in PooCH (4.1):
/// weights and gradients stay.
///
/// A recording also holds hundreds of small tensors of that kind, such as the saved statistics of
/// a batch norm, which the papers' frameworks do not treat as feature maps. The smallest that
/// together make up less than a thousandth of all are left out.
pub fn feature_maps(trace: &Trace, model: &Model) -> Vec<GapId> {
    let phase = |op: schema::OpId| trace.ops[op.index()].phase;
    let crossing = model.gaps().iter().enumerate().filter(|(_, gap)| {
        model.producer(gap.tensor).is_some()
            && phase(gap.after) == Phase::Forward
            && gap.before.is_some_and(|op| phase(op) != Phase::Forward)
    });
    let mut by_size: Vec<(Bytes, GapId)> = crossing.map(|(id, gap)| (gap.bytes, id)).collect();
    by_size.sort_unstable();
    let total: Bytes = by_size.iter().map(|(bytes, _)| *bytes).sum();
    let mut small = Bytes::ZERO;
    let negligible = by_size.iter().take_while(|(bytes, _)| {
        small += *bytes;
        small.0 < total.0 / NEGLIGIBLE
    });
    let negligible = negligible.count();
    let mut gaps: Vec<GapId> = by_size[negligible..].iter().map(|(_, gap)| *gap).collect();
    gaps.sort_unstable();
    gaps
}
