//! The best plan so far.

use schema::{Bytes, Nanos};
use simulator::Treatment;

use super::anneal::Found;
use super::options::{Options, policy};
use super::quick;
use crate::fit::{lower_where_it_fits, share, shrunk};
use crate::lower::{Effort, lower_with};
use crate::{Decided, Monitor, PlanError, Problem, Result};

/// Of what a search has found, so many of the best are tried until one can be packed.
const TRIED: usize = 4;

/// How often the first plan is made for less memory.
const ROOMS: usize = 6;

/// The fastest decisions that have become a plan.
pub(super) struct Packed<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) target: Bytes,
    options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    best: Option<(u64, Decided)>,
}

impl<'a> Packed<'a> {
    pub fn new(
        problem: &'a Problem<'a>,
        target: Bytes,
        options: &'a Options,
        monitor: &'a dyn Monitor,
    ) -> Self {
        Self { problem, target, options, monitor, best: None }
    }

    /// Makes the first plan, and returns the decisions with which a search may begin. What fits
    /// byte for byte need not fit address for address; then it is others, for less memory, that
    /// become the plan.
    pub fn first(&mut self) -> Option<Found> {
        let first = quick::start(self.problem, self.target, self.options);
        self.first_of(self.options, first.clone());
        if self.best.is_some() {
            return first;
        }
        // What is never copied is easier to give addresses.
        let alone = self.options.without_copies();
        let second = quick::start(self.problem, self.target, &alone);
        self.first_of(&alone, second.clone());
        first.or(second)
    }

    fn first_of(&mut self, options: &Options, start: Option<Found>) {
        let (mut room, mut start) = (self.target, start);
        for _ in 0..ROOMS {
            let Some((_, treatments)) = start else { break };
            let decided = decided(self.problem, self.options, treatments);
            match lower_with(self.problem, self.target, &decided, Effort::Little) {
                Ok(plan) => {
                    let decided = decided.taken_from("the cheapest per byte");
                    return self.keep(plan.predicted.iteration, decided);
                }
                Err(PlanError::Fragmented { short_by, budget }) => {
                    room = share(shrunk(room, budget, short_by), 985);
                }
                Err(_) => break,
            }
            start = quick::start(self.problem, room, options);
        }
    }

    fn keep(&mut self, time: Nanos, decided: Decided) {
        self.monitor.found(time);
        self.best = Some((time.0, decided));
    }

    /// Lowers the first few of what was found, which has the fastest first, and keeps the fastest
    /// plan.
    pub fn pack(&mut self, found: impl Iterator<Item = Found>) {
        for (time, treatments) in found.take(TRIED) {
            if self.is_within(time) {
                break;
            }
            let decided = decided(self.problem, self.options, treatments);
            _ = self.lower(decided.taken_from("annealing"));
        }
    }

    /// Keeps what is decided if its plan is the fastest.
    pub(super) fn lower(&mut self, decided: Decided) -> Result<()> {
        let time = lower_where_it_fits(self.problem, self.target, &decided)?.predicted.iteration;
        if !self.is_within(time.0) {
            self.keep(time, decided);
        }
        Ok(())
    }

    /// Whether there is a plan that takes no longer than this.
    pub fn is_within(&self, time: u64) -> bool {
        self.best.as_ref().is_some_and(|(best, _)| *best <= time)
    }

    /// The time of the fastest plan so far, all the time there is if there is none.
    pub fn time(&self) -> u64 {
        self.best.as_ref().map_or(u64::MAX, |(best, _)| *best)
    }

    /// The decisions of the fastest plan, if there is any.
    pub fn take(&mut self) -> Option<Decided> {
        self.best.take().map(|(_, decided)| decided)
    }
}

/// Treatments as decisions about all gaps that were considered.
pub(super) fn decided(problem: &Problem, options: &Options, treatments: Vec<Treatment>) -> Decided {
    let considered = options.gaps();
    let policy = policy(problem);
    Decided::new(treatments, policy, considered)
}
