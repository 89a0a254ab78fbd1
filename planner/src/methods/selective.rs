//! Selective activation checkpointing by a knapsack.

use schema::{Bytes, TensorId};
use simulator::{GapId, Policy, Treatment};

use crate::method::{About, Fastest, Method, needs_recompute};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result};

/// Selective activation checkpointing as PyTorch's partitioner chooses it under a memory budget
/// (`torch._functorch`, `activation_memory_budget` with the solver `dp`): which of the activations
/// that can be recomputed are saved is a 0-1 knapsack, an item's weight being its bytes and its
/// value the time of the op that makes it. Weights are rounded to ten thousandths of all of them,
/// and a dynamic programme solves it exactly. What is not saved is recomputed.
///
/// There the budget is a share of the activations that the user states; here all shares in whole
/// percents are tried, and the fastest plan that fits counts. (A smaller share need not take less
/// memory: what long recomputations bring back has to be somewhere, too.) An op with several
/// outputs counts its time for each of them, as there, where such an op's outputs are items of
/// their own.
pub struct Selective;

/// Parts of all activations in which weights and budgets are counted.
const PARTS: usize = 10_000;

/// Budgets that are tried, beside none.
const STEPS: u64 = 100;

impl Method for Selective {
    fn about(&self) -> About {
        About {
            name: "selective",
            summary: "save the activations that are dearest to recompute, by a knapsack",
            source: "PyTorch's partitioner (torch._functorch, activation_memory_budget)",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        needs_recompute(problem)?;
        let items: Vec<GapId> = problem
            .feature_maps
            .iter()
            .copied()
            .filter(|gap| problem.may_recompute(*gap))
            .collect();
        let gaps = problem.model.gaps();
        let bytes: Vec<u64> = items.iter().map(|gap| gaps[*gap].bytes.0).collect();
        let time: Vec<u64> =
            items.iter().map(|gap| time_again(problem, gaps[*gap].tensor)).collect();
        let knapsack = Knapsack::solve(&bytes, &time);
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let mut fastest = Fastest::new();
        for step in (0..=STEPS).rev() {
            let progress = Progress { phase: "knapsack", done: STEPS - step, of: STEPS };
            if !monitor.proceed(progress) {
                return Err(PlanError::Interrupted);
            }
            let mut treatments = problem.keep_all();
            let capacity = PARTS * step as usize / STEPS as usize;
            for (gap, saved) in items.iter().zip(knapsack.saved(capacity)) {
                if !saved {
                    treatments[*gap] = Treatment::Recompute;
                }
            }
            fastest.tried(evaluator.evaluate(&treatments), treatments);
        }
        let treatments = fastest.found(problem)?;
        Ok(Decided::about_feature_maps(problem, treatments, Policy::EARLY))
    }

    fn uses(&self) -> Allowed {
        Allowed::RERUNS
    }
}

fn time_again(problem: &Problem, tensor: TensorId) -> u64 {
    let op = problem.model.producer(tensor).map(|op| &problem.trace.ops[op.index()]);
    op.map_or(0, |op| op.recompute.unwrap_or(op.duration).0)
}

/// The solved knapsack, for every capacity.
struct Knapsack {
    weights: Vec<usize>,
    /// For each item and capacity, whether the best choice among it and those before takes it.
    takes: Vec<Vec<bool>>,
}

impl Knapsack {
    fn solve(bytes: &[u64], values: &[u64]) -> Self {
        let total: u128 = bytes.iter().map(|b| u128::from(*b)).sum::<u128>().max(1);
        let rounded = |b: &u64| ((u128::from(*b) * PARTS as u128 + total / 2) / total) as usize;
        let weights: Vec<usize> = bytes.iter().map(rounded).collect();
        let mut best = vec![0u64; PARTS + 1];
        let mut takes = Vec::with_capacity(weights.len());
        for (weight, value) in weights.iter().zip(values) {
            let mut taken = vec![false; PARTS + 1];
            for capacity in (*weight..=PARTS).rev() {
                let with = best[capacity - weight] + value;
                if with > best[capacity] || *weight == 0 {
                    best[capacity] = with;
                    taken[capacity] = true;
                }
            }
            takes.push(taken);
        }
        Self { weights, takes }
    }

    /// Which items the best choice for a capacity takes.
    fn saved(&self, mut capacity: usize) -> Vec<bool> {
        let mut saved = vec![false; self.weights.len()];
        for item in (0..self.weights.len()).rev() {
            if self.takes[item][capacity] {
                saved[item] = true;
                capacity -= self.weights[item];
            }
        }
        saved
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Sizes that are whole parts, so that nothing is rounded: the best of all subsets.
        #[test]
        fn no_subset_that_fits_is_worth_more(
            items in prop::collection::vec((1u64..40, 0u64..1000), 1..10),
            capacity in 0u64..200,
        ) {
            let filler = PARTS as u64 - items.iter().map(|(weight, _)| weight).sum::<u64>();
            let (mut bytes, mut values): (Vec<u64>, Vec<u64>) = items.iter().copied().unzip();
            bytes.push(filler);
            values.push(0);
            let saved = Knapsack::solve(&bytes, &values).saved(capacity as usize);
            let sum = |of: &[u64], taken: &dyn Fn(usize) -> bool| -> u64 {
                of.iter().enumerate().filter(|(i, _)| taken(*i)).map(|(_, x)| x).sum()
            };
            prop_assert!(sum(&bytes, &|i| saved[i]) <= capacity);
            let best = (0u32..1 << items.len())
                .filter(|set| sum(&bytes, &|i| set >> i & 1 == 1) <= capacity)
                .map(|set| sum(&values, &|i| set >> i & 1 == 1))
                .max();
            prop_assert_eq!(Some(sum(&values, &|i| saved[i])), best);
        }
    }
}
