//! The gaps that the relaxation decides about, and what else recomputing their tensors takes.

use std::collections::BTreeMap;

use schema::{OpId, TensorId};
use simulator::GapId;

use crate::Problem;
use crate::relaxation::points::Points;

/// Gaps that together have less than this share of the budget come and go for free.
const FREE_PERMILLE: u64 = 1;

/// At most so many gaps, the largest, are decided about; the others come and go for free.
const ITEMS: usize = 1500;

/// A gap that covers at least one point.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub gap: GapId,
    /// The first point by which something has been made that may be copied for the tensor's sake:
    /// itself, or what it is made from and is dead by then.
    pub made: usize,
    /// The first point within the gap.
    pub first: usize,
    /// The point after the last within the gap; their number where that is the iteration's end.
    pub end: usize,
    /// The op that makes the tensor, where that may be run again.
    pub rerun: Option<OpId>,
    /// Share of that op's time that counts for this item.
    pub share: f64,
    /// Ops that must be run again, too, to the extent that this tensor's rerun exceeds a share.
    pub with: Vec<(OpId, f64)>,
}

/// The items of a problem, and for each point the bytes of gaps that come and go for free.
pub(super) fn items(problem: &Problem, points: &Points) -> (Vec<Item>, Vec<u64>) {
    let mut items = Vec::new();
    let mut free = vec![0; points.ops.len()];
    let decided = largest_gaps(problem, ITEMS);
    for (index, gap) in problem.model.gaps().iter().enumerate() {
        let first = points.after(gap.after);
        let end = gap.before.map_or(points.ops.len(), |op| points.until(op));
        if first >= end {
            continue;
        }
        if !decided[index] {
            free[first..end].iter_mut().for_each(|bytes| *bytes += gap.bytes.0);
            continue;
        }
        let maker = problem.model.remade_by(gap.tensor);
        let rerun = maker.filter(|op| problem.may_run_again(*op));
        let made = problem.model.producer(gap.tensor).map_or(0, |op| points.after(op));
        items.push(Item { gap: index, made, first, end, rerun, share: 0.0, with: Vec::new() });
    }
    share_reruns(problem, &mut items);
    add_dead_ancestors(problem, points, &mut items);
    for item in &mut items {
        let made = item.with.iter().map(|(op, _)| points.after(*op)).min();
        item.made = made.unwrap_or(item.made).min(item.made);
    }
    (items, free)
}

/// Whether each gap is large enough to be decided about, and among so many of the largest.
pub(crate) fn largest_gaps(problem: &Problem, most: usize) -> Vec<bool> {
    let gaps = problem.model.gaps();
    let mut order: Vec<GapId> = (0..gaps.len()).collect();
    order.sort_by_key(|gap| (gaps[*gap].bytes, *gap));
    let too_many = order.len().saturating_sub(most);
    let free = problem.budget.0 / 1000 * FREE_PERMILLE;
    let mut decided = vec![true; gaps.len()];
    let mut total = 0;
    for (rank, gap) in order.into_iter().enumerate() {
        total += gaps[gap].bytes.0;
        decided[gap] = rank >= too_many && total > free;
    }
    decided
}

/// One run of an op brings back all its outputs: its time is shared out among them by size.
fn share_reruns(problem: &Problem, items: &mut [Item]) {
    let gaps = problem.model.gaps();
    let mut outputs: BTreeMap<OpId, BTreeMap<TensorId, u64>> = BTreeMap::new();
    for item in items.iter() {
        if let Some(op) = item.rerun {
            let gap = &gaps[item.gap];
            outputs.entry(op).or_default().insert(gap.tensor, gap.bytes.0);
        }
    }
    for item in items.iter_mut() {
        if let Some(op) = item.rerun {
            let all: u64 = outputs[&op].values().sum();
            item.share = gaps[item.gap].bytes.0 as f64 / all as f64;
        }
    }
}

/// What a rerun reads must be there. An input whose last use is over by then is not: its op is
/// run again as well, and so on.
///
/// A plan might rather hold such an input beyond its last use. That is no better than keeping, in
/// its place, parts of the tensors that it would serve to make, of no more bytes than its own. So
/// the bytes of a dead tensor are shared out among items, and a rerun counts the dead one only
/// beyond the share that could be kept instead.
fn add_dead_ancestors(problem: &Problem, points: &Points, items: &mut [Item]) {
    let makes_items: std::collections::BTreeSet<OpId> =
        items.iter().filter_map(|item| item.rerun).collect();
    let last_use = last_uses(problem);
    let mut serves: BTreeMap<TensorId, u64> = BTreeMap::new();
    let mut order: Vec<usize> = (0..items.len()).collect();
    let gaps = problem.model.gaps();
    order.sort_by_key(|item| (std::cmp::Reverse(gaps[items[*item].gap].bytes), *item));
    // First those that a dead tensor can be counted for in full.
    for (full, index) in
        [true, false].into_iter().flat_map(|full| order.iter().map(move |i| (full, *i)))
    {
        let Some(op) = items[index].rerun else { continue };
        let bytes = gaps[items[index].gap].bytes.0;
        // Any rerun comes after the gap's first point.
        let dead_by = points.ops[items[index].first] as u32;
        for (tensor, maker) in dead_ancestors(problem, &last_use, op, dead_by) {
            if makes_items.contains(&maker) || items[index].with.iter().any(|(op, _)| *op == maker)
            {
                continue;
            }
            let served = serves.entry(tensor).or_default();
            let room = problem.trace.tensors[tensor.index()].bytes.0 - *served;
            if room > 0 && (!full || room >= bytes) {
                let taken = room.min(bytes);
                *served += taken;
                items[index].with.push((maker, 1.0 - taken as f64 / bytes as f64));
            }
        }
    }
}

/// The tensors that are dead by an op and that a rerun needs, each with its maker.
fn dead_ancestors(
    problem: &Problem,
    last_use: &[u32],
    rerun: OpId,
    dead_by: u32,
) -> Vec<(TensorId, OpId)> {
    let mut ancestors = Vec::new();
    let mut visited = std::collections::BTreeSet::from([rerun]);
    let mut stack = vec![rerun];
    while let Some(next) = stack.pop() {
        for tensor in problem.model.reads_again(next) {
            let Some(maker) = problem.model.producer(tensor) else { continue };
            if last_use[tensor.index()] <= dead_by && visited.insert(maker) {
                stack.push(maker);
                ancestors.push((tensor, maker));
            }
        }
    }
    ancestors
}

/// The last op that uses each tensor; the number of ops where it outlives the iteration.
pub(crate) fn last_uses(problem: &Problem) -> Vec<u32> {
    let end = problem.trace.ops.len() as u32;
    let mut last = vec![end; problem.trace.tensors.len()];
    let mut freed = vec![false; last.len()];
    for op in &problem.trace.ops {
        op.frees.iter().for_each(|t| freed[t.index()] = true);
    }
    for (index, op) in problem.trace.ops.iter().enumerate() {
        let used = op.reads.iter().chain(&op.writes).filter(|t| freed[t.index()]);
        used.for_each(|t| last[t.index()] = index as u32);
    }
    last
}
