//! The best plan so far.

use rayon::prelude::*;
use schema::{Bytes, Nanos, OpId};
use simulator::{Infeasible, Treatment};

use super::options::{Options, policy};
use super::quick;
use crate::bound::takes_at_least;
use crate::fit::{lowered_in, share, shrunk};
use crate::lower::{Effort, lower_with};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Result};

/// How often the first plan is made for less memory.
const ROOMS: usize = 6;

/// The fastest decisions that have become a plan.
pub(super) struct Packed<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) target: Bytes,
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    /// The fastest until then, one after the other.
    found: Vec<(u64, Decided)>,
    /// What other methods decide, the fastest first, with its time: searches of sequences begin there.
    pub(super) others: Vec<(u64, Decided)>,
    /// Whether reruns alone were searched for.
    pub(super) had_alone: bool,
    /// The first decisions that fit byte for byte, if their buffers found no addresses.
    loose: Option<Decided>,
    /// Of what took too many bytes, why that is no plan which lacks least.
    refused: Option<PlanError>,
}

impl<'a> Packed<'a> {
    pub fn new(
        problem: &'a Problem<'a>,
        target: Bytes,
        options: &'a Options,
        monitor: &'a dyn Monitor,
    ) -> Self {
        let (found, others) = (Vec::new(), Vec::new());
        let (had_alone, loose, refused) = (false, None, None);
        Self { problem, target, options, monitor, found, others, had_alone, loose, refused }
    }

    /// Makes the first plan: what is cheapest per byte is given up. What fits byte for byte need not
    /// fit address for address; then it is others, for less memory, that become the plan.
    ///
    /// # Errors
    ///
    /// Why nothing fits, where nothing does.
    pub fn first(&mut self) -> std::result::Result<(), Infeasible> {
        let first = self.first_of(self.options);
        if self.found.is_empty() {
            // What is never copied is easier to give addresses.
            _ = self.first_of(&self.options.without_copies());
        }
        first
    }

    fn first_of(&mut self, options: &Options) -> std::result::Result<(), Infeasible> {
        let mut room = self.target;
        for attempt in 0..ROOMS {
            let treatments = match quick::start(self.problem, room, options) {
                Ok(treatments) => treatments,
                Err(_) if attempt > 0 => break,
                Err(cause) => return Err(cause),
            };
            let decided = self.decided(treatments);
            match self.lowered(&decided, Effort::Little) {
                Ok((time, _)) => {
                    self.keep(time, decided.taken_from("the cheapest per byte"));
                    break;
                }
                Err(error) => {
                    self.loose.get_or_insert(decided);
                    let PlanError::Fragmented { short_by, budget, .. } = error else { break };
                    room = share(shrunk(room, budget, short_by), 985);
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, time: Nanos, decided: Decided) {
        self.monitor.found(time);
        self.found.push((time.0, decided));
    }

    /// Treatments as decisions about all gaps that were considered.
    fn decided(&self, treatments: Vec<Treatment>) -> Decided {
        Decided::new(treatments, policy(self.problem), self.options.gaps())
    }

    /// Keeps what is decided if its plan is the fastest.
    pub(super) fn lower(&mut self, decided: Decided) -> Result<()> {
        let lowered = self.lowered(&decided, Effort::Full);
        self.note(decided, lowered)
    }

    /// The same of several, side by side and with this much effort, up to the first that becomes a plan: what became
    /// of each.
    pub(super) fn lower_first(&mut self, all: Vec<Decided>, effort: Effort) -> Vec<Result<()>> {
        let lowered: Vec<_> = all.par_iter().map(|decided| self.lowered(decided, effort)).collect();
        let mut outcomes = Vec::new();
        for (decided, lowered) in all.into_iter().zip(lowered) {
            outcomes.push(self.note(decided, lowered));
            if outcomes.last().is_some_and(Result::is_ok) {
                break;
            }
        }
        outcomes
    }

    /// Keeps what became of what is decided if it is the fastest.
    fn note(&mut self, decided: Decided, lowered: Result<(Nanos, Option<Bytes>)>) -> Result<()> {
        match lowered {
            Ok((time, lowered_in)) => {
                if !self.is_within(time.0) {
                    self.keep(time, Decided { lowered_in, ..decided });
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error, PlanError::Fragmented { .. }) {
                    self.loose.get_or_insert(decided);
                } else {
                    // It takes too many bytes of a smaller target, too.
                    self.refused = Some(self.nearest(error.clone()));
                }
                Err(error)
            }
        }
    }

    /// What the plan of decisions takes, and the room in which they are lowered to it, where that would be found
    /// again. A rough one needs no addresses, unless it is as recorded, which is not evaluated.
    fn lowered(&self, decided: &Decided, effort: Effort) -> Result<(Nanos, Option<Bytes>)> {
        if self.problem.is_rough && !decided.as_recorded {
            let time = decided.evaluated(self.problem, self.target);
            let time = time.map_err(|cause| PlanError::from_infeasible(cause, self.problem.budget));
            return Ok((time?, None));
        }
        if effort == Effort::Little {
            let plan = lower_with(self.problem, self.target, decided, effort)?;
            return Ok((plan.predicted.iteration, None));
        }
        let (plan, room) = lowered_in(self.problem, self.target, decided, Nanos(self.time()))?;
        let is_whole = self.target == self.problem.budget;
        Ok((plan.predicted.iteration, is_whole.then_some(room)))
    }

    /// Notes what the sequence that comes nearest to what fits needs at an op, or at the end.
    pub fn came_near(&mut self, needed: Bytes, op: usize) {
        let budget = self.problem.budget;
        if needed > budget {
            let op = OpId::from_index(op.min(self.problem.trace.ops.len().saturating_sub(1)));
            let error = PlanError::from_infeasible(Infeasible::Memory { needed, op }, budget);
            self.refused = Some(self.nearest(error));
        }
    }

    /// This error, or that of what was refused before, whichever lacks less.
    pub fn nearest(&mut self, error: PlanError) -> PlanError {
        let lacks = |error: &PlanError| error.short_by().map_or(u64::MAX, |bytes| bytes.0);
        match self.refused.take() {
            Some(refused) if lacks(&refused) < lacks(&error) => refused,
            _ => error,
        }
    }

    /// Whether there is a plan that takes no longer than this.
    pub fn is_within(&self, time: u64) -> bool {
        self.found.last().is_some_and(|(best, _)| *best <= time)
    }

    /// The time of the fastest plan so far, all the time there is if there is none.
    pub fn time(&self) -> u64 {
        self.found.last().map_or(u64::MAX, |(best, _)| *best)
    }

    /// Whether a plan in which no more is done than this may be faster than what is kept, as far as cuts at two places say.
    pub fn may_gain(&self, allowed: Allowed) -> bool {
        let Some((best, _)) = self.found.last() else { return true };
        let places = [self.problem.cuts().1, self.fullest()];
        !takes_at_least(&self.problem.restricted_to(allowed), &places, Nanos(*best))
    }

    /// The decisions of the fastest plans, the fastest last, if there is any, or else some that may have
    /// addresses where there is less to use.
    pub fn take_whatever_fits(&mut self) -> Vec<Decided> {
        let found = self.take();
        if found.is_empty() { self.loose.take().into_iter().collect() } else { found }
    }

    /// The decisions of the fastest plans, the fastest last, if there is any.
    pub fn take(&mut self) -> Vec<Decided> {
        self.found.drain(..).map(|(_, decided)| decided).collect()
    }
}
