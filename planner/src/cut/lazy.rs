//! A cut as a plan: what it has at the place is there or on the host, and the rest is made again when it is
//! needed, each op once.

use schema::{OpId, TensorId};
use simulator::Step;

use super::place::{Place, Taken};
use super::ways::{IN, LOST, MEMORY, OUT, Rows, SPENT};
use super::{Search, extra_at};
use crate::Problem;

/// How a choice has a tensor at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Had {
    Here,
    OnHost,
    Not,
}

/// So many choices become steps.
const CHOICES: usize = 3;

/// The steps of a few of the best choices that fit at the place where cuts cost most, the best first. Nothing
/// says that they fit elsewhere. The problem compresses nothing.
pub(crate) fn lazy(problem: &Problem) -> Vec<Vec<Step>> {
    let mut search = Search::new(problem);
    if search.look_around().is_some() || search.extra == 0 {
        return Vec::new();
    }
    let (op, times) = (search.best_at, search.times(search.best_at));
    let mut choices: Vec<(i128, Vec<Had>)> = Vec::new();
    let keep = |place: &Place, prices: &Rows, taken: &Taken| {
        let beyond = &taken.beyond;
        if beyond[MEMORY] > 0 {
            return;
        }
        let mut had = vec![Had::Not; problem.model.tensors()];
        place.had(prices, |tensor, way| {
            had[tensor as usize] = if way[OUT] > 0 { Had::OnHost } else { Had::Here };
        });
        let cost = beyond[OUT].max(beyond[LOST]).max(0) + beyond[IN].max(beyond[SPENT]).max(0);
        choices.push((cost, had));
    };
    let mut place = Place::new(problem, &search.ways, op, times);
    extra_at(problem, &mut place, 0, &mut search.work, keep);
    choices.sort_by_key(|(cost, _)| *cost);
    choices.dedup();
    choices.truncate(CHOICES);
    choices.into_iter().filter_map(|(_, had)| steps(problem, op, &had)).collect()
}

/// One run of an op, and which of its outputs it brings back.
struct Run {
    op: u32,
    again: bool,
    fresh: Vec<TensorId>,
}

/// The schedule in which all is made again as late as it can be; none where something cannot be by then.
fn steps(problem: &Problem, place: usize, had: &[Had]) -> Option<Vec<Step>> {
    let trace = problem.trace;
    let mut runs: Vec<Run> = Vec::new();
    // Before the place all that has been made is there until its last use.
    let mut is_there: Vec<bool> = (0..had.len()).map(|_| true).collect();
    for (index, op) in trace.ops.iter().enumerate() {
        if index == place {
            for tensor in trace.tensors.iter().enumerate().map(|(t, _)| TensorId::from_index(t)) {
                let maker = problem.model.producer(tensor);
                let empty = trace.tensors[tensor.index()].bytes.0 == 0;
                is_there[tensor.index()] = had[tensor.index()] != Had::Not
                    || maker.is_none()
                    || empty
                    || op.reads.contains(&tensor);
            }
        }
        for tensor in &op.reads {
            bring_back(problem, *tensor, index, &mut is_there, &mut runs)?;
        }
        op.writes.iter().for_each(|tensor| is_there[tensor.index()] = true);
        runs.push(Run { op: index as u32, again: false, fresh: op.writes.clone() });
    }
    for tensor in (0..had.len()).map(TensorId::from_index) {
        if problem.model.last_use(tensor).is_none() {
            bring_back(problem, tensor, trace.ops.len(), &mut is_there, &mut runs)?;
        }
    }
    Some(with_departures(problem, &runs, place, had))
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

/// The runs as steps, in which what is not needed any more is dropped, and what the host has at the place is
/// copied there after its last use before that.
fn with_departures(problem: &Problem, runs: &[Run], place: usize, had: &[Had]) -> Vec<Step> {
    let trace = problem.trace;
    let tensors = 0..had.len();
    let is_constant = |t: usize| problem.model.producer(TensorId::from_index(t)).is_none();
    let mut is_needed: Vec<bool> = tensors
        .map(|t| is_constant(t) || problem.model.last_use(TensorId::from_index(t)).is_none())
        .collect();
    let mut left: Vec<bool> = vec![false; had.len()];
    let mut leaving: Vec<Vec<Step>> = runs.iter().map(|_| Vec::new()).collect();
    for (index, run) in runs.iter().enumerate().rev() {
        let op = &trace.ops[run.op as usize];
        for tensor in op.reads.iter().chain(&run.fresh) {
            let t = tensor.index();
            let is_past = !run.again && (run.op as usize) < place;
            if !is_needed[t] {
                leaving[index].push(Step::Drop(*tensor));
            } else if is_past && had[t] == Had::OnHost && !left[t] {
                leaving[index].push(Step::SwapOut(*tensor));
            }
            left[t] |= is_past;
            is_needed[t] = true;
        }
        run.fresh.iter().for_each(|tensor| is_needed[tensor.index()] = false);
    }
    let mut steps = Vec::with_capacity(2 * runs.len());
    for (run, leaving) in runs.iter().zip(leaving) {
        let op = OpId(run.op);
        steps.push(if run.again { Step::Again(op) } else { Step::Run(op) });
        steps.extend(leaving);
    }
    steps
}
