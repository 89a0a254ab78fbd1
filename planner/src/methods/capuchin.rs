//! Capuchin: swap by free time, then the cheaper of swapping and recomputing.

mod free_time;
mod recompute;

use schema::Bytes;
use simulator::{Evaluator, Infeasible, Policy, Treatment};

use self::free_time::Link;
use self::recompute::Candidates;
use crate::method::{About, Method, needs_swap};
use crate::{Decided, Monitor, PlanError, Problem, Progress, Result};

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
        let mut treatments = problem.keep_all();
        let mut link = Link::of(problem, &evaluator);
        let mut by_free_time = link.by_free_time();
        by_free_time.reverse();
        let mut candidates = Candidates::of(problem);
        let tensors = by_free_time.len() as u64;
        // The next by FT while its swap is hidden, then the hybrid of Algorithm 1.
        let mut hidden_left = true;
        let mut failure = match evaluator.evaluate(&treatments) {
            Ok(_) => return Ok(Decided::about_feature_maps(problem, treatments, Policy::EARLY)),
            Err(cause) => cause,
        };
        while let Some(&swap) = by_free_time.last() {
            let done = tensors - by_free_time.len() as u64;
            if !monitor.proceed(Progress { phase: "eviction", done, of: tensors }) {
                return Err(PlanError::Interrupted);
            }
            let overhead = link.overhead_with(swap);
            hidden_left &= overhead == 0;
            let bytes = |gap: usize| problem.model.gaps()[gap].bytes.0;
            let recompute = match hidden_left {
                true => None,
                false => candidates.best().filter(|(gap, time)| {
                    // overhead / size, compared without a fraction
                    let swapping = u128::from(overhead) * u128::from(bytes(*gap));
                    u128::from(*time) * u128::from(bytes(swap)) < swapping
                }),
            };
            let chosen = match recompute {
                Some((gap, _)) => {
                    treatments[gap] = Treatment::Recompute;
                    candidates.recompute(gap);
                    gap
                }
                None => {
                    treatments[swap] = Treatment::Swap;
                    link.swap(swap);
                    candidates.leave(swap);
                    swap
                }
            };
            by_free_time.retain(|gap| *gap != chosen);
            match evaluator.evaluate(&treatments) {
                Ok(_) => {
                    return Ok(Decided::about_feature_maps(problem, treatments, Policy::EARLY));
                }
                Err(cause) => failure = nearer(failure, cause),
            }
        }
        last_resort(problem, &mut evaluator, treatments)
            .map_err(|cause| PlanError::from_infeasible(nearer(failure, cause), problem.budget))
    }
}

/// Where evicting everything as chosen does not fit, because recomputation itself needs memory,
/// what is recomputed is swapped after all, from the input on.
fn last_resort(
    problem: &Problem,
    evaluator: &mut Evaluator,
    mut treatments: Vec<Treatment>,
) -> Result<Decided, Infeasible> {
    let mut failure = None;
    for gap in &problem.feature_maps {
        if treatments[*gap] != Treatment::Recompute {
            continue;
        }
        treatments[*gap] = Treatment::Swap;
        match evaluator.evaluate(&treatments) {
            Ok(_) => return Ok(Decided::about_feature_maps(problem, treatments, Policy::EARLY)),
            Err(cause) => failure = Some(failure.map_or(cause, |known| nearer(known, cause))),
        }
    }
    match failure {
        Some(cause) => Err(cause),
        None => evaluator
            .evaluate(&treatments)
            .map(|_| Decided::about_feature_maps(problem, treatments, Policy::EARLY)),
    }
}

/// Of two failures, the one that needs less.
fn nearer(one: Infeasible, other: Infeasible) -> Infeasible {
    match (one.needed(), other.needed()) {
        (Some(a), Some(b)) if b < a => other,
        (None, Some(_)) => other,
        _ => one,
    }
}
