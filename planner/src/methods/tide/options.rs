//! What may become of each gap.

use schema::{Bytes, OpId};
use simulator::{Gap, GapId, Policy, Treatment};

use crate::Problem;
use crate::kept_load::kept_load;
use crate::recomputable::remade_in_time;

/// Gaps that together are smaller than this part of the budget, in thousandths, are kept.
const SMALL_PERMILLE: u64 = 1;

/// When copies start. What has been copied stays on the host where there is room for all that may
/// ever be there, so that a search need not weigh that.
pub(super) fn policy(problem: &Problem) -> Policy {
    let all: u64 = problem.trace.tensors.iter().map(|tensor| tensor.bytes.0).sum();
    if all <= problem.host_budget.0 { Policy::EARLY_COPIES_STAY } else { Policy::EARLY }
}

/// The same of sequences of runs, each of which is evaluated as a whole: there copies out may start before
/// what they copy is used for the last time.
pub(super) fn policy_of_sequences(problem: &Problem) -> Policy {
    match policy(problem) {
        Policy::EARLY_COPIES_STAY => Policy::ONCE_MADE,
        policy => policy,
    }
}

/// The gaps that matter, each with the treatments that it may have.
#[derive(Clone)]
pub(in crate::methods) struct Options {
    moved: Vec<(GapId, Vec<Treatment>)>,
}

impl Options {
    /// All gaps that are large enough to matter, that some op is in during which more would be on
    /// the device than `target`, and that have a choice.
    pub fn new(problem: &Problem, target: Bytes) -> Self {
        let full: Vec<usize> = (kept_load(problem).into_iter().enumerate())
            .filter(|(_, load)| *load > target.0)
            .map(|(op, _)| op)
            .collect();
        let matters = |gap: &GapId| {
            let gap = &problem.model.gaps()[*gap];
            let inside = full.partition_point(|op| *op <= gap.after.index());
            (full.get(inside)).is_some_and(|op| gap.before.is_none_or(|end| *op < end.index()))
        };
        let large = large_gaps(problem);
        let decided = (0..large.len()).filter(|gap| large[*gap]).filter(matters);
        let until = remade_in_time(problem);
        let with_options = decided.map(|gap| (gap, treatments(problem, &until, gap)));
        Self { moved: with_options.filter(|(_, options)| options.len() > 1).collect() }
    }

    /// The gaps with what each may become.
    pub fn all(&self) -> &[(GapId, Vec<Treatment>)] {
        &self.moved
    }

    /// The same without those that copy.
    pub fn without_copies(&self) -> Self {
        let copies = |t: &Treatment| {
            let swaps = [Treatment::Swap, Treatment::SwapEachTime];
            swaps.contains(t) || matches!(t, Treatment::SwapCompressed(_))
        };
        let mut without = self.clone();
        without.moved.iter_mut().for_each(|(_, options)| options.retain(|option| !copies(option)));
        without
    }

    pub fn gaps(&self) -> Vec<GapId> {
        self.moved.iter().map(|(gap, _)| *gap).collect()
    }
}

/// Whether each gap is large enough to be decided about.
fn large_gaps(problem: &Problem) -> Vec<bool> {
    let gaps = problem.model.gaps();
    let mut order: Vec<GapId> = (0..gaps.len()).collect();
    order.sort_by_key(|gap| (gaps[*gap].bytes, *gap));
    let small = problem.budget.0 / 1000 * SMALL_PERMILLE;
    let mut large = vec![true; gaps.len()];
    let mut total = 0;
    for gap in order {
        total += gaps[gap].bytes.0;
        large[gap] = total > small;
    }
    large
}

/// What may become of a gap, `Keep` first, given until when tensors can be [made again](remade_in_time).
pub(in crate::methods) fn treatments(
    problem: &Problem,
    until: &[usize],
    gap: GapId,
) -> Vec<Treatment> {
    let mut options = vec![Treatment::Keep];
    if problem.allowed.swap {
        options.extend([Treatment::Swap, Treatment::SwapEachTime]);
    }
    let Gap { tensor, before, .. } = problem.model.gaps()[gap];
    let needed = before.map_or(problem.trace.ops.len(), OpId::index);
    if problem.may_recompute(gap) && needed <= until[tensor.index()] {
        options.push(Treatment::Recompute);
        options.push(Treatment::RecomputeEachTime);
    }
    for (codec, _) in problem.may_compress(gap) {
        options.push(Treatment::Compress(codec));
        if problem.allowed.swap {
            options.push(Treatment::SwapCompressed(codec));
        }
    }
    options
}
