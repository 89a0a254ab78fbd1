//! One chain of simulated annealing over treatments.

use schema::Bytes;
use simulator::{Evaluator, GapId, Policy, Treatment};

use crate::split_mix::SplitMix;
use crate::{Problem, Progress, Relaxation, Watch};

use super::options::Options;

/// Treatments changed at a time: mostly one or two.
const CHANGES: [usize; 5] = [1, 1, 2, 2, 3];

/// Evaluations between two looks at the price of memory and at whoever waits.
const ROUND: u64 = 64;

/// A search ends when it is within this share of the bound, in millionths.
const CLOSE_ENOUGH: u64 = 100;

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

/// What a chain ended with.
pub(super) struct Settled {
    /// Its latest improvements, the best last.
    pub found: Vec<Found>,
    pub interrupted: bool,
}

/// Time of the iteration, and by how much memory is exceeded.
#[derive(Debug, Clone, Copy)]
struct Cost {
    time: f64,
    excess: f64,
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

impl<'a> Chain<'a> {
    pub fn new(
        problem: &'a Problem,
        target: Bytes,
        relaxation: &Relaxation,
        treatments: Vec<Treatment>,
    ) -> Self {
        let total = problem.trace.total_time().0 as f64;
        // Where the relaxation sees no need for memory, a gigabyte is worth a ten-thousandth.
        let price = 1.5 * relaxation.price.max(total * 1e-4 / 1e9);
        Self {
            evaluator: problem.evaluator(Policy::EARLY, target),
            treatments,
            found: Vec::with_capacity(REMEMBERED),
            evaluations: problem.evaluations(),
            bound: relaxation.time.0,
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

    /// Anneals from `heat` millionths of the iteration down to nothing.
    pub fn run(mut self, options: &Options, seed: u64, heat: f64, watch: &dyn Watch) -> Settled {
        let mut random = SplitMix::new(seed);
        let mut current = self.evaluate();
        let (mut temperature, mut fitting) = (0.0, 0);
        let close_enough = self.bound + self.bound / 1_000_000 * CLOSE_ENOUGH;
        let mut undo: Vec<(GapId, Treatment)> = Vec::with_capacity(CHANGES.len());
        for evaluation in 0..self.evaluations {
            let close = self.found.last().is_some_and(|(time, _)| *time <= close_enough);
            let hopeless = self.found.is_empty() && self.price > HOPELESS * self.least_price;
            if close || hopeless || options.is_empty() {
                break;
            }
            if evaluation % ROUND == 0 {
                let progress =
                    Progress { phase: "annealing", done: evaluation, of: self.evaluations };
                if !watch.go_on(progress) {
                    return Settled { found: Vec::new(), interrupted: true };
                }
                let left = 1.0 - evaluation as f64 / self.evaluations as f64;
                temperature = heat * 1e-6 * self.total * left.powi(3) + 1.0;
                if evaluation > 0 {
                    self.adapt_price(fitting);
                }
                fitting = 0;
            }
            undo.clear();
            let changes = CHANGES[random.below(CHANGES.len() as u64) as usize];
            for _ in 0..changes {
                let (gap, treatment) = options.draw(&mut random);
                undo.push((gap, std::mem::replace(&mut self.treatments[gap], treatment)));
            }
            let next = self.evaluate();
            let worse = next.time - current.time + self.price * (next.excess - current.excess);
            if worse <= 0.0 || random.unit() < (-worse / temperature).exp() {
                current = next;
            } else {
                while let Some((gap, treatment)) = undo.pop() {
                    self.treatments[gap] = treatment;
                }
            }
            fitting += u64::from(current.excess == 0.0);
        }
        Settled { found: self.found, interrupted: false }
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
