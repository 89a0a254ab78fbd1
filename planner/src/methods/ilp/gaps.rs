//! The gaps that a programme decides about, and those that are settled before.

use simulator::{GapId, Treatment};

use crate::Problem;
use crate::methods::tide::options::{share, treatments};
use crate::recomputable::remade_until;
use crate::relaxation::points::Points;

/// Gaps that are left open at most. Of more, those are settled about which the relaxation is
/// surest ("relax and fix").
const OPEN: usize = if cfg!(feature = "highs") { 150 } else { 40 };

/// From this share on, the relaxation is sure.
const SURE: f64 = 0.99;

/// A gap that covers at least one point.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub gap: GapId,
    /// The first point within the gap.
    pub first: usize,
    /// The point after the last within the gap; their number where that is the iteration's end.
    pub end: usize,
    /// What may become of it besides staying.
    pub options: Vec<Treatment>,
    /// It is settled: the one of `options` that there is.
    pub settled: bool,
}

/// The gaps that may be treated otherwise than kept.
pub(super) fn items(problem: &Problem, points: &Points) -> Vec<Item> {
    let until = remade_until(problem);
    let item = |(gap, of): (GapId, &simulator::Gap)| {
        let first = points.after(of.after);
        let end = of.before.map_or(points.ops.len(), |op| points.until(op));
        let mut options = treatments(problem, &until, gap);
        let each_time = [Treatment::SwapEachTime, Treatment::RecomputeEachTime];
        options.retain(|t| *t != Treatment::Keep && !each_time.contains(t));
        let item = Item { gap, first, end, options, settled: false };
        (first < end && !item.options.is_empty()).then_some(item)
    };
    let mut items: Vec<Item> = problem.model.gaps().iter().enumerate().filter_map(item).collect();
    if items.len() > OPEN {
        settle(problem, &mut items);
    }
    items
}

/// Settles all but the gaps about which the relaxation is least sure.
fn settle(problem: &Problem, items: &mut Vec<Item>) {
    let relaxation = problem.relaxation();
    let likeliest = |item: &Item| {
        let shares = &relaxation.gaps[item.gap];
        let keep = (share(shares, Treatment::Keep), None);
        let others = item.options.iter().map(|t| (share(shares, *t), Some(*t)));
        others.fold(keep, |best, other| if other.0 > best.0 { other } else { best })
    };
    let mut sureness: Vec<(f64, usize)> =
        items.iter().enumerate().map(|(index, item)| (likeliest(item).0, index)).collect();
    sureness.sort_by(|(a, i), (b, j)| a.total_cmp(b).then(i.cmp(j)));
    for (rank, (sure, index)) in sureness.into_iter().enumerate() {
        if rank >= OPEN || sure >= SURE {
            let item = &mut items[index];
            item.options = likeliest(item).1.into_iter().collect();
            item.settled = true;
        }
    }
    items.retain(|item| !item.options.is_empty());
}
