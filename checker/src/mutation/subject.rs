//! A plan about to be changed.

use schema::{Action, Plan, Trace};

use crate::random::Random;

/// What is changed, and what draws are made from.
pub(super) struct Subject<'a> {
    pub plan: &'a mut Plan,
    pub trace: &'a Trace,
    pub random: &'a mut Random,
}

impl Subject<'_> {
    /// One of the positions from 0 to before `end` that serve.
    pub fn one_of(&mut self, end: usize, serves: impl Fn(&Plan, usize) -> bool) -> Option<usize> {
        let from = self.random.below(end as u64) as usize;
        (0..end).map(|i| (from + i) % end).find(|i| serves(self.plan, *i))
    }

    pub fn action(&mut self, serves: impl Fn(&Action) -> bool) -> Option<usize> {
        self.one_of(self.plan.actions.len(), |plan, i| serves(&plan.actions[i]))
    }
}
