//! `tide`: keep, swap, recompute and compress, decided together.

mod anneal;
mod moves;
pub(super) mod options;
mod others;
mod packed;
mod quick;
mod sequences;

use rayon::prelude::*;
use schema::Bytes;
use simulator::Treatment;

use crate::fit::share;
use crate::method::{About, Method};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result, bound};
use anneal::{Chain, Found, Known};
use options::{Options, policy};
use packed::{Packed, decided};

/// Our own method: keep, swap, recompute and compress, decided together.
///
/// 1. A first plan is the [minimum cut](crate::bound) of the fullest op, carried out as it stands,
///    copies and reruns as late as can be. Where that does not fit, what is cheapest per byte is
///    given up where memory is fullest (`quick.rs`). It is there in milliseconds.
/// 2. Where nothing is compressed, a search over sequences of runs (`runs.rs`) begins from what cuts
///    hold, from what DTR runs again and from nothing, ruins a little and repairs it, again and again.
///    A copy in stands in the sequence like a rerun, so that a plan may hold dead tensors, share
///    reruns, drop twice and copy in between, which one treatment per gap cannot say. With copies,
///    what is judged is the evaluator's iteration time, exact with all stalls.
/// 3. Where codecs may be used, several chains of simulated annealing (Kirkpatrick et al., 1983)
///    change one to three treatments of gaps at a time, from the [relaxation](crate::relax), rounded.
///    Where memory does not suffice, the excess has its price from the relaxation. The price rises
///    while everything tried is too large and falls while everything fits (strategic oscillation,
///    Glover 1977). Sequences without codecs are tried at the end. On short traces, a little of this is
///    done without codecs, too.
/// 4. What other methods decide that take little time is tried last (`others.rs`).
///
/// A search ends when its evaluations or its work are used up or its plan is as fast as the bound.
/// Chains are independent and their seeds fixed: the same problem gives the same plan on any number
/// of threads. Told to stop, the search ends with the best plan that it has. The plan's settings say
/// where it is from.
pub struct Tide;

/// Chains: the seed, and the temperature at which each begins, in millionths of the iteration. The
/// relaxation's plan is near the best on long traces, so that most begin cold.
const CHAINS: [(u64, f64); 4] = [(1, 10.0), (2, 50.0), (3, 300.0), (4, 4000.0)];

/// Part of a search's evaluations that go into the first plan while the relaxation is solved.
const EARLY: u64 = 4;

/// If none can, shares of the memory, in thousandths, for which the search goes on.
const ROOMS: [[u64; 2]; 4] = [[998, 994], [985, 970], [950, 925], [900, 860]];

/// It does not, where a plan is slower than the search's best by no more than this part.
const GOOD_ENOUGH: u64 = 2000;

/// Part of a search's evaluations that it may make then.
const REPAIR: u64 = 4;

/// Traces of at most so many ops are annealed where something may be copied, too, which takes little
/// time there.
const ANNEALED_OPS: usize = 1000;

/// Part of a search's evaluations that annealing makes beside sequences, where that is not too few.
const BESIDE: u64 = 8;

/// So many are not too few.
const FEWEST: u64 = 10_000;

impl Method for Tide {
    fn about(&self) -> About {
        About {
            name: "tide",
            summary: "all decisions together, by a search over sequences of runs from minimum cuts",
            source: "tidegate",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        let options = Options::new(problem, target);
        let mut best = Packed::new(problem, target, &options, monitor);
        let fullest = best.fullest();
        best.try_cuts(problem.allowed, fullest);
        let anneals = problem.allowed.swap && problem.trace.ops.len() <= ANNEALED_OPS;
        let copies = problem.allowed.swap || problem.allowed.compress;
        if copies && !anneals && problem.allowed.recompute && !best.is_within(u64::MAX) {
            // With copies they seldom fit as they stand.
            let alone = Allowed { swap: false, recompute: true, compress: false };
            best.try_cuts(alone, fullest);
        }
        // Where cuts are no plan, or codecs may help, what is cheapest per byte is given up.
        let quick = match problem.allowed.compress || !best.is_within(u64::MAX) {
            true => best.first(),
            false => None,
        };
        // What is as fast as a bound that takes no time to find needs no search.
        let least = bound(problem).time().unwrap_or_default();
        if best.is_within(least.0)
            && let Some(decided) = best.take()
        {
            return Ok(decided);
        }
        if !monitor.proceed(Progress { phase: "first plan", done: 1, of: 1 }) {
            return best.take().ok_or(PlanError::Interrupted);
        }
        if !problem.allowed.compress {
            let place = problem.cuts().1;
            if place != fullest {
                best.try_cuts(problem.allowed, place);
            }
            best.search_sequences(problem.allowed, place, 1);
            if !anneals && !best.is_within(least.0) {
                best.try_others();
            }
            if (!anneals || best.is_within(least.0))
                && let Some(decided) = best.take()
            {
                return Ok(decided);
            }
        }
        let beside = (problem.limits.evaluations / FEWEST).clamp(1, BESIDE);
        let shorter = if problem.allowed.compress { 1 } else { beside };
        let chain = |options: &Options, known, start: &[Treatment], part, (seed, heat)| {
            let chain = Chain::new(problem, target, known, start.to_vec()).shorter(part * shorter);
            chain.run(options, seed, heat, monitor)
        };
        // While one core solves the relaxation, the other one works on the first plan.
        let guess = Known::guess(problem);
        let (relaxation, mut found): (_, Vec<Found>) = rayon::join(
            || problem.relaxation(),
            || {
                quick
                    .iter()
                    .flat_map(|(_, first)| chain(&options, guess, first, EARLY, (0, 300.0)))
                    .collect()
            },
        );
        best.pack(latest(found.clone()));
        let stops = !monitor.proceed(Progress { phase: "relaxed", done: 1, of: 1 });
        if (stops || best.is_within(least.0))
            && let Some(decided) = best.take()
        {
            return Ok(decided);
        }
        let elsewhere = quick.as_ref().map(|(_, treatments)| treatments.as_slice());
        let start = options.rounded(problem, relaxation, elsewhere);
        let mut options = options.clone();
        options.look_at_unsure(relaxation);
        let known = Known::new(least, relaxation);
        // Threads that nobody asked for would slow each other down; each chain is deterministic.
        let chains = CHAINS.par_iter().map(|drawn| chain(&options, known, &start, 1, *drawn));
        found.extend(chains.collect::<Vec<_>>().concat());
        // Stable: of equals, the first chain's comes first.
        found.sort_by_key(|(time, _)| *time);
        let fastest = found.first().cloned();
        best.pack(found.into_iter());
        if let Some((shortest, fastest)) = &fastest {
            // What fits byte for byte need not fit address for address. Then less memory is used
            // until it does, which takes time; the search goes on from its best for a little less.
            let good_enough = shortest + shortest / GOOD_ENOUGH;
            for rooms in ROOMS {
                let done = Progress { phase: "addresses", done: 1000 - rooms[0], of: 1000 };
                if best.is_within(good_enough) || !monitor.proceed(done) {
                    break;
                }
                let chains = rooms.par_iter().map(|room| {
                    let chain = Chain::new(problem, share(target, *room), known, fastest.clone());
                    chain.shorter(REPAIR * shorter).run(&options, *room, 1000.0, monitor)
                });
                let found: Vec<Found> = chains.collect::<Vec<_>>().concat();
                best.pack(latest(found));
            }
        }
        if !best.is_within(least.0) {
            best.try_others();
        }
        match (best.take(), fastest) {
            (Some(decided), _) => Ok(decided),
            (None, Some((_, fastest))) => Ok(decided(problem, &options, fastest)),
            (None, None) => Err(nothing_fits(problem, target, &start, monitor)),
        }
    }

    fn targets(&self) -> &'static [u64] {
        &[1000, 900, 800]
    }
}

/// What a chain has found, the best first.
fn latest(mut found: Vec<Found>) -> impl Iterator<Item = Found> {
    found.sort_by_key(|(time, _)| *time);
    found.into_iter()
}

/// Why there is no plan: what the start would need, for a person who has to find more memory.
fn nothing_fits(
    problem: &Problem,
    target: Bytes,
    start: &[Treatment],
    monitor: &dyn Monitor,
) -> PlanError {
    if !monitor.proceed(Progress { phase: "nothing fits", done: 1, of: 1 }) {
        return PlanError::Interrupted;
    }
    match problem.evaluator(policy(problem), target).evaluate(start) {
        Err(cause) => PlanError::from_infeasible(cause, problem.budget),
        Ok(_) => unreachable!("a start that fits is a plan"),
    }
}
