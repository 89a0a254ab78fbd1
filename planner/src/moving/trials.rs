//! What is tried, roughly at first: choices of updates there and of what moves, and the best plan so far.

use rayon::prelude::*;
use schema::{Nanos, OpId, Plan, TensorId};

use super::sets::Sets;
use super::updates::{ALL, Share, given, updatable};
use super::visits::Stays;
use super::{ROUGHLY, There, WHOLLY, Way, is_long, plan_with};
use crate::method::Method;
use crate::{Monitor, PlanError, Problem, Result};

/// Choices of updates are tried with steps down to such a part of all that may be there.
const CHOICES: u64 = 32;

/// Around the fastest, others are tried with steps from one such part of all to the other.
const NEAR: u64 = 32;
const NEAREST: u64 = 256;

/// Sets that are tried, and the best plan so far.
pub(super) struct Trials<'a> {
    pub method: &'a dyn Method,
    pub problem: &'a Problem<'a>,
    pub monitor: &'a dyn Monitor,
    /// What may move, the first to do so first.
    pub movable: Vec<TensorId>,
    /// So many more rough plans may be made, those aside without which nothing is known.
    pub rough_left: usize,
    pub best: Option<Plan>,
    pub failure: Option<PlanError>,
}

impl Trials<'_> {
    /// Tries some sets without updates there, and with as many of them as make it fastest: with ever smaller steps
    /// around what was fastest with larger ones. All that were tried, the fastest first.
    pub fn choices(&mut self, some: impl Fn(&[There]) -> Vec<There>) -> Vec<(Nanos, There)> {
        let updatable = updatable(self.problem, &self.movable);
        let mut known = vec![Vec::new()];
        let sets = self.sets(&[], Share { behind: 0, alone: false });
        let mut tried =
            if sets.is_empty() { Vec::new() } else { self.round(some(&sets), ROUGHLY, false) };
        let (mut fastest, mut step) = (None::<(Nanos, u64)>, ALL / 4);
        let mut behind: Vec<u64> = (0..=ALL).step_by(step as usize).collect();
        while step >= ALL / CHOICES {
            let shares = behind
                .into_iter()
                .flat_map(|behind| [false, true].map(|alone| Share { behind, alone }));
            for share in shares {
                let updates = given(self.problem, &updatable, share);
                if known.contains(&updates) {
                    continue;
                }
                let sets = self.sets(&updates, share);
                known.push(updates);
                if !sets.is_empty() {
                    let of = self.round(some(&sets), ROUGHLY, false);
                    let best = of.first().map(|(time, _)| (*time, share.behind));
                    fastest = fastest.into_iter().chain(best).min();
                    tried.extend(of);
                }
            }
            let Some((_, middle)) = fastest.filter(|_| self.rough_left > 0) else { break };
            step /= 2;
            behind = vec![middle.saturating_sub(step), (middle + step).min(ALL)];
        }
        tried.sort_by_key(|(time, _)| *time);
        tried
    }

    /// The sets of tensors to try with these updates there; none, and a failure, where there are no such.
    pub fn sets(&mut self, updates: &[OpId], share: Share) -> Vec<There> {
        match Sets::new(self.problem, &self.movable, updates, share) {
            Ok(sets) => sets.some(),
            Err(error) => {
                self.failure.get_or_insert(error);
                Vec::new()
            }
        }
    }

    /// Goes on from the fastest, which comes first: to what has a few more or fewer updates there, or a little more or
    /// less on the host, as long as that is faster, with ever smaller steps. On long traces that takes too long.
    pub fn nearer(&mut self, left: &mut Vec<(Nanos, There)>) {
        let first = left.first().filter(|_| !is_long(self.problem));
        let Some((mut time, mut middle)) = first.cloned() else { return };
        let updatable = updatable(self.problem, &self.movable);
        let bytes = |id: &TensorId| self.problem.trace.tensors[id.index()].bytes.0;
        let all: u64 = self.movable.iter().map(bytes).sum();
        let mut part = NEAR;
        while part <= NEAREST && self.rough_left > 0 {
            let moved: u64 = middle.homes.iter().map(bytes).sum();
            let (more, fewer) = (ALL / part, all / part);
            let Share { behind, alone } = middle.share;
            let around = [
                (behind.saturating_sub(more), moved),
                ((behind + more).min(ALL), moved),
                (behind, moved.saturating_sub(fewer)),
                (behind, moved + fewer),
                (behind.saturating_sub(more), moved + fewer),
                (behind.saturating_sub(more), moved.saturating_sub(fewer)),
            ];
            let mut near: Vec<There> = Vec::new();
            for (behind, moved) in around {
                let share = Share { behind, alone };
                let updates = given(self.problem, &updatable, share);
                let Ok(sets) = Sets::new(self.problem, &self.movable, &updates, share) else {
                    continue;
                };
                let there = sets.with(moved);
                let is_same = |of: &There| of.homes == there.homes && of.updates == there.updates;
                if !near.iter().chain(left.iter().map(|(_, there)| there)).any(is_same) {
                    near.push(there);
                }
            }
            let found = self.round(near, ROUGHLY, true);
            match found.first() {
                Some((faster, there)) if *faster < time => {
                    (time, middle) = (*faster, there.clone())
                }
                _ => part *= 2,
            }
            left.extend(found);
        }
        left.sort_by_key(|(time, _)| *time);
    }

    /// Tries sets with a part of the evaluations: those with a plan, the fastest first. Addresses, which take long, are
    /// looked for only of the fastest, and on short traces as long as there is no plan to fall back on.
    pub fn round(&mut self, sets: Vec<There>, part: u64, refined: bool) -> Vec<(Nanos, There)> {
        let evaluations = (self.problem.limits.evaluations / part).max(1);
        let mut trial = self.problem.clone().with_evaluations(evaluations);
        trial.is_rough = part > WHOLLY;
        self.rough_left = self.rough_left.saturating_sub(sets.len());
        let (method, monitor) = (self.method, self.monitor);
        let plan = |there: &There, packed: bool| {
            plan_with(method, &trial, there, Stays::Some, Way { packed, refined }, monitor)
        };
        let mut tried = Vec::new();
        let mut sets = sets.into_iter();
        let falls_back = part < ROUGHLY || !is_long(self.problem);
        while falls_back
            && self.best.is_none()
            && let Some(there) = sets.next()
        {
            self.note(plan(&there, true), there, &mut tried);
        }
        let sets: Vec<There> = sets.collect();
        let found: Vec<_> = sets.par_iter().map(|there| plan(there, part < ROUGHLY)).collect();
        for (there, found) in sets.into_iter().zip(found) {
            self.note(found, there, &mut tried);
        }
        tried.sort_by_key(|(time, _)| *time);
        tried
    }

    /// Keeps what came of a set.
    fn note(
        &mut self,
        found: Result<(Nanos, Option<Plan>)>,
        there: There,
        tried: &mut Vec<(Nanos, There)>,
    ) {
        match found {
            Ok((time, plan)) => {
                tried.push((time, there));
                let best = self.best.as_ref().map(|best| best.predicted.iteration);
                if let Some(plan) = plan.filter(|_| best.is_none_or(|best| time < best)) {
                    self.monitor.found(time);
                    self.best = Some(plan);
                }
            }
            Err(PlanError::Interrupted) => {}
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
    }
}
