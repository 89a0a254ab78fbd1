//! Plans in which part of what outlives the iteration (the optimizer's state, parameters) begins and ends
//! it on the host: it comes in for each use, or stays for the next where there is room, and goes back where
//! it has changed.
//!
//! This is put together from two parts, so that any search that knows nothing of it serves. First is
//! decided which tensors have their homes on the host: those that no op uses, then those whose copies cost
//! least; as few as leave every op enough, or more where that makes the iteration faster. A method then plans the [rest](rest): the trace without these tensors, whose ops
//! have room set aside for them, on a link that is slower by what they take of it. What it decides is
//! carried out [with them](visits), and timed with all copies as they are. So what a method decides about
//! activations rests on an estimate of what the link has left; the plan's times do not.
//!
//! Where the host's processor runs updates, some of them are tried there, from as many as it has done
//! when the device is done up to all: their gradients leave, and the optimizer's state stays where it is.

pub(crate) mod bound;
mod rest;
mod visits;

use std::collections::BTreeMap;

use schema::{Bytes, Direction, Nanos, OpId, Phase, Plan, Processor, Role, TensorId};
use simulator::Infeasible;

use crate::cut::needed_at_least;
use crate::fit::{lower_where_it_fits, share};
use crate::method::{Method, Offload, needs_swap};
use crate::{Allowed, Monitor, PlanError, Problem, Result};
use rest::Rest;
use visits::Stays;

/// Of what need not move, all, half, a quarter and so on are tried, with so many steps.
const HALVINGS: u32 = 6;

/// Sets are tried in rounds, ever fewer with ever more of a search's evaluations (successive halving,
/// Jamieson and Talwalkar 2016): which part each has of them, and how many sets of the fastest are left.
const ROUNDS: [(u64, usize); 3] = [(100, usize::MAX), (10, 3), (1, 1)];

/// Of what was put together, so many are tried until one can be packed.
const PACKED: usize = 4;

/// The host's processor is given updates as long as it is no further behind the device than so much, in
/// parts of [`ALL`] of what it takes for all. Where both have about as much to do, small differences tell.
const ALL: u64 = 32;
const BEHIND: [u64; 10] = [0, 2, 4, 5, 6, 7, 8, 12, 16, ALL];

/// Of so many choices of updates there, those with which it is fastest, all sets are tried.
const CHOSEN: usize = 2;

/// What a plan has on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct There {
    homes: Vec<TensorId>,
    /// What the host's processor runs.
    updates: Vec<OpId>,
}

/// Plans with homes on the host, as a method decides about the rest.
///
/// # Errors
/// If no set of them leaves enough memory, the host does not hold them, or the method has no plan.
pub(crate) fn plan(method: &dyn Method, problem: &Problem, monitor: &dyn Monitor) -> Result<Plan> {
    let movable = movable(problem);
    // First without updates there.
    let mut choices = given(problem, &updatable(problem, &movable));
    choices.insert(0, Vec::new());
    let (mut all, mut failure) = (Vec::new(), None);
    for updates in &choices {
        match sets(problem, &movable, updates) {
            Ok(sets) => all.push(sets),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let mut trials = Trials { method, problem, monitor, best: None, failure };
    // Of each choice of updates there the fewest and the most, and one between.
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for of in all {
        let places = [0, of.len() / 2, of.len() - 1];
        for (at, there) in of.into_iter().enumerate() {
            let is_first = there.updates.is_empty() || places.contains(&at);
            if is_first { &mut first } else { &mut rest }.push(there);
        }
    }
    let mut left = trials.round(first, ROUNDS[0]);
    let mut fastest: Vec<Vec<OpId>> = Vec::new();
    for (_, there) in &left {
        if fastest.len() < CHOSEN && !fastest.contains(&there.updates) {
            fastest.push(there.updates.clone());
        }
    }
    let is_near = |there: &There| fastest.contains(&there.updates);
    let near = rest.into_iter().filter(is_near).collect();
    left.extend(trials.round(near, ROUNDS[0]));
    left.sort_by_key(|(time, _)| *time);
    for round in &ROUNDS[1..] {
        let sets = left.iter().map(|(_, there)| there.clone()).collect();
        let tried = trials.round(sets, *round);
        left = if tried.is_empty() { left } else { tried };
    }
    trials.best.ok_or(trials.failure.unwrap_or(PlanError::Interrupted))
}

/// Sets that are tried, and the best plan so far.
struct Trials<'a> {
    method: &'a dyn Method,
    problem: &'a Problem<'a>,
    monitor: &'a dyn Monitor,
    best: Option<Plan>,
    failure: Option<PlanError>,
}

impl Trials<'_> {
    /// Tries so many sets at most with a part of the evaluations: those with a plan, the fastest first.
    fn round(&mut self, mut sets: Vec<There>, (part, most): (u64, usize)) -> Vec<(Nanos, There)> {
        sets.truncate(most);
        let evaluations = (self.problem.limits.evaluations / part).max(1);
        let mut trial = self.problem.clone().with_evaluations(evaluations);
        trial.is_rough = part > 1;
        let mut tried = Vec::new();
        for there in sets {
            match plan_with(self.method, &trial, &there, Stays::Some, self.monitor) {
                Ok(plan) => {
                    let time = plan.predicted.iteration;
                    tried.push((time, there));
                    if self.best.as_ref().is_none_or(|best| time < best.predicted.iteration) {
                        self.monitor.found(time);
                        self.best = Some(plan);
                    }
                }
                // All that is tried after that is interrupted as well.
                Err(PlanError::Interrupted) => break,
                Err(error) => self.failure = self.failure.take().or(Some(error)),
            }
        }
        tried.sort_by_key(|(time, _)| *time);
        tried
    }
}

/// Which updates to try on the host, of those that may be there: each as long as its processor is no
/// further behind the device than so much, and no further than that when the device is done.
fn given(problem: &Problem, updatable: &[OpId]) -> Vec<Vec<OpId>> {
    let time = |op: &OpId| problem.update_time_there(*op).map_or(0, |time| time.0);
    let all = updatable.iter().map(time).sum::<u64>();
    let begins = begins(problem);
    // What the iteration begins with would wait for its parameter to come in: those updates are there only where
    // all are that may be.
    let first_use = first_uses(problem);
    let comes_in_time = |op: &&OpId| {
        problem.model.reads(**op).all(|id| {
            let bytes = problem.trace.tensors[id.index()].bytes;
            let copy = problem.machine.link.copy_time(Direction::H2d, bytes);
            problem.model.producer(id).is_some() || begins[first_use[id.index()]] >= copy.0
        })
    };
    let given = BEHIND.iter().map(|part| {
        let behind = u128::from(all) * u128::from(*part) / u128::from(ALL);
        let within = |then: u64, than: u64| u128::from(then) <= u128::from(than) + behind;
        let mut until = 0;
        let is_given = |op: &&OpId| {
            let begin = begins[op.index()];
            let done = begin.max(until) + time(op);
            let given = within(until, begin) && within(done, begins[begins.len() - 1]);
            until = if given { done } else { until };
            given
        };
        let tried = updatable.iter().filter(|op| *part == ALL || comes_in_time(op));
        tried.filter(is_given).copied().collect()
    });
    let mut given: Vec<Vec<OpId>> = given.filter(|of: &Vec<OpId>| !of.is_empty()).collect();
    given.dedup();
    given
}

/// The first op that reads each tensor, or the number of ops.
fn first_uses(problem: &Problem) -> Vec<usize> {
    let mut first = vec![problem.trace.ops.len(); problem.trace.tensors.len()];
    for (index, op) in problem.trace.ops.iter().enumerate().rev() {
        op.reads.iter().for_each(|id| first[id.index()] = index);
    }
    first
}

/// Plans in which the host's processor runs all updates that it may, as a method decides about the rest.
///
/// # Errors
/// If it may run none, or all but what the method has there does not fit.
pub(crate) fn offloaded(
    method: &dyn Method,
    offload: Offload,
    problem: &Problem,
    monitor: &dyn Monitor,
) -> Result<Plan> {
    needs_swap(problem)?;
    if problem.machine.host.updates.is_none() {
        return Err(PlanError::NoUpdatesThere);
    }
    let updates = updatable(problem, &movable(problem));
    if updates.is_empty() {
        let what = "optimizer's updates of parameters and state that the caller does not hold";
        return Err(PlanError::NotApplicable { what });
    }
    let homes = homes_of(problem, &updates);
    let there = There { homes, updates };
    check_times(problem, &there.homes)?;
    plan_with(method, problem, &there, Stays::All(offload == Offload::Updates), monitor)
}

/// The updates that the host's processor may run, in the order of the trace: all that they read and no op
/// makes may move.
fn updatable(problem: &Problem, movable: &[TensorId]) -> Vec<OpId> {
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
    };
    ops.filter(may).collect()
}

fn is_update(op: &schema::Op) -> bool {
    op.may_run_on(Processor::Host)
}

/// What updates read and no op makes.
fn homes_of(problem: &Problem, updates: &[OpId]) -> Vec<TensorId> {
    let read = updates.iter().flat_map(|op| problem.model.reads(*op));
    let mut homes: Vec<TensorId> =
        read.filter(|id| problem.model.producer(*id).is_none()).collect();
    homes.sort_unstable();
    homes.dedup();
    homes
}

/// What may move, the first to do so first: parameters and the optimizer's state that the caller does not
/// hold. First comes what costs least for its bytes: the time of its copies, in for the updates and once
/// more where others use it, and out, and twice what of the way out is left to do when the last op has
/// ended. Of what costs the same, the first few are spread over the time in which it is used, so that the link
/// has something to do all along and never too much at once.
fn movable(problem: &Problem) -> Vec<TensorId> {
    let trace = problem.trace;
    let begins = begins(problem);
    let mut uses = vec![(0u32, 0u32, usize::MAX, 0); trace.tensors.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        for tensor in &op.reads {
            let (updates, others, first, last) = &mut uses[tensor.index()];
            *if op.phase == Phase::Update { &mut *updates } else { &mut *others } += 1;
            (*first, *last) = (index.min(*first), index);
        }
    }
    let is_movable = |id: &TensorId| {
        let tensor = &trace.tensors[id.index()];
        let is_state = matches!(tensor.role, Role::Parameter | Role::OptimizerState);
        let is_there = problem.model.producer(*id).is_none() && !problem.model.is_held(*id);
        is_state && is_there && tensor.bytes > Bytes::ZERO
    };
    let movable = (0..trace.tensors.len()).map(TensorId::from_index).filter(is_movable);
    let mut movable: Vec<_> = movable.map(|id| (id, uses[id.index()])).collect();
    let is_used = |first: usize| first < trace.ops.len();
    // The time in which what is used as often begins to be used.
    let mut spans: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (_, (updates, others, first, _)) in movable.iter().filter(|(_, used)| is_used(used.2)) {
        let (begin, end) = spans.entry((*updates, *others)).or_insert((u64::MAX, 0));
        (*begin, *end) = (begins[*first].min(*begin), begins[*first].max(*end));
    }
    movable.sort_by_cached_key(|(id, (updates, others, first, last))| {
        if !is_used(*first) {
            return (0, 0, 0, *id);
        }
        let bytes = trace.tensors[id.index()].bytes;
        let [out, back] = [Direction::D2h, Direction::H2d]
            .map(|way| u128::from(problem.machine.link.copy_time(way, bytes).0));
        let left = u128::from(begins[trace.ops.len()] - begins[last + 1]);
        let ways = u128::from(*updates > 0) + u128::from(*others > 0);
        // In halves of what a way in and a way out cost.
        let cost = 2 * (back * ways + out + 2 * out.saturating_sub(left)) / (out + back).max(1);
        (cost, place_in(spans[&(*updates, *others)], begins[*first]), *first, *id)
    });
    movable.into_iter().map(|(id, _)| id).collect()
}

/// When each op begins, where all run one after the other, and when the last has ended.
fn begins(problem: &Problem) -> Vec<u64> {
    let ends = problem.trace.ops.iter().scan(0, |sum, op| {
        *sum += op.duration.0;
        Some(*sum)
    });
    std::iter::once(0).chain(ends).collect()
}

/// The place of a moment of a time among moments that are to be spread over it: halves before quarters,
/// and so on. First and last come last: what is needed as the time begins waits for its copy, and nothing
/// runs beside what leaves at its end.
fn place_in((begin, end): (u64, u64), moment: u64) -> u16 {
    let share =
        u128::from(moment - begin) * u128::from(u16::MAX) / u128::from((end - begin).max(1));
    (share as u16).reverse_bits().wrapping_sub(1)
}

/// The sets of tensors to try, where the host's processor runs these updates: each what they need there,
/// and the first few of the others that may move.
fn sets(problem: &Problem, movable: &[TensorId], updates: &[OpId]) -> Result<Vec<There>> {
    let bytes = |id: &TensorId| problem.trace.tensors[id.index()].bytes.0;
    let mut all = homes_of(problem, updates);
    let least = all.len();
    all.extend(
        movable
            .iter()
            .filter(|id| all[..least].binary_search(id).is_err())
            .copied()
            .collect::<Vec<_>>(),
    );
    let (movable, updating) = (&all[..], problem.clone().with_updates_there(updates));
    let fits = |count: usize| {
        let rest = Rest::new(&updating, &movable[..count]);
        count >= least && rest.needed() <= problem.budget.0
    };
    let fewest = fewest(movable.len(), fits).max(1);
    let (needed, op) = needed_at_least(problem, true);
    if needed > problem.budget || fewest > movable.len() {
        let needed = needed.max(problem.budget + Bytes(1));
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
        return Err(PlanError::Impossible(Infeasible::HostMemory { needed: Bytes(moved[fewest]) }));
    }
    check_times(problem, movable)?;
    // Of those that the host holds.
    let most = moved.partition_point(|sum| *sum <= problem.host_budget.0) - 1;
    let mut counts = vec![fewest];
    for level in 0..=HALVINGS {
        let wanted = moved[fewest] + ((moved[most] - moved[fewest]) >> level);
        counts.push(moved.partition_point(|sum| *sum < wanted));
    }
    counts.sort_unstable();
    counts.dedup();
    let there =
        |count: usize| There { homes: movable[..count].to_vec(), updates: updates.to_vec() };
    Ok(counts.into_iter().map(there).collect())
}

/// The least number that serves, where more serve as well; one more than there are where none does.
fn fewest(most: usize, serves: impl Fn(usize) -> bool) -> usize {
    let (mut none, mut enough) = (0, most + 1);
    while none < enough {
        let middle = none + (enough - none) / 2;
        if serves(middle) { enough = middle } else { none = middle + 1 }
    }
    enough
}

/// That what moves does so in a time that numbers hold, however often it is read.
fn check_times(problem: &Problem, movable: &[TensorId]) -> Result<()> {
    let link = &problem.machine.link;
    let mut reads = vec![1u128; problem.trace.tensors.len()];
    for op in &problem.trace.ops {
        op.reads.iter().for_each(|tensor| reads[tensor.index()] += 1);
    }
    let copied = movable.iter().map(|id| {
        let bytes = problem.trace.tensors[id.index()].bytes;
        let ways = [Direction::D2h, Direction::H2d].map(|way| link.copy_time(way, bytes));
        // Reruns read it as well.
        ways.iter().map(|time| u128::from(time.0)).sum::<u128>() * 2 * reads[id.index()]
    });
    let ops = (0..problem.trace.ops.len()).map(OpId::from_index);
    let updates = ops.filter_map(|op| problem.update_time_there(op)).map(|time| u128::from(time.0));
    let updates = updates.sum::<u128>();
    match problem.once() + updates + copied.sum::<u128>() > u128::from(Nanos::MOST.0) {
        true => Err(PlanError::TooLong),
        false => Ok(()),
    }
}

/// The fastest plan that has this on the host, where the method decides about the rest.
fn plan_with(
    method: &dyn Method,
    problem: &Problem,
    There { homes, updates }: &There,
    stays: Stays,
    monitor: &dyn Monitor,
) -> Result<Plan> {
    let moving = problem.clone().with_homes(homes).with_updates_there(updates);
    // What stays all the time takes memory all the time.
    let is_away = |id: &&TensorId| {
        stays != Stays::All(true) || problem.trace.tensors[id.index()].role != Role::Parameter
    };
    let away: Vec<TensorId> = homes.iter().filter(is_away).copied().collect();
    let rest = Rest::new(&moving, &away);
    let (trace, machine) = (&rest.trace, rest.machine(problem));
    let mut inner = Problem::new(trace, &machine, problem.budget);
    let moved: Bytes = homes.iter().map(|id| problem.trace.tensors[id.index()].bytes).sum();
    inner.host_budget = problem.host_budget.saturating_sub(moved);
    // Compressed forms are not searched for beside what moves.
    let allowed = method.restricts(Allowed { compress: false, ..problem.allowed });
    (inner.allowed, inner.limits, inner.is_rough) = (allowed, problem.limits, problem.is_rough);
    let mut failure = None;
    for permille in method.targets() {
        let found = match method.candidates(&inner, share(inner.budget, *permille), monitor) {
            Ok(found) => found,
            Err(error) => return Err(failure.unwrap_or(error)),
        };
        // What is best for the rest, whose link is an estimate, need not be with all that moves.
        let (mut ways, mut cause) = (Vec::new(), None);
        for decided in &found {
            match visits::with_homes(&inner, decided, &moving, stays) {
                Ok(more) => ways.extend(more),
                Err(why) => cause = Some(why),
            }
        }
        if let (true, Some(cause)) = (ways.is_empty(), cause) {
            return Err(PlanError::from_infeasible(cause, problem.budget));
        }
        ways.sort_by_key(|(time, _)| *time);
        for (_, decided) in ways.iter().take(PACKED) {
            match lower_where_it_fits(&moving, moving.budget, decided) {
                Ok(plan) => return Ok(plan),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }
    Err(failure.expect("something was tried for each target"))
}
