//! `tide`: keep, swap, recompute and compress, decided together.

mod course;
pub(super) mod options;
mod others;
mod packed;
pub(super) mod quick;
mod reserve;
mod searched;
mod sequences;

use schema::Bytes;

use crate::method::{About, Method};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result, bound};
use options::Options;
use packed::Packed;

/// Our own method: keep, swap, recompute and compress, decided together.
///
/// 1. A first plan is what DTR runs again, on traces of at most 3000 ops; then the [minimum cut](crate::bound) of the
///    fullest op, carried out as it stands, copies and reruns as late as can be. Where that does not fit and more than
///    reruns is allowed, a search for reruns alone comes first, which takes some tenths of a second. Where all that is no
///    plan, what is cheapest per byte is given up where memory is fullest (`quick.rs`). The first of them is there in
///    milliseconds.
/// 2. A search over sequences of runs (`runs.rs`) begins from what cuts hold, from what DTR runs again
///    and from nothing, ruins a little and repairs it, again and again. A copy in or a decompression
///    stands in the sequence like a rerun, so that a plan may hold dead tensors, share reruns, drop
///    twice and copy in between, which one treatment per gap cannot say. With copies and codecs, what
///    is judged is the evaluator's iteration time, exact with all stalls.
/// 3. The search goes on from the best for as long as that makes the iteration shorter; with copies or codecs, further
///    from it and with some memory left free now and then. Where reruns alone have no addresses, memory is left free
///    when they lack some (`reserve.rs`).
/// 4. What other methods decide that take little time is tried last, and sequences with less that is
///    allowed (`others.rs`).
///
/// A search ends when its work is used up or its plan is as fast as the bound. Seeds are fixed: the
/// same problem gives the same plan on any number of threads. Told to stop, the search ends with the
/// best plan that it has. The plan's settings say where it is from.
pub struct Tide;

fn some(found: Vec<Decided>) -> Option<Vec<Decided>> {
    (!found.is_empty()).then_some(found)
}

impl Method for Tide {
    fn about(&self) -> About {
        About {
            name: "tide",
            summary: "all decisions together, by a search over sequences of runs from minimum cuts",
            source: "tidegate",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        let mut found = self.candidates(problem, target, monitor)?;
        Ok(found.pop().expect("candidates are at least one"))
    }

    fn candidates(
        &self,
        problem: &Problem,
        target: Bytes,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Decided>> {
        let options = Options::new(problem, target);
        let mut best = Packed::new(problem, target, &options, monitor);
        let fullest = best.fullest();
        let recompute = problem.allowed.recompute;
        if recompute && !problem.is_rough && problem.trace.ops.len() <= others::LONG {
            best.try_online();
        }
        let online = best.time();
        best.try_cuts(problem.allowed, fullest);
        let copies = problem.allowed.swap || problem.allowed.compress;
        if copies && recompute && best.time() == online {
            // With copies they seldom fit as they stand.
            best.try_cuts(Allowed::RERUNS, fullest);
            if !problem.is_rough && best.time() == online {
                // Where memory is short they do not either; reruns alone are searched for sooner than all.
                best.search_alone();
            }
        }
        // Where that is no plan, or codecs may help, what is cheapest per byte is given up.
        let first = match problem.allowed.compress || !best.is_within(u64::MAX) {
            true => best.first(),
            false => Ok(()),
        };
        // What is as fast as a bound that takes no time to find needs no search.
        let least = bound(problem).time().unwrap_or_default();
        if best.is_within(least.0) {
            return Ok(best.take());
        }
        if !monitor.proceed(Progress { phase: "first plan", done: 1, of: 1 }) {
            return some(best.take()).ok_or(PlanError::Interrupted);
        }
        let place = problem.cuts().1;
        if place != fullest {
            best.try_cuts(problem.allowed, place);
        }
        let others_first = copies && !problem.is_rough && problem.trace.ops.len() > others::LONG;
        if others_first {
            best.try_methods();
            if best.is_within(least.0) {
                return Ok(best.take());
            }
        }
        best.search_sequences(problem.allowed, place);
        if !best.is_within(least.0) {
            best.try_less();
        }
        // A rough plan is told from others by what the search finds.
        let enough = if problem.is_rough { u64::MAX } else { least.0 };
        // On long traces, what others take would be most of what it does.
        let is_quick = problem.is_rough && problem.trace.ops.len() > course::LONG;
        if !others_first && !is_quick && !best.is_within(enough) {
            best.try_methods();
        }
        if let Some(found) = some(best.take_whatever_fits()) {
            return Ok(found);
        }
        if !monitor.proceed(Progress { phase: "nothing fits", done: 1, of: 1 }) {
            return Err(PlanError::Interrupted);
        }
        // What fits has been handed on, whether it has addresses or not.
        let Err(cause) = first else { return Err(PlanError::Interrupted) };
        Err(best.nearest(PlanError::from_infeasible(cause, problem.budget)))
    }

    fn moves_state(&self) -> bool {
        true
    }

    fn targets(&self) -> &'static [u64] {
        &[1000, 900, 800]
    }
}
