//! A cut as a schedule: what it holds at the place is held, and the rest is made again when it is needed, each
//! op once.

use schema::{OpId, TensorId};
use simulator::Step;

use super::ways::{MEMORY, SPENT};
use super::{Place, Search, extra_at};
use crate::Problem;

/// So many choices become steps.
const CHOICES: usize = 3;

/// The steps of a few of the best choices that fit at the place where cuts cost most, the best first. Nothing
/// says that they fit elsewhere. None where nothing has to leave. The problem copies and compresses nothing.
pub(crate) fn lazy(problem: &Problem) -> Option<Vec<Vec<Step>>> {
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
    Some(choices.into_iter().filter_map(|(_, held)| steps(problem, op, &held)).collect())
}

/// One run of an op, and which of its outputs it brings back.
struct Run {
    op: u32,
    again: bool,
    fresh: Vec<TensorId>,
}

/// The schedule in which all is made again as late as it can be; none where something cannot be by then.
fn steps(problem: &Problem, place: usize, held: &[bool]) -> Option<Vec<Step>> {
    let trace = problem.trace;
    let mut runs: Vec<Run> = Vec::new();
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
            bring_back(problem, *tensor, index, &mut is_there, &mut runs)?;
        }
        op.writes.iter().for_each(|tensor| is_there[tensor.index()] = true);
        runs.push(Run { op: index as u32, again: false, fresh: op.writes.clone() });
    }
    for tensor in (0..held.len()).map(TensorId::from_index) {
        if problem.model.last_use(tensor).is_none() {
            bring_back(problem, tensor, trace.ops.len(), &mut is_there, &mut runs)?;
        }
    }
    Some(with_drops(problem, &runs))
}

/// Runs again what is needed to have a tensor before an op, inputs first.
fn bring_back(
    problem: &Problem,
    tensor: TensorId,
    before: usize,
    is_there: &mut [bool],
    runs: &mut Vec<Run>,
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
                let fresh = op.writes.iter().copied().filter(|t| !is_there[t.index()]);
                let fresh: Vec<TensorId> = fresh.collect();
                fresh.iter().for_each(|tensor| is_there[tensor.index()] = true);
                runs.push(Run { op: maker.0, again: true, fresh });
            }
        }
    }
    Some(())
}

/// The runs as steps, in which what is not needed any more is dropped.
fn with_drops(problem: &Problem, runs: &[Run]) -> Vec<Step> {
    let trace = problem.trace;
    let stays = |tensor: usize| {
        let tensor = TensorId::from_index(tensor);
        problem.model.producer(tensor).is_none() || problem.model.last_use(tensor).is_none()
    };
    let mut is_needed: Vec<bool> = (0..trace.tensors.len()).map(stays).collect();
    let mut dropped: Vec<Vec<TensorId>> = runs.iter().map(|_| Vec::new()).collect();
    for (run, dropped) in runs.iter().zip(&mut dropped).rev() {
        for tensor in trace.ops[run.op as usize].reads.iter().chain(&run.fresh) {
            if !std::mem::replace(&mut is_needed[tensor.index()], true) {
                dropped.push(*tensor);
            }
        }
        run.fresh.iter().for_each(|tensor| is_needed[tensor.index()] = false);
    }
    let mut steps = Vec::with_capacity(2 * runs.len());
    for (run, dropped) in runs.iter().zip(dropped) {
        let op = OpId(run.op);
        steps.push(if run.again { Step::Again(op) } else { Step::Run(op) });
        steps.extend(dropped.into_iter().map(Step::Drop));
    }
    steps
}
