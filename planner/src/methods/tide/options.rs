//! What may become of each gap, and what the relaxation would make of it.

use simulator::{GapId, Treatment};

use crate::split_mix::SplitMix;
use crate::{Problem, Relaxation, Shares};

/// The gaps that a search moves, each with the treatments that it may have.
pub(super) struct Options {
    moved: Vec<(GapId, Vec<Treatment>)>,
}

impl Options {
    /// All gaps that the relaxation decided about and that have a choice.
    pub fn new(problem: &Problem, relaxation: &Relaxation) -> Self {
        let decided = (0..relaxation.gaps.len()).filter(|gap| relaxation.gaps[*gap].decided);
        let with_options = decided.map(|gap| (gap, treatments(problem, gap)));
        Self { moved: with_options.filter(|(_, options)| options.len() > 1).collect() }
    }

    /// The gaps.
    pub fn gaps(&self) -> Vec<GapId> {
        self.moved.iter().map(|(gap, _)| *gap).collect()
    }

    /// Whether there is nothing to decide.
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    /// A gap and a treatment, both at random.
    pub fn draw(&self, random: &mut SplitMix) -> (GapId, Treatment) {
        let (gap, options) = &self.moved[random.below(self.moved.len() as u64) as usize];
        (*gap, options[random.below(options.len() as u64) as usize])
    }

    /// Each gap treated as the relaxation treats its largest part.
    pub fn rounded(&self, problem: &Problem, relaxation: &Relaxation) -> Vec<Treatment> {
        let mut treatments = problem.keep_all();
        for (gap, options) in &self.moved {
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

/// What may become of a gap, `Keep` first.
pub(in crate::methods) fn treatments(problem: &Problem, gap: GapId) -> Vec<Treatment> {
    let mut options = vec![Treatment::Keep];
    if problem.allowed.swap {
        options.push(Treatment::Swap);
    }
    if problem.may_recompute(gap) {
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
        Treatment::Swap | Treatment::SwapAtNoCost | Treatment::SwapPackedThere(_) => shares.swap,
        Treatment::Recompute | Treatment::RecomputeEachTime => shares.recompute,
        Treatment::SwapCompressed(codec) => of(&shares.swap_compressed, codec),
        Treatment::Compress(codec) => of(&shares.compress, codec),
    }
}
