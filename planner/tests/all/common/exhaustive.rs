//! All treatments of small problems, one after another.

use planner::Problem;
use schema::{Bytes, Nanos};
use simulator::{Policy, Treatment};

/// Whatever may become of each gap.
pub fn options(problem: &Problem) -> Vec<Vec<Treatment>> {
    let of = |gap: usize| {
        let mut options = vec![Treatment::Keep];
        if problem.allowed.swap {
            options.extend([Treatment::Swap, Treatment::SwapEachTime]);
        }
        if problem.may_recompute(gap) {
            options.extend([Treatment::Recompute, Treatment::RecomputeEachTime]);
        }
        for (codec, _) in problem.may_compress(gap) {
            options.push(Treatment::Compress(codec));
            if problem.allowed.swap {
                options.push(Treatment::SwapCompressed(codec));
            }
        }
        options
    };
    (0..problem.model.gaps().len()).map(of).collect()
}

/// How many ways there are to treat all gaps.
pub fn ways(options: &[Vec<Treatment>]) -> usize {
    options.iter().fold(1, |ways, options| ways.saturating_mul(options.len()))
}

/// The shortest iteration over all treatments, and the treatments; none where nothing fits.
pub fn best(
    problem: &Problem,
    policy: Policy,
    options: &[Vec<Treatment>],
) -> Option<(Nanos, Vec<Treatment>)> {
    let mut best: Option<(Nanos, Vec<Treatment>)> = None;
    for_each_way(problem, policy, options, |time, treatments| {
        if best.as_ref().is_none_or(|(best, _)| time < *best) {
            best = Some((time, treatments.to_vec()));
        }
    });
    best
}

/// Tells of each way that fits byte for byte, and how long it takes.
pub fn for_each_way(
    problem: &Problem,
    policy: Policy,
    options: &[Vec<Treatment>],
    mut tell: impl FnMut(Nanos, &[Treatment]),
) {
    let mut evaluator = problem.evaluator(policy, problem.budget);
    let mut at = vec![0; options.len()];
    loop {
        let treatments: Vec<Treatment> = at.iter().zip(options).map(|(i, o)| o[*i]).collect();
        if let Ok(outcome) = evaluator.evaluate(&treatments) {
            tell(outcome.iteration, &treatments);
        }
        // The last gap turns fastest, so that the evaluator goes on from where two ways differ.
        let Some(turn) = (0..at.len()).rev().find(|i| at[*i] + 1 < options[*i].len()) else {
            return;
        };
        at[turn] += 1;
        at[turn + 1..].fill(0);
    }
}

/// The problem with memory between what some way needs and what keeping all needs.
pub fn squeeze(problem: &mut Problem, permille: u64) {
    let most = problem.evaluator(Policy::EARLY, problem.budget).evaluate(&problem.keep_all());
    let most = most.expect("memory is plenty").peak.0;
    problem.budget = Bytes(most * permille / 1000);
}
