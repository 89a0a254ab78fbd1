//! Which tensors have their homes on the host, for a choice of updates there.

use schema::{Bytes, OpId, TensorId};
use simulator::Infeasible;

use super::rest::Rest;
use super::updates::{Share, homes_of};
use super::{There, check_times};
use crate::cut::needed_at_least;
use crate::fit::fewest;
use crate::{PlanError, Problem, Result};

/// Of what need not move, all, half, a quarter and so on are tried, with so many steps.
pub(super) const HALVINGS: u32 = 6;

/// The sets of tensors to try, where the host's processor runs these updates: each what they need there,
/// and the first few of the others that may move.
pub(super) struct Sets<'a> {
    updates: &'a [OpId],
    share: Share,
    /// What may move, the first to do so first, and the bytes of so many.
    all: Vec<TensorId>,
    moved: Vec<u64>,
    /// As few as leave every op enough, and as many as the host holds.
    fewest: usize,
    most: usize,
}

impl<'a> Sets<'a> {
    pub fn new(
        problem: &Problem,
        movable: &[TensorId],
        updates: &'a [OpId],
        share: Share,
    ) -> Result<Self> {
        let bytes = |id: &TensorId| problem.trace.tensors[id.index()].bytes.0;
        let mut all = homes_of(problem, updates);
        let least = all.len();
        let is_other = |id: &&TensorId| all[..least].binary_search(id).is_err();
        let others: Vec<TensorId> = movable.iter().filter(is_other).copied().collect();
        all.extend(others);
        let (movable, updating) = (&all[..], problem.clone().with_updates_there(updates));
        let fits = |count: usize| {
            let rest = Rest::new(&updating, &movable[..count]);
            count >= least && rest.needed().0 <= problem.budget
        };
        let fewest = fewest(movable.len(), fits);
        let (mut needed, mut op) = needed_at_least(problem, true);
        if fewest > movable.len() {
            (needed, op) = Rest::new(&updating, movable).needed().max((needed, op));
        }
        if needed > problem.budget {
            let cause = Infeasible::Memory { needed, op };
            return Err(PlanError::from_infeasible(cause, problem.budget));
        }
        let moved: Vec<u64> = std::iter::once(0)
            .chain(movable.iter().scan(0, |sum, id| {
                *sum += bytes(id);
                Some(*sum)
            }))
            .collect();
        if moved[fewest] > problem.host_budget.0 {
            let needed = Bytes(moved[fewest]);
            return Err(PlanError::Impossible(Infeasible::HostMemory { needed }));
        }
        check_times(problem, movable)?;
        let most = moved.partition_point(|sum| *sum <= problem.host_budget.0) - 1;
        Ok(Self { updates, share, all, moved, fewest, most })
    }

    /// The fewest, the most and some between them.
    pub fn some(&self) -> Vec<There> {
        let mut counts = vec![self.fewest];
        let [least, most] = [self.fewest, self.most].map(|count| self.moved[count]);
        for level in 0..=HALVINGS {
            let wanted = least + ((most - least) >> level);
            counts.push(self.moved.partition_point(|sum| *sum < wanted));
        }
        counts.sort_unstable();
        counts.dedup();
        counts.into_iter().map(|count| self.there(count)).collect()
    }

    /// The one that has so many bytes there, or what comes nearest to that.
    pub fn with(&self, bytes: u64) -> There {
        let count = self.moved.partition_point(|sum| *sum < bytes);
        self.there(count.clamp(self.fewest, self.most))
    }

    fn there(&self, count: usize) -> There {
        let (homes, updates) = (self.all[..count].to_vec(), self.updates.to_vec());
        There { homes, updates, share: self.share }
    }
}
