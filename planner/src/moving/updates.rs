//! Which updates the host's processor runs: those that it may, and of these as many as keep it busy no longer than the
//! device.

use std::collections::BTreeMap;

use schema::{Direction, OpId, Processor, TensorId};

use super::begins;
use crate::Problem;

/// The host's processor is given updates as long as it is no further behind the device than some of so many parts
/// of what it takes for all. Where both have about as much to do, small differences tell.
pub(super) const ALL: u64 = 256;

/// Which updates the host's processor is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// How far behind the device it may be, in parts of what all that it may run takes.
    pub behind: u64,
    /// Whether each parameter only has to come in on time by itself, and not behind the others: on a slow link
    /// what they wait for may be less than what the device's updates take.
    pub alone: bool,
}

/// The updates that the host's processor may run, in the order of the trace: they read what no op makes, and all of that
/// may move. (What reads nothing of that kind changes nothing that outlives the iteration.)
pub(super) fn updatable(problem: &Problem, movable: &[TensorId]) -> Vec<OpId> {
    let ops = (0..problem.trace.ops.len()).map(OpId::from_index);
    let may_move = |id: &TensorId| {
        let is_made = problem.model.producer(*id).is_some();
        if is_made { !problem.model.is_held(*id) } else { movable.contains(id) }
    };
    let is_first = |op: &OpId| problem.trace.ops[..op.index()].iter().all(is_update);
    let may = |op: &OpId| {
        problem.update_time_there(*op).is_some()
            && !is_first(op)
            && problem.model.reads(*op).all(|id| may_move(&id))
            && problem.model.reads(*op).any(|id| problem.model.producer(id).is_none())
    };
    ops.filter(may).collect()
}

/// The updates on the host, of those that may be there: each as long as its processor is no further behind the device
/// than such a part of what it takes for all, and no further than that when the device is done.
pub(super) fn given(problem: &Problem, updatable: &[OpId], share: Share) -> Vec<OpId> {
    let Share { behind: part, alone } = share;
    let time = |op: &OpId| problem.update_time_there(*op).map_or(0, |time| time.0);
    let all = updatable.iter().map(time).sum::<u64>();
    let begins = begins(problem);
    // What the iteration begins with would wait for its parameter to come in: those updates are there only where
    // all are that may be.
    let mut coming = Coming::new(problem, &begins);
    let behind = u128::from(all) * u128::from(part) / u128::from(ALL);
    let within = |then: u64, than: u64| u128::from(then) <= u128::from(than) + behind;
    let mut until = 0;
    let is_given = |op: &&OpId| {
        if part < ALL && !coming.is_in_time(**op, alone) {
            return false;
        }
        let begin = begins[op.index()];
        let done = begin.max(until) + time(op);
        let given = within(until, begin) && within(done, begins[begins.len() - 1]);
        until = if given { done } else { until };
        given
    };
    updatable.iter().filter(is_given).copied().collect()
}

/// When parameters are used that come in after updates on the host: the time of all copies, by the first use.
struct Coming<'a> {
    problem: &'a Problem<'a>,
    begins: &'a [u64],
    first_uses: Vec<usize>,
    copies: BTreeMap<u64, u64>,
}

impl<'a> Coming<'a> {
    fn new(problem: &'a Problem<'a>, begins: &'a [u64]) -> Self {
        Self { problem, begins, first_uses: first_uses(problem), copies: BTreeMap::new() }
    }

    /// Whether what an update reads and an earlier op uses comes in before that, alone or behind the others, which it is
    /// one of from then on.
    fn is_in_time(&mut self, update: OpId, alone: bool) -> bool {
        let Self { problem, begins, first_uses, copies } = self;
        let constants = problem.model.reads(update);
        let constants = constants.filter(|id| problem.model.producer(*id).is_none());
        let copy = |id: TensorId| {
            let bytes = problem.trace.tensors[id.index()].bytes;
            let copy = problem.machine.link.copy_time(Direction::H2d, bytes);
            (begins[first_uses[id.index()]], copy.0)
        };
        let its = constants.map(copy).filter(|(used, _)| *used < begins[update.index()]);
        let its: Vec<(u64, u64)> = its.collect();
        if alone {
            return its.iter().all(|(used, copy)| copy <= used);
        }
        let Some(first) = its.iter().map(|(used, _)| *used).min() else { return true };
        let mut all = copies.clone();
        its.iter().for_each(|(used, copy)| *all.entry(*used).or_default() += copy);
        let mut sum = 0;
        let is_in_time = all.iter().all(|(used, copy)| {
            sum += copy;
            *used < first || sum <= *used
        });
        if is_in_time {
            *copies = all;
        }
        is_in_time
    }
}

/// What updates read and no op makes.
pub(super) fn homes_of(problem: &Problem, updates: &[OpId]) -> Vec<TensorId> {
    let read = updates.iter().flat_map(|op| problem.model.reads(*op));
    let mut homes: Vec<TensorId> =
        read.filter(|id| problem.model.producer(*id).is_none()).collect();
    homes.sort_unstable();
    homes.dedup();
    homes
}

/// The first op that reads each tensor, or the number of ops.
fn first_uses(problem: &Problem) -> Vec<usize> {
    let mut first = vec![problem.trace.ops.len(); problem.trace.tensors.len()];
    for (index, op) in problem.trace.ops.iter().enumerate().rev() {
        op.reads.iter().for_each(|id| first[id.index()] = index);
    }
    first
}

fn is_update(op: &schema::Op) -> bool {
    op.may_run_on(Processor::Host)
}
