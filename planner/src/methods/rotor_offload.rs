//! Checkpointing of chains with offload.

use schema::Bytes;
use simulator::{Evaluator, Policy, Step};

use crate::method::{About, Method, needs_recompute, needs_swap};
use crate::methods::chain::{Chain, ChainOp, Costs, carry_out};
use crate::methods::rotor::{Programme, Rotor, SLOTS};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result};

/// Rematerialisation and offload of a chain's stages together, after POFO (Beaumont et al.,
/// "Efficient Combination of Rematerialization and Offloading for Training DNNs", NeurIPS 2021).
///
/// As there, what the first stages keep goes to the host while the forward phase runs and comes
/// back in the backward phase, and the rest of the chain is recomputed. We simplify: POFO's
/// dynamic programme decides both at once, with the link's idle time in its state. Here the
/// programme of [`Rotor`](super::Rotor) first plans for more memory than there is; then of what
/// the schedule keeps, as many stages as it takes to fit are offloaded, from the input on, whose
/// tensors are away for longest. How much more memory to plan for is tried on a grid; the fastest
/// schedule on the simulated link counts.
pub struct RotorOffload;

/// How many sizes of memory are tried.
const GRID: usize = 32;

impl Method for RotorOffload {
    fn about(&self) -> About {
        About {
            name: "rotor-offload",
            summary: "recompute as rotor does, and offload what the first stages keep",
            source: "Rematerialization and offloading (Beaumont et al., NeurIPS 2021), simplified",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        needs_recompute(problem)?;
        let chain = Chain::of(problem)?;
        let costs = Costs::of(problem, &chain);
        let programme = Programme::solve(&costs, monitor)?;
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let mut best: Option<(u64, Vec<Step>)> = None;
        let sizes = distinct(&programme);
        for (done, slots) in (0..).zip(&sizes) {
            let progress = Progress { phase: "offload", done, of: sizes.len() as u64 };
            if !monitor.proceed(progress) {
                return Err(PlanError::Interrupted);
            }
            let operations = programme.schedule(*slots);
            if let Some((time, steps)) = offload(problem, &chain, &operations, &mut evaluator)
                && best.as_ref().is_none_or(|(least, _)| time < *least)
            {
                best = Some((time, steps));
            }
        }
        match best {
            Some((_, steps)) => Ok(Decided::from_steps(problem, steps, Policy::EARLY)),
            // Without a gain from offloading, what lacks is what lacks without it.
            None => Rotor.decide(problem, target, monitor),
        }
    }

    fn uses(&self) -> Allowed {
        Allowed::WITHOUT_CODECS
    }

    fn includes(&self) -> Vec<Box<dyn Method>> {
        vec![Box::new(Rotor)]
    }
}

/// Numbers of slots with different schedules, at most [`GRID`] of them, spread evenly.
fn distinct(programme: &Programme) -> Vec<usize> {
    let times: Vec<_> = (0..=SLOTS).map(|slots| programme.time(slots)).collect();
    let first = |slots: &usize| {
        times[*slots].is_some() && (*slots == 0 || times[slots - 1] != times[*slots])
    };
    let all: Vec<usize> = (0..=SLOTS).filter(first).collect();
    let points = all.len().min(GRID);
    (0..points).map(|point| all[point * (all.len() - 1) / (points - 1).max(1)]).collect()
}

/// The schedule with as few stages offloaded as fit, and its time; none where all do not suffice.
fn offload(
    problem: &Problem,
    chain: &Chain,
    operations: &[ChainOp],
    evaluator: &mut Evaluator,
) -> Option<(u64, Vec<Step>)> {
    let first = |stages: usize| -> Vec<bool> { (0..chain.len()).map(|s| s < stages).collect() };
    let mut attempt = |stages: usize| {
        let steps = carry_out(problem, chain, operations, &first(stages));
        evaluator.evaluate_steps(&steps).ok().map(|outcome| (outcome.iteration.0, steps))
    };
    let (mut too_few, mut enough) = (0, chain.len());
    if let Some(found) = attempt(0) {
        return Some(found);
    }
    let mut best = attempt(enough)?;
    while enough - too_few > 1 {
        let stages = too_few + (enough - too_few) / 2;
        match attempt(stages) {
            Some(found) => (enough, best) = (stages, found),
            None => too_few = stages,
        }
    }
    Some(best)
}
