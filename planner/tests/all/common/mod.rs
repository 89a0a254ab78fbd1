//! Random problems from a seed, and the checks that tests share.

pub mod build;
pub mod chain;
pub mod exhaustive;
pub mod judge;
pub mod optimum;
pub mod random;
pub mod recordings;

use random::Random;

pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The seeds that are asked for: `TIDEGATE_CASES` from `TIDEGATE_SEED` on.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    let first = setting("TIDEGATE_SEED", 0);
    first..first + setting("TIDEGATE_CASES", default)
}

/// Runs a check on as many cases as asked for, by default `default`, and names the seed of one that
/// fails. What it counts is held against the least that tests anything, where cases are not few.
pub fn for_each_case<const N: usize>(
    default: u64,
    least: [u64; N],
    mut case: impl FnMut(&mut Random, &mut [u64; N]) -> Result<(), String>,
) {
    let (seeds, mut counts) = (seeds(default), [0; N]);
    let cases = seeds.end - seeds.start;
    for seed in seeds {
        if let Err(problem) = case(&mut Random::new(seed), &mut counts) {
            panic!("{problem}\nreplay with TIDEGATE_SEED={seed} TIDEGATE_CASES=1");
        }
    }
    eprintln!("{cases} cases, of which {counts:?} hold what is looked for");
    let enough = counts.iter().zip(least).all(|(count, least)| *count >= least);
    assert!(cases < default || enough, "{counts:?} of {cases}, at least {least:?}");
}
