//! SwapAdvisor's genetic search, for the tensors to swap.

use schema::Bytes;
use simulator::{Evaluator, GapId, Infeasible, Policy, Treatment};

use crate::method::{About, Method, needs_swap};
use crate::split_mix::SplitMix;
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result};

/// SwapAdvisor (Huang et al., ASPLOS 2020) searches jointly for the order of ops, the memory
/// allocation and the swaps by a genetic algorithm whose fitness is the simulated time of an
/// iteration. Here the order is the trace's and addresses are the lowering's, so that
/// what is left of a sample's chromosomes is which tensors are swapped.
///
/// As there, samples are made by crossover, which takes one parent's genes up to a random point and
/// the other's from there on, and by mutation, which changes single genes with a small probability.
/// Selection and the first generation are ours: the best samples survive, a parent is the fitter of
/// two that are drawn among these, and the first generation has what swaps the largest tensors,
/// what swaps those unused for longest, what swaps all, and random mixtures. Samples that do not
/// fit rank behind all that do, by what they would need. The seed is fixed, and so is the number of
/// evaluations.
pub struct SwapAdvisor;

const SAMPLES: usize = 40;
const SURVIVORS: usize = 10;
const GENERATIONS: u64 = 30;
const SEED: u64 = 2020;

/// One gene in so many mutates.
const MUTATION: u64 = 100;

impl Method for SwapAdvisor {
    fn about(&self) -> About {
        About {
            name: "swapadvisor",
            summary: "swap what a genetic search over simulated times chooses",
            source: "SwapAdvisor (Huang et al., ASPLOS 2020), swap decisions only",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        let mut search = Search {
            problem,
            evaluator: problem.evaluator(Policy::EARLY, target),
            random: SplitMix::new(SEED),
        };
        let mut population = search.first_generation();
        population.sort_by_key(|sample| sample.fitness);
        let most = problem.evaluations();
        for generation in 0..GENERATIONS {
            let progress = Progress { phase: "generations", done: generation, of: GENERATIONS };
            if !monitor.proceed(progress) {
                return Err(PlanError::Interrupted);
            }
            if search.evaluator.evaluations() + (SAMPLES - SURVIVORS) as u64 > most {
                break;
            }
            population.truncate(SURVIVORS);
            while population.len() < SAMPLES {
                let child = search.child(&population[..SURVIVORS.min(population.len())]);
                population.push(child);
            }
            // Stable: of equals, the elder stays ahead.
            population.sort_by_key(|sample| sample.fitness);
        }
        let best = &population[0];
        let treatments = search.treatments(&best.swapped);
        match search.evaluator.evaluate(&treatments) {
            Ok(_) => Ok(Decided::about_feature_maps(problem, treatments, Policy::EARLY)),
            Err(cause) => Err(PlanError::from_infeasible(cause, problem.budget)),
        }
    }

    fn uses(&self) -> Allowed {
        Allowed::COPIES
    }
}

/// A choice of what is swapped.
#[derive(Debug, Clone)]
struct Sample {
    /// For each feature map, whether it is swapped.
    swapped: Vec<bool>,
    fitness: Fitness,
}

/// Less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fitness {
    /// Nanoseconds of the iteration.
    Fits(u64),
    /// Bytes that would be needed, as far as known.
    Lacks(u64),
}

struct Search<'a> {
    problem: &'a Problem<'a>,
    evaluator: Evaluator<'a>,
    random: SplitMix,
}

impl Search<'_> {
    fn first_generation(&mut self) -> Vec<Sample> {
        let maps = self.problem.feature_maps.len();
        let gaps = self.problem.model.gaps();
        let gap = |map: usize| &gaps[self.problem.feature_maps[map]];
        let length = |map: usize| {
            let end = gap(map).before.map_or(self.problem.model.ops(), |op| op.index());
            end - gap(map).after.index()
        };
        let mut by_size: Vec<usize> = (0..maps).collect();
        by_size.sort_by_key(|map| (std::cmp::Reverse(gap(*map).bytes), *map));
        let mut by_length: Vec<usize> = (0..maps).collect();
        by_length.sort_by_key(|map| (std::cmp::Reverse(length(*map)), *map));
        let mut population = vec![self.sample(vec![true; maps])];
        for order in [by_size, by_length] {
            for eighths in 1..8 {
                let mut swapped = vec![false; maps];
                order[..maps * eighths / 8].iter().for_each(|map| swapped[*map] = true);
                population.push(self.sample(swapped));
            }
        }
        while population.len() < SAMPLES {
            let eighths = 1 + self.random.below(7);
            let swapped = (0..maps).map(|_| self.random.below(8) < eighths).collect();
            population.push(self.sample(swapped));
        }
        population
    }

    /// A child of two parents, each the fitter of two drawn at random.
    fn child(&mut self, parents: &[Sample]) -> Sample {
        let mut draw = || {
            let one = self.random.below(parents.len() as u64);
            one.min(self.random.below(parents.len() as u64)) as usize
        };
        let (one, other) = (draw(), draw());
        let genes = parents[one].swapped.len();
        let point = self.random.below(genes as u64 + 1) as usize;
        let mut swapped = parents[one].swapped[..point].to_vec();
        swapped.extend(&parents[other].swapped[point..]);
        for gene in &mut swapped {
            *gene ^= self.random.below(MUTATION) == 0;
        }
        self.sample(swapped)
    }

    fn sample(&mut self, swapped: Vec<bool>) -> Sample {
        let treatments = self.treatments(&swapped);
        let fitness = match self.evaluator.evaluate(&treatments) {
            Ok(outcome) => Fitness::Fits(outcome.iteration.0),
            Err(cause) => Fitness::Lacks(needed(&cause)),
        };
        Sample { swapped, fitness }
    }

    fn treatments(&self, swapped: &[bool]) -> Vec<Treatment> {
        let mut treatments = self.problem.keep_all();
        let maps: &[GapId] = &self.problem.feature_maps;
        for (gap, _) in maps.iter().zip(swapped).filter(|(_, swapped)| **swapped) {
            treatments[*gap] = Treatment::Swap;
        }
        treatments
    }
}

fn needed(cause: &Infeasible) -> u64 {
    match cause {
        Infeasible::HostMemory { needed } => needed.0,
        cause => cause.needed().map_or(u64::MAX, |bytes| bytes.0),
    }
}
