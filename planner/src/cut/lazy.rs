//! A cut as a schedule: what it holds at the place is held, and the rest is made again when it is
//! needed, each op once.

use schema::TensorId;

use super::ways::{MEMORY, SPENT};
use super::{Place, Search, extra_at};
use crate::Problem;
use crate::runs::{Rerun, Reruns};

const CHOICES: usize = 3;

/// The reruns of a few of the best choices that fit at the place where cuts cost most, the best
/// first. Nothing says that they fit elsewhere. None where nothing has to leave. The problem copies
/// and compresses nothing.
pub(crate) fn lazy(problem: &Problem) -> Option<Vec<Vec<Rerun>>> {
    let mut search = Search::new(problem);
    if search.look_around().is_some() || search.extra == 0 {
        return None;
    }
    let (op, times) = (search.best_at, search.times(search.best_at));
    let mut choices: Vec<(i128, Vec<bool>)> = Vec::new();
    let mut place = Place::new(problem, &search.ways, op, times);
    extra_at(problem, &mut place, 0, &mut search.work, |place, prices, taken| {
        if taken.beyond[MEMORY] <= 0 {
            let mut held = vec![false; problem.model.tensors()];
            place.had(prices, |tensor, _| held[tensor as usize] = true);
            choices.push((taken.beyond[SPENT], held));
        }
    });
    choices.sort_by_key(|(time, _)| *time);
    choices.dedup();
    choices.truncate(CHOICES);
    Some(choices.into_iter().filter_map(|(_, held)| reruns(problem, op, &held)).collect())
}

/// The schedule in which all is made again as late as it can be; none where something cannot be by
/// then.
fn reruns(problem: &Problem, place: usize, held: &[bool]) -> Option<Vec<Rerun>> {
    let trace = problem.trace;
    let mut reruns = Reruns::default();
    // Before the place all that has been made is there until its last use.
    let mut is_there = vec![true; held.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        if index == place {
            for tensor in trace.tensors.iter().enumerate().map(|(t, _)| TensorId::from_index(t)) {
                let maker = problem.model.producer(tensor);
                let empty = trace.tensors[tensor.index()].bytes.0 == 0;
                is_there[tensor.index()] =
                    held[tensor.index()] || maker.is_none() || empty || op.reads.contains(&tensor);
            }
        }
        for tensor in &op.reads {
            bring_back(problem, *tensor, index, &mut is_there, &mut reruns)?;
        }
        op.writes.iter().for_each(|tensor| is_there[tensor.index()] = true);
    }
    for tensor in (0..held.len()).map(TensorId::from_index) {
        if problem.model.last_use(tensor).is_none() {
            bring_back(problem, tensor, trace.ops.len(), &mut is_there, &mut reruns)?;
        }
    }
    Some(reruns.all)
}

/// Runs again what is needed to have a tensor before an op, inputs first.
fn bring_back(
    problem: &Problem,
    tensor: TensorId,
    before: usize,
    is_there: &mut [bool],
    reruns: &mut Reruns,
) -> Option<()> {
    let mut stack = vec![tensor];
    while let Some(wanted) = stack.last().copied() {
        if is_there[wanted.index()] {
            stack.pop();
            continue;
        }
        let maker = problem.model.producer(wanted)?;
        if problem.model.rerunnable_until(maker) < before {
            return None;
        }
        let op = &problem.trace.ops[maker.index()];
        match op.reads.iter().find(|input| !is_there[input.index()]) {
            Some(input) => stack.push(*input),
            None => {
                op.writes.iter().for_each(|tensor| is_there[tensor.index()] = true);
                reruns.push(before, maker.0);
            }
        }
    }
    Some(())
}
