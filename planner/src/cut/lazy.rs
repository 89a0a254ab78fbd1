//! A cut as a schedule: what it holds at the place is held, and the rest is made again or copied in
//! when it is needed, each op once.

use schema::TensorId;

use super::carried::Had;
use super::late::Late;
use super::ways::{MEMORY, SPENT};
use super::{Place, Search, extra_at};
use crate::Problem;
use crate::runs::{Rerun, Reruns, stage};

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
    let had = |held: &[bool], t: TensorId| if held[t.index()] { Had::Held } else { Had::Not };
    let reruns = |(_, all): (i128, Vec<bool>)| reruns(problem, &[op], &|_, t| had(&all, t));
    Some(choices.into_iter().map(reruns).collect())
}

/// The schedule in which all is made again as late as it can be, but for what is held at some
/// places, by their number, and what an item brings back that is left out there. What cannot be made
/// again by then is held.
pub(super) fn reruns(
    problem: &Problem,
    places: &[usize],
    had: &dyn Fn(usize, TensorId) -> Had,
) -> Vec<Rerun> {
    let trace = problem.trace;
    let tensors = || (0..trace.tensors.len()).map(TensorId::from_index);
    let mut reruns = Reruns::default();
    // Before the first place all that has been made is there until its last use.
    let mut state = vec![Had::Held; trace.tensors.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        if let Ok(place) = places.binary_search(&index) {
            let maker = |tensor| problem.model.producer(tensor);
            let is_made = |t: &TensorId| maker(*t).is_none_or(|maker| maker.index() < index);
            for tensor in tensors().filter(|t| is_made(t) && had(place, *t) == Had::Held) {
                bring_back(problem, tensor, index, &mut state, &mut reruns);
            }
            for tensor in tensors() {
                let empty = trace.tensors[tensor.index()].bytes.0 == 0;
                let had = had(place, tensor);
                let is_there = had == Had::Held
                    || maker(tensor).is_none() && had == Had::Not
                    || problem.model.holds(tensor, index)
                    || empty
                    || op.reads.contains(&tensor) && state[tensor.index()] == Had::Held;
                state[tensor.index()] = if is_there { Had::Held } else { had };
            }
        }
        for tensor in &op.reads {
            bring_back(problem, *tensor, index, &mut state, &mut reruns);
        }
        op.writes.iter().for_each(|tensor| state[tensor.index()] = Had::Held);
    }
    for tensor in tensors().filter(|tensor| problem.model.last_use(*tensor).is_none()) {
        bring_back(problem, tensor, trace.ops.len(), &mut state, &mut reruns);
    }
    reruns.all
}

/// Runs again or copies in what is needed to have a tensor before an op, inputs first.
fn bring_back(
    problem: &Problem,
    tensor: TensorId,
    before: usize,
    state: &mut [Had],
    reruns: &mut Reruns,
) {
    let mut stack = vec![tensor];
    while let Some(wanted) = stack.last().copied() {
        if let Had::Back(item) = state[wanted.index()] {
            reruns.push(before, item);
            state[wanted.index()] = Had::Held;
        }
        let maker = problem.model.remade_by(wanted);
        let maker = maker.filter(|maker| problem.model.rerunnable_until(*maker) >= before);
        let (Some(maker), Had::Not) = (maker, state[wanted.index()]) else {
            state[wanted.index()] = Had::Held;
            stack.pop();
            continue;
        };
        let op = &problem.trace.ops[maker.index()];
        match op.reads_again().iter().find(|input| state[input.index()] != Had::Held) {
            Some(input) => stack.push(*input),
            None => {
                op.writes_again().iter().for_each(|tensor| state[tensor.index()] = Had::Held);
                reruns.push(before, maker.0);
            }
        }
    }
}

/// By op, the most that is on the device from the first rerun before it until it has ended, if
/// each tensor stays until it is read last before it is made again. An item, numbered after the ops,
/// copies a tensor in as late as can be, and out before that as soon as can be.
pub(super) fn loads(problem: &Problem, reruns: &[Rerun]) -> Vec<u64> {
    let trace = problem.trace;
    let ops = trace.ops.len();
    let mut runs: Vec<(usize, usize)> = Vec::with_capacity(ops + reruns.len());
    let mut next = reruns.iter().peekable();
    for op in 0..=ops {
        while let Some((_, again)) = next.next_if(|(key, _)| stage(*key) == op) {
            runs.push((op, *again as usize));
        }
        runs.extend((op < ops).then_some((op, op)));
    }
    let late = Late::new(problem, &runs);
    let bytes = |tensor: TensorId| i128::from(trace.tensors[tensor.index()].bytes.0);
    let mut changes = vec![0i128; runs.len() + 1];
    // By tensor: from when on it is there, and who reads it last.
    let mut there: Vec<Option<(usize, usize)>> = vec![None; trace.tensors.len()];
    let mut gone = |tensor: TensorId, (from, to): (usize, usize)| {
        changes[from] += bytes(tensor);
        changes[to + 1] -= bytes(tensor);
        // The last reader may lay an output over it.
        let reader = runs.get(to).and_then(|(_, op)| trace.ops.get(*op));
        let over = reader.iter().flat_map(|op| op.in_place.iter().find(|p| p.input == tensor));
        let shared: i128 = over.map(|pair| bytes(pair.input).min(bytes(pair.output))).sum();
        changes[to] -= shared;
        changes[to + 1] += shared;
    };
    for (now, (_, op)) in runs.iter().enumerate() {
        let Some(run) = trace.ops.get(*op) else {
            let tensor = op - ops;
            let (from, to) = there[tensor].unwrap_or((0, 0));
            let begin = late.begins[now].max(to + 1).min(now);
            there[tensor] = Some((begin, now));
            gone(
                TensorId::from_index(tensor),
                (from, late.leaves[now].clamp(to, begin.max(to + 1) - 1)),
            );
            continue;
        };
        for tensor in &run.reads {
            let (from, _) = there[tensor.index()].unwrap_or((0, 0));
            there[tensor.index()] = Some((from, now));
        }
        for tensor in &run.writes {
            if let Some(before) = there[tensor.index()].replace((now, now)) {
                gone(*tensor, before);
            }
        }
    }
    for (tensor, there) in there.into_iter().enumerate() {
        let tensor = TensorId::from_index(tensor);
        let stays = problem.model.last_use(tensor).is_none();
        let is_constant = problem.model.producer(tensor).is_none();
        let Some((from, to)) = there.or(is_constant.then_some((0, 0))) else { continue };
        gone(tensor, (from, if stays { runs.len() - 1 } else { to }));
    }
    let (mut now, mut most) = (0, vec![0; ops + 1]);
    for (index, (stage, op)) in runs.iter().enumerate() {
        now += changes[index];
        let workspace = trace.ops.get(*op).map_or(0, |op| op.workspace.0);
        let all = now + i128::from(workspace);
        most[*stage] = most[*stage].max(u64::try_from(all).unwrap_or(0));
    }
    most
}
