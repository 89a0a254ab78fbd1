//! Evaluating explicit schedules.

use super::{Evaluator, Infeasible, Outcome, Record};
use crate::sequence::Step;

impl Evaluator<'_> {
    /// Evaluates an explicit schedule in place of decisions about gaps.
    ///
    /// # Errors
    ///
    /// If a step cannot be taken ([`Infeasible::Step`]), or the schedule does not fit.
    pub fn evaluate_steps(&mut self, steps: &[Step]) -> Result<Outcome, Infeasible> {
        self.evaluations += 1;
        // The next decisions have nothing in common with these.
        self.last.clear();
        self.timed_until = 0;
        self.sequence.build_from_steps(self.model, self.codecs, steps)?;
        self.time()
    }

    /// Evaluates an explicit schedule and returns all that a plan is made from.
    ///
    /// # Errors
    ///
    /// As [`Self::evaluate_steps`].
    pub fn record_steps(&mut self, steps: &[Step]) -> Result<Record, Infeasible> {
        let outcome = self.evaluate_steps(steps)?;
        Ok(self.timing.record(outcome, self.policy, self.model, &self.sequence))
    }
}
