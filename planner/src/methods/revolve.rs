//! Binomial checkpointing.

use schema::Bytes;
use simulator::Policy;

use crate::method::{About, Method, needs_recompute};
use crate::methods::chain::{Chain, ChainOp, Keep, carry_out};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Result};

/// `revolve` (Griewank and Walther, Algorithm 799, ACM TOMS 2000): a chain of `l` stages is
/// reversed with `c` checkpoints, the chain's input being the first, by as few forward runs of
/// stages as possible. With `beta(c, r) = (c+r choose c)` and the smallest `r` for which
/// `beta(c, r) >= l`, these are
///
/// > t(l, c) = r l - beta(c + 1, r - 1)
///
/// beside the one forward run of each stage that directly precedes its backward run. The chain is
/// split where both parts together need that many: after `j` stages a checkpoint is set, the `l-j`
/// stages behind it are reversed with `c-1` checkpoints, then the `j` stages with `c`.
///
/// All stages count alike, as in the paper. It knows no bytes; there are as many checkpoints as
/// make a schedule that fits.
pub struct Revolve;

impl Method for Revolve {
    fn about(&self) -> About {
        About {
            name: "revolve",
            summary: "recompute from binomially placed checkpoints, as if all stages were alike",
            source: "Algorithm 799: revolve (Griewank and Walther, ACM TOMS 2000)",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_recompute(problem)?;
        let chain = Chain::of(problem)?;
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let none = vec![false; chain.len()];
        let mut best = None;
        let mut failure = None;
        // More checkpoints, more memory, less time: the most that fit.
        let (mut fit, mut too_many) = (0, chain.len() + 1);
        while too_many - fit > 1 {
            let checkpoints = if best.is_none() { 1.max(fit) } else { fit + (too_many - fit) / 2 };
            let steps = carry_out(problem, &chain, &schedule(chain.len(), checkpoints), &none);
            match evaluator.evaluate_steps(&steps) {
                Ok(_) => {
                    best = Some(steps);
                    fit = checkpoints;
                }
                Err(cause) => {
                    failure.get_or_insert(cause);
                    too_many = checkpoints;
                }
            }
        }
        match (best, failure) {
            (Some(steps), _) => Ok(Decided::from_steps(problem, steps, Policy::EARLY)),
            (None, Some(cause)) => Err(PlanError::from_infeasible(cause, problem.budget)),
            (None, None) => unreachable!("one checkpoint was tried"),
        }
    }

    fn uses(&self) -> Allowed {
        Allowed::RERUNS
    }
}

/// Reverses a chain with so many checkpoints, its input included.
pub(super) fn schedule(stages: usize, checkpoints: usize) -> Vec<ChainOp> {
    let mut operations = Vec::new();
    reverse(0, stages, checkpoints, &mut operations);
    operations
}

/// Reverses the stages from `begin` to before `end`. The input is a checkpoint already.
fn reverse(begin: usize, end: usize, checkpoints: usize, operations: &mut Vec<ChainOp>) {
    let length = end - begin;
    if length == 1 {
        operations.push(ChainOp::Forward { stage: begin, keep: Keep::All });
        operations.push(ChainOp::Backward { stage: begin });
        return;
    }
    let ahead = if checkpoints == 1 { length - 1 } else { split(length, checkpoints) };
    for stage in begin..begin + ahead {
        let keep = if stage == begin { Keep::InputAndOutput } else { Keep::Output };
        operations.push(ChainOp::Forward { stage, keep });
    }
    reverse(begin + ahead, end, (checkpoints - 1).max(1), operations);
    reverse(begin, begin + ahead, checkpoints, operations);
}

/// After how many stages the next checkpoint is set: the fewest of those that are optimal.
fn split(length: usize, checkpoints: usize) -> usize {
    let wanted = forward_runs(length, checkpoints);
    let needs = |ahead: &usize| {
        *ahead as u64
            + forward_runs(length - ahead, checkpoints - 1)
            + forward_runs(*ahead, checkpoints)
    };
    (1..length).find(|ahead| needs(ahead) == wanted).expect("t(l, c) is attained by some split")
}

/// `t(l, c)`.
fn forward_runs(length: usize, checkpoints: usize) -> u64 {
    let (length, checkpoints) = (length as u64, (checkpoints as u64).min(length as u64));
    let mut repetitions = 0;
    while beta(checkpoints, repetitions) < length {
        repetitions += 1;
    }
    match repetitions {
        0 => 0,
        r => r * length - beta(checkpoints + 1, r - 1),
    }
}

/// `beta(c, r)`, the binomial coefficient of `c + r` over `c`; chains are short enough for it.
fn beta(c: u64, r: u64) -> u64 {
    let product =
        (1..=c.min(r)).fold(1u128, |product, i| product * u128::from(c.max(r) + i) / u128::from(i));
    product.min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recursion that defines the optimum.
    fn fewest(length: usize, checkpoints: usize) -> u64 {
        let mut table = vec![vec![0u64; checkpoints + 1]; length + 1];
        for l in 2..=length {
            table[l][1] = (l * (l - 1) / 2) as u64;
            for c in 2..=checkpoints {
                let splits = (1..l).map(|j| j as u64 + table[l - j][c - 1] + table[j][c]);
                table[l][c] = splits.min().expect("there are splits");
            }
        }
        table[length][checkpoints]
    }

    #[test]
    fn schedules_run_as_few_stages_forward_as_possible() {
        for length in 1..=40 {
            for checkpoints in 1..=length {
                let operations = schedule(length, checkpoints);
                let forward = |op: &&ChainOp| {
                    matches!(op, ChainOp::Forward { keep: Keep::Output | Keep::InputAndOutput, .. })
                };
                let runs = operations.iter().filter(forward).count() as u64;
                assert_eq!(runs, forward_runs(length, checkpoints), "{length}, {checkpoints}");
                assert_eq!(runs, fewest(length, checkpoints), "{length}, {checkpoints}");
            }
        }
    }

    #[test]
    fn ten_stages_and_three_checkpoints_need_fifteen_forward_runs() {
        // beta(3, 2) = 10, so that r = 2 and t = 2 * 10 - beta(4, 1).
        assert_eq!(forward_runs(10, 3), 15);
        assert_eq!(fewest(10, 3), 15);
    }
}
