//! PooCH: keep, swap or recompute.

use std::cmp::Reverse;

use rayon::prelude::*;
use schema::Bytes;
use simulator::{Evaluator, GapId, Policy, Treatment};

use crate::method::{About, Method};
use crate::methods::SwapOpt;
use crate::methods::swap_opt::{A_ROUND, Search};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result};

/// PooCH (Ito et al.), complete: [`SwapOpt`](crate::methods::SwapOpt)'s classification into keep
/// and swap, after which maps that are swapped turn to *recompute* by `r(X)` (section 4.4.3):
///
/// > r(X) = recompute_overhead(X) / swap_overhead(X)   (1)
///
/// Both overheads come from simulation with all other maps fixed; they are counted from the time
/// that the iteration would take if X were swapped at no cost. Maps with r >= 1 stay swapped for
/// good; of the others the one with the smallest r is recomputed; then r is evaluated anew.
///
/// The paper measures ops and copies in iterations that swap all maps (section 4.2), each beside the others; here
/// the times are those of the trace and of the machine, which are measured, or modelled, each alone: the simulation
/// has copies wait for each other, and takes compute not to be slowed by them.
///
/// Where that would take more evaluations than the search may make we depart from the paper:
/// several maps are recomputed between two evaluations of r, by ascending r, each only if the
/// iteration gets faster by it; and of more maps than a round has evaluations for (`A_ROUND`), r of the largest alone is
/// evaluated.
pub struct Pooch;

impl Method for Pooch {
    fn about(&self) -> About {
        About {
            name: "pooch",
            summary: "keep, swap or recompute each feature map, by simulated overheads",
            source: "PooCH (Ito et al., 2019), sections 4.3 and 4.4",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        let mut search = Search::new(problem, target, problem.allowed.recompute, monitor)?;
        let mut treatments = search.run()?;
        if problem.allowed.recompute {
            recompute_by_ratio(problem, &mut search.evaluator, &mut treatments, monitor)?;
        }
        Ok(Decided::about_feature_maps(problem, treatments, Policy::EARLY))
    }

    fn uses(&self) -> Allowed {
        Allowed::WITHOUT_CODECS
    }

    fn includes(&self) -> Vec<Box<dyn Method>> {
        vec![Box::new(SwapOpt)]
    }
}

/// Section 4.4.3, steps 1 to 5.
fn recompute_by_ratio(
    problem: &Problem,
    evaluator: &mut Evaluator,
    treatments: &mut [Treatment],
    monitor: &dyn Monitor,
) -> Result<()> {
    let mut undecided: Vec<GapId> = (problem.feature_maps.iter().copied())
        .filter(|gap| treatments[*gap] == Treatment::Swap && problem.may_recompute(*gap))
        .collect();
    let most = problem.evaluations().saturating_mul(A_ROUND) / 2;
    if undecided.len() as u64 > most {
        undecided.sort_by_key(|gap| (Reverse(problem.model.gaps()[*gap].bytes), *gap));
        undecided.truncate(most as usize);
        undecided.sort_unstable();
    }
    let maps = undecided.len() as u64;
    let mut helpers = vec![evaluator.clone(); rayon::current_num_threads()];
    let mut evaluations = problem.evaluations();
    while !undecided.is_empty() {
        let progress =
            Progress { phase: "swap or recompute", done: maps - undecided.len() as u64, of: maps };
        if !monitor.proceed(progress) {
            return Err(PlanError::Interrupted);
        }
        let Ok(outcome) = evaluator.evaluate(treatments) else { break };
        let swapped = outcome.iteration.0;
        let mut ratios = ratios(&mut helpers, treatments, &undecided, swapped);
        ratios.retain(|(ratio, _)| ratio.recomputing_is_better());
        ratios.sort_by(|(a, _), (b, _)| a.compare(b));
        // Two evaluations for each ratio.
        let round = 2 * undecided.len() as u64;
        evaluations = evaluations.saturating_sub(round);
        let rounds_left = (evaluations / round).max(1);
        let at_once = (ratios.len() as u64).div_ceil(rounds_left) as usize;
        recompute_first(evaluator, treatments, &ratios[..at_once], swapped);
        undecided = ratios.into_iter().map(|(_, gap)| gap).skip(at_once).collect();
        undecided.sort_unstable();
    }
    Ok(())
}

/// r of each map that can be recomputed, in the maps' order whatever the number of threads.
fn ratios(
    helpers: &mut [Evaluator],
    treatments: &[Treatment],
    gaps: &[GapId],
    swapped: u64,
) -> Vec<(Ratio, GapId)> {
    let share = gaps.len().div_ceil(helpers.len()).max(1);
    let parts = helpers.par_iter_mut().zip(gaps.par_chunks(share)).map(|(evaluator, gaps)| {
        let mut treatments = treatments.to_vec();
        let ratio = |gap: &GapId| {
            Ratio::of(evaluator, &mut treatments, *gap, swapped).map(|ratio| (ratio, *gap))
        };
        gaps.iter().filter_map(ratio).collect::<Vec<_>>()
    });
    parts.collect::<Vec<_>>().concat()
}

/// Recomputes maps one after another, as long as that gains; the first gains by what its r says.
fn recompute_first(
    evaluator: &mut Evaluator,
    treatments: &mut [Treatment],
    ratios: &[(Ratio, GapId)],
    swapped: u64,
) {
    let mut time = swapped;
    for (_, gap) in ratios {
        treatments[*gap] = Treatment::Recompute;
        match evaluator.evaluate(treatments) {
            Ok(outcome) if outcome.iteration.0 < time => time = outcome.iteration.0,
            _ => treatments[*gap] = Treatment::Swap,
        }
    }
}

/// r(X), as the two overheads.
#[derive(Clone, Copy)]
struct Ratio {
    recompute: u64,
    swap: u64,
}

impl Ratio {
    /// r of a map that is swapped, where the iteration takes `swapped` with all maps as they are.
    /// None where recomputing does not fit.
    fn of(
        evaluator: &mut Evaluator,
        treatments: &mut [Treatment],
        gap: GapId,
        swapped: u64,
    ) -> Option<Self> {
        let mut time = |treatment| {
            treatments[gap] = treatment;
            evaluator.evaluate(treatments).ok().map(|outcome| outcome.iteration.0)
        };
        let recomputed = time(Treatment::Recompute);
        // Without an advantage there is no need to know by how much r exceeds 1.
        let free = recomputed.filter(|t| *t < swapped).and_then(|_| time(Treatment::SwapAtNoCost));
        treatments[gap] = Treatment::Swap;
        let (recomputed, free) = (recomputed?, free?);
        // A free swap can be slower than a real one that delays another copy for the better.
        let free = free.min(recomputed);
        Some(Self { recompute: recomputed - free, swap: swapped - free })
    }

    /// r < 1.
    fn recomputing_is_better(self) -> bool {
        self.recompute < self.swap
    }

    /// Compares two ratios whose denominators are not zero, without a fraction.
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let this = u128::from(self.recompute) * u128::from(other.swap);
        let that = u128::from(other.recompute) * u128::from(self.swap);
        this.cmp(&that)
    }
}
