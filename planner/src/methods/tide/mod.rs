//! `tide`: keep, swap, recompute and compress, decided together.

mod anneal;
pub(super) mod options;

use rayon::prelude::*;
use schema::Bytes;
use simulator::{Policy, Treatment};

use crate::decide::{lower_where_it_fits, share};
use crate::methods::Method;
use crate::{Decided, PlanError, Problem, Progress, Watch};
use anneal::{Chain, Found, Settled};
use options::Options;

/// Our own method. All gaps that matter are decided about together, each with any treatment that
/// is allowed, any codec included.
///
/// 1. The [relaxation](crate::relax) is solved once. It says what a plan with fractions of tensors
///    would do, what a byte of memory is worth, and what no plan can beat. Rounded, it is a plan
///    that needs a little too much memory or waits a little for the link.
/// 2. From there, several chains of simulated annealing (Kirkpatrick et al., 1983) change one to
///    three treatments at a time. What is judged is the evaluator's iteration time, exact with all
///    stalls, and where memory does not suffice the excess at its price from the relaxation. The
///    price rises while everything tried is too large and falls while everything fits (strategic
///    oscillation, Glover 1977), so that the search walks along the edge of what fits.
///
/// A search ends when its evaluations are used up or its plan is within 0.01 % of the bound. Chains
/// are independent and their seeds fixed: the same problem gives the same plan on any number of
/// threads.
pub struct Tide;

/// Chains: the seed, and the temperature at which each begins, in millionths of the iteration.
const CHAINS: [(u64, f64); 4] = [(1, 300.0), (2, 1000.0), (3, 1000.0), (4, 4000.0)];

/// Of what a search has found, so many of the best are tried until one can be packed.
const TRIED: usize = 4;

/// If none can, shares of the memory, in thousandths, for which the search goes on.
const ROOMS: [u64; 5] = [990, 978, 965, 945, 920];

/// It does not, where a plan is slower than the search's best by no more than this part.
const GOOD_ENOUGH: u64 = 2000;

/// Part of a search's evaluations that it may make then.
const REPAIR: u64 = 8;

impl Method for Tide {
    fn name(&self) -> &'static str {
        "tide"
    }

    fn summary(&self) -> &'static str {
        "all decisions together, by annealing from a relaxation whose bound it approaches"
    }

    fn source(&self) -> &'static str {
        "tidegate"
    }

    fn decide(
        &self,
        problem: &Problem,
        target: Bytes,
        watch: &dyn Watch,
    ) -> Result<Decided, PlanError> {
        let relaxation = problem.relaxation();
        if !watch.go_on(Progress { phase: "relaxed", done: 1, of: 1 }) {
            return Err(PlanError::Interrupted);
        }
        let options = Options::new(problem, relaxation);
        let start = options.rounded(problem, relaxation);
        let run = |(seed, heat): &(u64, f64)| {
            let chain = Chain::new(problem, target, relaxation, start.clone());
            chain.run(&options, *seed, *heat, watch)
        };
        // Threads that nobody asked for would slow each other down; each chain is deterministic.
        let settled: Vec<Settled> = CHAINS.par_iter().map(run).collect();
        if settled.iter().any(|settled| settled.interrupted) {
            return Err(PlanError::Interrupted);
        }
        let mut found: Vec<Found> = settled.into_iter().flat_map(|chain| chain.found).collect();
        // Stable: of equals, the first chain's comes first.
        found.sort_by_key(|(time, _)| *time);
        let Some((shortest, best)) = found.first().cloned() else {
            return Err(nothing_fits(problem, target, &start));
        };
        let decided = |treatments| {
            let considered = options.gaps();
            Decided {
                treatments,
                policy: Policy::EARLY,
                considered,
                steps: None,
                as_recorded: false,
            }
        };
        // What fits byte for byte need not fit address for address. Then less memory is used until
        // it does, which takes time; the search goes on from its best for a little less memory.
        let mut packed: Option<(u64, Decided)> = None;
        for room in ROOMS {
            for (time, treatments) in found.drain(..).take(TRIED) {
                if packed.as_ref().is_some_and(|(best, _)| *best <= time) {
                    break;
                }
                let decided = decided(treatments);
                let Ok(plan) = lower_where_it_fits(problem, target, &decided) else { continue };
                let time = plan.predicted.iteration.0;
                if packed.as_ref().is_none_or(|(best, _)| time < *best) {
                    packed = Some((time, decided));
                }
            }
            let good = |(time, _): &(u64, Decided)| *time <= shortest + shortest / GOOD_ENOUGH;
            if packed.as_ref().is_some_and(good) {
                break;
            }
            let target = share(target, room);
            let chain = Chain::new(problem, target, relaxation, best.clone()).shorter(REPAIR);
            found = chain.run(&options, room, 1000.0, watch).found;
            found.reverse();
        }
        Ok(packed.map_or_else(|| decided(best), |(_, decided)| decided))
    }

    fn targets(&self) -> &'static [u64] {
        &[1000, 900, 800]
    }
}

/// What the start would need, for a person who has to find more memory.
fn nothing_fits(problem: &Problem, target: Bytes, start: &[Treatment]) -> PlanError {
    match problem.evaluator(Policy::EARLY, target).evaluate(start) {
        Err(cause) => PlanError::from_infeasible(cause, problem.budget),
        Ok(_) => unreachable!("a start that fits is a plan"),
    }
}
