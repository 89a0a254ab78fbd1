//! Simulated annealing over treatments (Kirkpatrick et al., 1983), for short traces.
//!
//! Several chains change one to three treatments of gaps at a time, beginning with what is cheapest
//! per byte. Where memory does not suffice, the excess has a price, which rises while everything tried
//! is too large and falls while everything fits (strategic oscillation, Glover 1977). Where little
//! fits and copies cross each other, that still finds plans which sequences of runs do not.

use rayon::prelude::*;
use schema::{Bytes, Nanos};
use simulator::{Cutoff, Evaluator, GapId, Treatment};

use super::options::{Options, policy};
use super::packed::Packed;
use super::{moves, quick};
use crate::fit::share;
use crate::split_mix::SplitMix;
use crate::{Monitor, Problem, Progress};

/// Evaluations between two looks at the price of memory and at whoever waits.
const ROUND: u64 = 64;

/// Chains: the seed, and the temperature at which each begins, in millionths of the iteration.
const CHAINS: [(u64, f64); 4] = [(1, 10.0), (2, 50.0), (3, 300.0), (4, 4000.0)];

/// If none of their plans has addresses, shares of the memory, in thousandths, for which is searched.
const ROOMS: [[u64; 2]; 4] = [[998, 994], [985, 970], [950, 925], [900, 860]];

/// It is not, where a plan is slower than the best found by no more than this part.
const GOOD_ENOUGH: u64 = 2000;

/// Part of a chain's evaluations that it may make then.
const REPAIR: u64 = 4;

/// Part of a search's evaluations that a chain makes, where that is not too few.
const BESIDE: u64 = 8;

/// So many are not too few.
const FEWEST: u64 = 10_000;

/// A chain may always evaluate so many ops, which takes milliseconds, however few evaluations the limits
/// allow.
const CHEAP: u64 = 100_000;

/// Weight of the mean excess over all positions beside the largest: while the peak is the same,
/// fewer and smaller peaks are better.
const MEAN_EXCESS: f64 = 4.0;

/// A search that has found nothing ends when the price of memory has risen by this.
const HOPELESS: f64 = 1e10;

/// Improvements that a chain remembers: the best fits byte for byte and may still not fit address
/// for address.
const REMEMBERED: usize = 6;

/// Treatments that fit: their iteration in nanoseconds, and what they are.
pub(super) type Found = (u64, Vec<Treatment>);

/// Time of the iteration, and by how much memory is exceeded.
#[derive(Debug, Clone, Copy)]
struct Cost {
    time: f64,
    excess: f64,
}

impl Cost {
    /// Time, with memory at a price.
    fn at(self, price: f64) -> f64 {
        self.time + price * self.excess
    }
}

/// A chain: where it is and what it has found.
pub(super) struct Chain<'a> {
    evaluator: Evaluator<'a>,
    treatments: Vec<Treatment>,
    found: Vec<Found>,
    evaluations: u64,
    /// No plan is faster.
    bound: u64,
    /// Nanoseconds per byte of excess: where it starts, and the least that it falls to.
    price: f64,
    least_price: f64,
    /// Stands for the cost of what cannot be carried out at all.
    worst: Cost,
    total: f64,
}

impl Packed<'_> {
    /// Searches over treatments of gaps.
    pub fn anneal(&mut self, bound: Nanos) {
        let (problem, target, options) = (self.problem, self.target, self.options);
        let start = quick::start(problem, target, options).unwrap_or_else(|_| problem.keep_all());
        let shorter = (problem.limits.evaluations / FEWEST).clamp(1, BESIDE);
        let monitor = self.monitor;
        // Threads that nobody asked for would slow each other down; each chain is deterministic.
        let chains = CHAINS.par_iter().map(|(seed, heat)| {
            let chain = Chain::new(problem, target, bound, start.clone());
            chain.shorter(shorter).run(options, *seed, *heat, monitor)
        });
        let Some((shortest, fastest)) = self.pack(chains.collect::<Vec<_>>().concat()) else {
            return;
        };
        // What fits byte for byte need not fit address for address. Then less memory is used until
        // it does, which takes time; the search goes on from its best for a little less.
        for rooms in ROOMS {
            let done = Progress { phase: "addresses", done: 1000 - rooms[0], of: 1000 };
            if self.is_within(shortest + shortest / GOOD_ENOUGH) || !monitor.proceed(done) {
                return;
            }
            let chains = rooms.par_iter().map(|room| {
                let chain = Chain::new(problem, share(target, *room), bound, fastest.clone());
                chain.shorter(REPAIR * shorter).run(options, *room, 1000.0, monitor)
            });
            self.pack(chains.collect::<Vec<_>>().concat());
        }
    }
}

impl<'a> Chain<'a> {
    pub fn new(
        problem: &'a Problem,
        target: Bytes,
        bound: Nanos,
        treatments: Vec<Treatment>,
    ) -> Self {
        let total = problem.trace.total_time().0 as f64;
        // All memory is worth a part of the time.
        let price = 0.15 * total / problem.budget.0.max(1) as f64;
        Self {
            evaluator: problem.evaluator(policy(problem), target),
            treatments,
            found: Vec::with_capacity(REMEMBERED),
            evaluations: problem.evaluations().max(CHEAP / problem.trace.ops.len().max(1) as u64),
            bound: bound.0,
            price,
            least_price: 0.3 * price,
            worst: Cost { time: 5.0 * total, excess: 50.0 * problem.budget.0 as f64 },
            total,
        }
    }

    /// The chain with a part of the evaluations.
    pub fn shorter(mut self, part: u64) -> Self {
        self.evaluations = (self.evaluations / part).max(1);
        self
    }

    /// Anneals from `heat` millionths of the iteration down to nothing, or until it is told to
    /// stop. Returns its latest improvements, the best last.
    pub fn run(
        mut self,
        options: &Options,
        seed: u64,
        heat: f64,
        monitor: &dyn Monitor,
    ) -> Vec<Found> {
        let mut random = SplitMix::new(seed);
        let mut current = self.evaluate();
        let (mut temperature, mut fitting) = (0.0, 0);
        let mut undo: Vec<(GapId, Treatment)> = Vec::with_capacity(moves::MOST);
        for evaluation in 0..self.evaluations {
            let best = self.found.last().is_some_and(|(time, _)| *time <= self.bound);
            let hopeless = self.found.is_empty() && self.price > HOPELESS * self.least_price;
            if best || hopeless || options.is_empty() {
                break;
            }
            if evaluation % ROUND == 0 {
                let progress =
                    Progress { phase: "annealing", done: evaluation, of: self.evaluations };
                if !monitor.proceed(progress) {
                    break;
                }
                let left = 1.0 - evaluation as f64 / self.evaluations as f64;
                temperature = heat * 1e-6 * self.total * left.powi(3) + 1.0;
                if evaluation > 0 {
                    self.adapt_price(fitting);
                }
                fitting = 0;
            }
            undo.clear();
            moves::change(options, &mut random, &mut self.treatments, &mut undo);
            // Metropolis' rule, drawn before, so that what will be refused need not be evaluated
            // to its end.
            let limit = current.at(self.price) - temperature * (1.0 - random.unit()).ln();
            let best = self.found.last().map_or(0.0, |(time, _)| *time as f64);
            self.evaluator.set_cutoff(Cutoff {
                limit: limit.max(best) - self.total,
                price: self.price,
                budget: self.evaluator.budget().0,
            });
            let next = self.evaluate();
            if next.at(self.price) <= limit {
                current = next;
            } else {
                while let Some((gap, treatment)) = undo.pop() {
                    self.treatments[gap] = treatment;
                }
            }
            fitting += u64::from(current.excess == 0.0);
        }
        self.found
    }

    fn adapt_price(&mut self, fitting: u64) {
        if fitting == 0 {
            self.price *= 1.25;
        } else if fitting > ROUND / 2 {
            self.price = (self.price * 0.9).max(self.least_price);
        }
    }

    fn evaluate(&mut self) -> Cost {
        let Ok((outcome, excess)) = self.evaluator.evaluate_beyond(&self.treatments) else {
            return self.worst;
        };
        let time = outcome.iteration.0;
        if excess > Bytes::ZERO {
            let mean = self.evaluator.mean_excess().0 as f64;
            return Cost { time: time as f64, excess: excess.0 as f64 + MEAN_EXCESS * mean };
        }
        if self.found.last().is_none_or(|(best, _)| time < *best) {
            self.remember(time);
        }
        Cost { time: time as f64, excess: 0.0 }
    }

    fn remember(&mut self, time: u64) {
        if self.found.len() < REMEMBERED {
            self.found.push((time, self.treatments.clone()));
            return;
        }
        self.found.rotate_left(1);
        if let Some((best, treatments)) = self.found.last_mut() {
            *best = time;
            treatments.clone_from(&self.treatments);
        }
    }
}
