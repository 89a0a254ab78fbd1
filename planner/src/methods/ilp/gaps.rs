//! The gaps that a programme decides about, and those that are settled before.

use std::cmp::Reverse;

use schema::Bytes;
use simulator::{GapId, Treatment};

use crate::Problem;
use crate::methods::tide::options::{Options, treatments};
use crate::methods::tide::quick;
use crate::points::Points;
use crate::recomputable::remade_until;

/// Gaps that are left open at most, the largest. What becomes of more is settled by giving up what is
/// cheapest per byte.
const OPEN: usize = if cfg!(feature = "highs") { 150 } else { 16 };

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
pub(super) fn items(problem: &Problem, points: &Points, target: Bytes) -> Vec<Item> {
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
        settle(problem, target, &mut items);
    }
    items
}

/// Settles all but the largest gaps; where nothing fits so, they are kept.
fn settle(problem: &Problem, target: Bytes, items: &mut Vec<Item>) {
    let settled = quick::start(problem, target, &Options::new(problem, target))
        .unwrap_or_else(|_| problem.keep_all());
    let mut by_size: Vec<usize> = (0..items.len()).collect();
    by_size.sort_by_key(|index| (Reverse(problem.model.gaps()[items[*index].gap].bytes), *index));
    for index in by_size.into_iter().skip(OPEN) {
        let item = &mut items[index];
        item.options.retain(|option| *option == settled[item.gap]);
        item.settled = true;
    }
    items.retain(|item| !item.options.is_empty());
}
