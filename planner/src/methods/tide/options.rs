//! What may become of each gap, and what the relaxation would make of it.

use schema::Bytes;
use simulator::{GapId, Policy, Treatment};

use crate::kept_load::kept_load;
use crate::recomputable::{recomputable_in_time, remade_until};
use crate::relaxation::largest_gaps;
use crate::split_mix::SplitMix;
use crate::{Problem, Relaxation, Shares};

/// From this share on, the relaxation is sure of a treatment.
const SURE: f64 = 0.99;

/// When copies start. What has been copied stays on the host where there is room for all that may
/// ever be there, so that a search need not weigh that.
pub(super) fn policy(problem: &Problem) -> Policy {
    let all: u64 = problem.trace.tensors.iter().map(|tensor| tensor.bytes.0).sum();
    if all <= problem.host_budget.0 { Policy::EARLY_COPIES_STAY } else { Policy::EARLY }
}

/// The gaps that a search moves, each with the treatments that it may have.
#[derive(Clone)]
pub(super) struct Options {
    moved: Vec<(GapId, Vec<Treatment>)>,
    /// Places in that list of gaps about which the relaxation is not sure.
    unsure: Vec<usize>,
    /// The bytes of the gaps in that list up to each.
    cumulated: Vec<u64>,
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
        let large = largest_gaps(problem, usize::MAX);
        let decided = (0..large.len()).filter(|gap| large[*gap]).filter(matters);
        let until = remade_until(problem);
        let with_options = decided.map(|gap| (gap, treatments(problem, &until, gap)));
        let moved: Vec<_> = with_options.filter(|(_, options)| options.len() > 1).collect();
        let mut sum = 0;
        let bytes = |(gap, _): &(GapId, _)| problem.model.gaps()[*gap].bytes.0;
        let up_to = moved.iter().map(|option| {
            sum += bytes(option);
            sum
        });
        let cumulated = up_to.collect();
        Self { moved, unsure: Vec::new(), cumulated }
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

    /// The gaps.
    pub fn gaps(&self) -> Vec<GapId> {
        self.moved.iter().map(|(gap, _)| *gap).collect()
    }

    /// From now on, half of the other draws are among the gaps about which a relaxation is not
    /// sure: there the search has most to find, and on long traces they are few.
    pub fn look_at_unsure(&mut self, relaxation: &Relaxation) {
        let unsure = |(gap, options): &(GapId, Vec<Treatment>)| {
            let shares = &relaxation.gaps[*gap];
            shares.decided && options.iter().all(|treatment| share(shares, *treatment) < SURE)
        };
        self.unsure = (0..self.moved.len()).filter(|at| unsure(&self.moved[*at])).collect();
    }

    /// A place in the list, at random: of five draws, one gives gaps chances by their bytes.
    pub fn draw(&self, random: &mut SplitMix) -> usize {
        if let Some(total @ 1..) = self.cumulated.last()
            && random.below(5) == 0
        {
            let drawn = random.below(*total);
            return self.cumulated.partition_point(|up_to| *up_to <= drawn);
        }
        if !self.unsure.is_empty() && random.below(2) == 0 {
            return self.unsure[random.below(self.unsure.len() as u64) as usize];
        }
        random.below(self.moved.len() as u64) as usize
    }

    /// Whether there is nothing to decide.
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    /// Each gap treated as the relaxation treats its largest part; where it does not decide, as
    /// elsewhere.
    pub fn rounded(
        &self,
        problem: &Problem,
        relaxation: &Relaxation,
        elsewhere: Option<&[Treatment]>,
    ) -> Vec<Treatment> {
        let mut treatments = elsewhere.map_or_else(|| problem.keep_all(), <[Treatment]>::to_vec);
        for (gap, options) in self.moved.iter().filter(|(gap, _)| relaxation.gaps[*gap].decided) {
            let share = |treatment: &Treatment| share(&relaxation.gaps[*gap], *treatment);
            let largest = options
                .iter()
                .copied()
                .reduce(|best, other| if share(&other) > share(&best) { other } else { best });
            treatments[*gap] = largest.unwrap_or(Treatment::Keep);
        }
        treatments
    }
}

/// What may become of a gap, `Keep` first, given until when tensors can be [made again](remade_until).
pub(in crate::methods) fn treatments(
    problem: &Problem,
    until: &[usize],
    gap: GapId,
) -> Vec<Treatment> {
    let mut options = vec![Treatment::Keep];
    if problem.allowed.swap {
        options.extend([Treatment::Swap, Treatment::SwapEachTime]);
    }
    if problem.may_recompute(gap) && recomputable_in_time(problem, until, gap) {
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

/// How much of a gap the relaxation treats like this.
pub(in crate::methods) fn share(shares: &Shares, treatment: Treatment) -> f64 {
    let of = |list: &[(u8, f64)], codec| {
        list.iter().filter(|(c, _)| *c == codec).map(|(_, share)| share).sum::<f64>()
    };
    match treatment {
        Treatment::Keep => 1.0 - shares.gone(),
        Treatment::Swap
        | Treatment::SwapEachTime
        | Treatment::SwapAtNoCost
        | Treatment::SwapCompressedOnHost(_) => shares.swap,
        Treatment::Recompute | Treatment::RecomputeEachTime => shares.recompute,
        Treatment::SwapCompressed(codec) => of(&shares.swap_compressed, codec),
        Treatment::Compress(codec) => of(&shares.compress, codec),
    }
}
