//! Capuchin: swap by free time, then the cheaper of swapping and recomputing.

mod free_time;
mod recompute;

use schema::Bytes;
use simulator::{Evaluator, GapId, Infeasible, Policy, Treatment};

use self::free_time::Link;
use self::recompute::Candidates;
use crate::fit::fewest;
use crate::method::{About, Method, needs_swap};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result};

/// Capuchin (Peng et al., ASPLOS 2020). An iteration in core gives each access of a tensor its
/// time. A tensor can be away between its *evicted-access* and its *back-access*; ranked is by
///
/// > FT = SwapInStartTime - SwapOutEndTime
///
/// SwapOutEndTime being the evicted-access plus, SwapInStartTime the back-access less the time of a
/// copy. Tensors are swapped by descending FT as long as their copies are hidden;
/// then (Algorithm 1) the overhead of swapping the next by FT is compared with that of recomputing
/// the one with the most memory saving per second
///
/// > MSPS = Memory Saving / Recomputation Time
///
/// and the cheaper per byte counts. What is chosen for recomputation changes the MSPS of others,
/// as their sources or targets (Algorithm 2).
///
/// Whether a copy is hidden is told from the link's queues; an in-trigger, the access that starts a
/// copy in early enough, does not lie where memory is at its peak.
///
/// We depart in two points. In the plan, copies in start as early as memory allows, not at an
/// in-trigger. And whether enough memory is saved
/// is not summed up but simulated.
pub struct Capuchin;

impl Method for Capuchin {
    fn about(&self) -> About {
        About {
            name: "capuchin",
            summary: "swap by free time while that is hidden, then swap or recompute by saving per second",
            source: "Capuchin (Peng et al., ASPLOS 2020), Algorithms 1 and 2",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let decided = |treatments| Decided::about_feature_maps(problem, treatments, Policy::EARLY);
        let mut failure = match evaluator.evaluate(&problem.keep_all()) {
            Ok(_) => return Ok(decided(problem.keep_all())),
            Err(cause) => cause,
        };
        let mut choosing = Choosing::new(problem, &evaluator);
        let mut treatments = problem.keep_all();
        let mut fits = |choices: &[(GapId, Treatment)]| {
            treatments = problem.keep_all();
            choices.iter().for_each(|(gap, treatment)| treatments[*gap] = *treatment);
            match evaluator.evaluate(&treatments) {
                Ok(_) => true,
                Err(cause) => {
                    failure = nearer(failure, cause);
                    false
                }
            }
        };
        // What is chosen next does not depend on whether it fits: twice as much each time, then
        // the least of it that does.
        let mut choices: Vec<(GapId, Treatment)> = Vec::new();
        loop {
            let before = choices.len();
            choices.extend(choosing.by_ref().take(before.max(1)));
            if choices.len() == before {
                break;
            }
            let (done, of) = (choices.len() as u64, problem.feature_maps.len() as u64);
            if !monitor.proceed(Progress { phase: "eviction", done, of }) {
                return Err(PlanError::Interrupted);
            }
            if fits(&choices) {
                let enough = fewest(choices.len(), |count| fits(&choices[..count]));
                fits(&choices[..enough]);
                return Ok(decided(treatments));
            }
        }
        last_resort(problem, &mut evaluator, &treatments)
            .map_err(|cause| PlanError::from_infeasible(nearer(failure, cause), problem.budget))
    }

    fn uses(&self) -> Allowed {
        Allowed::WITHOUT_CODECS
    }
}

/// Evictions, one after the other.
struct Choosing<'a> {
    problem: &'a Problem<'a>,
    link: Link,
    candidates: Candidates,
    /// The next by FT last, and among them what is gone: it has been chosen.
    by_free_time: Vec<GapId>,
    gone: Vec<bool>,
    /// Whether all swaps so far are hidden.
    hidden: bool,
}

impl<'a> Choosing<'a> {
    fn new(problem: &'a Problem<'a>, evaluator: &Evaluator) -> Self {
        let link = Link::of(problem, evaluator);
        let mut by_free_time = link.by_free_time();
        by_free_time.reverse();
        let (candidates, gone) = (Candidates::of(problem), vec![false; problem.model.gaps().len()]);
        Self { problem, link, candidates, by_free_time, gone, hidden: true }
    }
}

impl Iterator for Choosing<'_> {
    type Item = (GapId, Treatment);

    /// The next by FT while its swap is hidden, then the hybrid of Algorithm 1.
    fn next(&mut self) -> Option<Self::Item> {
        let is_gone = |gap: &mut GapId| self.gone[*gap];
        while self.by_free_time.pop_if(is_gone).is_some() {}
        let swap = *self.by_free_time.last()?;
        let overhead = self.link.overhead_with(swap);
        self.hidden &= overhead == 0;
        let bytes = |gap: GapId| u128::from(self.problem.model.gaps()[gap].bytes.0);
        let recompute = match self.hidden {
            true => None,
            false => self.candidates.best().filter(|(gap, time)| {
                // overhead / size, compared without a fraction
                u128::from(*time) * bytes(swap) < u128::from(overhead) * bytes(*gap)
            }),
        };
        let chosen = match recompute {
            Some((gap, _)) => {
                self.candidates.recompute(gap);
                (gap, Treatment::Recompute)
            }
            None => {
                self.link.swap(swap);
                self.candidates.leave(swap);
                (swap, Treatment::Swap)
            }
        };
        self.gone[chosen.0] = true;
        Some(chosen)
    }
}

/// Where evicting everything as chosen does not fit, because recomputation itself needs memory,
/// what is recomputed is swapped after all, from the input on, until it fits.
fn last_resort(
    problem: &Problem,
    evaluator: &mut Evaluator,
    treatments: &[Treatment],
) -> Result<Decided, Infeasible> {
    let is_recomputed = |gap: &&GapId| treatments[**gap] == Treatment::Recompute;
    let recomputed: Vec<GapId> =
        problem.feature_maps.iter().filter(is_recomputed).copied().collect();
    let swapped = |count: usize| {
        let mut swapped = treatments.to_vec();
        recomputed[..count].iter().for_each(|gap| swapped[*gap] = Treatment::Swap);
        swapped
    };
    let all = recomputed.len();
    evaluator.evaluate(&swapped(all))?;
    let enough = fewest(all, |count| evaluator.evaluate(&swapped(count)).is_ok());
    Ok(Decided::about_feature_maps(problem, swapped(enough), Policy::EARLY))
}

/// Of two failures, the one that needs less.
fn nearer(one: Infeasible, other: Infeasible) -> Infeasible {
    match (one.needed(), other.needed()) {
        (Some(a), Some(b)) if b < a => other,
        (None, Some(_)) => other,
        _ => one,
    }
}
