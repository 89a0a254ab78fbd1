//! The prices that prove most, found by planes above what they prove (Kelley 1960), with each next price halfway
//! between what the planes say and the best so far.

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem as Programme};
use schema::Nanos;

use super::linear::{COMPUTE, Cost, LANES, PRICES, Prices, lane, memory};
use super::priced::Priced;

/// Prices that are tried at most, and fewer where these look at more tensors.
const TRIES: usize = 120;
const LOOKED_AT: usize = 2_000_000;

/// What sums of numbers may be off by, as a part of what is summed.
const OFF: f64 = 1e-9;

/// Times are no longer than so many times what all ops take, as far as is looked.
const MOST: f64 = 1e6;

/// It ends where no prices prove more than so much more.
const NEAR: f64 = 3e-4;

/// Memory costs no more than so many copies of it.
const DEAR: f64 = 3.0;

/// The most that any prices prove that were tried.
pub(super) fn most(priced: &Priced) -> Nanos {
    let stretches = priced.stretches();
    let mut best: Prices = [0.0; PRICES];
    (0..stretches).for_each(|stretch| best[lane(stretch, COMPUTE)] = 1.0);
    let mut programme = Programme::new(OptimizationDirection::Maximize);
    let time = programme.add_var(1.0, (0.0, MOST));
    let mut of = Vec::new();
    for stretch in 0..stretches {
        let lanes: Vec<_> = (0..LANES).map(|_| programme.add_var(0.0, (0.0, 1.0))).collect();
        let mut sum = LinearExpr::empty();
        lanes.iter().for_each(|lane| sum.add(*lane, 1.0));
        programme.add_constraint(sum, ComparisonOp::Le, 1.0);
        of.extend(lanes.into_iter().enumerate().map(|(l, variable)| (lane(stretch, l), variable)));
        of.push((memory(stretch), programme.add_var(0.0, (0.0, DEAR * priced.copied()))));
    }
    let mut most = 0.0;
    let mut next = best;
    for _ in 0..(LOOKED_AT / priced.tensors().max(1)).min(TRIES) {
        let Cost { of: slope, sum } = priced.least(&next);
        let sum = sum - OFF * (sum.abs() + priced.paid_for_memory(&next));
        if sum > most {
            (most, best) = (sum, next);
        }
        let mut plane = LinearExpr::empty();
        plane.add(time, 1.0);
        of.iter().for_each(|(index, variable)| plane.add(*variable, -slope[*index]));
        programme.add_constraint(plane, ComparisonOp::Le, 0.0);
        let Some(solution) = programme.solve().ok().and_then(|out| out.into_solution().ok()) else {
            break;
        };
        if solution.var_value_raw(time) - most <= NEAR * most {
            break;
        }
        for (index, variable) in &of {
            next[*index] = (best[*index] + solution.var_value_raw(*variable).max(0.0)) / 2.0;
        }
        for stretch in 0..stretches {
            let lanes = (0..LANES).map(|l| lane(stretch, l));
            let sum: f64 = lanes.clone().map(|index| next[index]).sum();
            lanes.for_each(|index| next[index] /= sum.max(1.0));
        }
    }
    // What is no number is none.
    Nanos((most * priced.time()) as u64).min(Nanos::MOST)
}
