//! Plans in which part of what outlives the iteration (the optimizer's state, parameters) begins and ends
//! it on the host: it comes in for each use, or stays for the next where there is room, and goes back where
//! it has changed.
//!
//! This is put together from two parts, so that any search that knows nothing of it serves. First is
//! decided which tensors have their homes on the host: those whose copies cost least; as few as leave every
//! op enough, or more where that makes the iteration faster. A method then plans the [rest](rest): the trace
//! without these tensors, whose ops have room set aside for them, on a link that is slower by what they take
//! of it. What it decides is carried out [with them](visits), and timed with all copies as they are. So what
//! a method decides about activations rests on an estimate of what the link has left; the plan's times do not.
//!
//! Where the host's processor runs updates, some of them are tried there, from as many as it has done
//! when the device is done up to all: their gradients leave, and the optimizer's state stays where it is.

pub(crate) mod bound;
mod rest;
mod updates;
mod visits;

use std::collections::BTreeMap;

use rayon::prelude::*;
use schema::{Bytes, Direction, Nanos, OpId, Phase, Plan, Role, TensorId};
use simulator::Infeasible;

use crate::bound::resident;
use crate::cut::needed_at_least;
use crate::fit::{fewest, lower_where_it_fits, share};
use crate::method::{Method, Offload, needs_swap};
use crate::{Allowed, Monitor, PlanError, Problem, Result};
use rest::Rest;
use updates::{ALL, given, homes_of, updatable};
use visits::Stays;

/// Of what need not move, all, half, a quarter and so on are tried, with so many steps.
const HALVINGS: u32 = 6;

/// Where what outlives the iteration has room, moving it is looked into for so much of the time: the search for it takes
/// several times as long as the one that keeps it.
const PAYS: u64 = 64;

/// That is on traces of at most so many ops: on longer ones, the search that keeps it takes long enough. There, rough
/// plans have no addresses, and of them the fastest alone is looked into.
const LONG: usize = 20_000;

/// Sets are tried in rounds, ever fewer with ever more of a search's evaluations (successive halving,
/// Jamieson and Talwalkar 2016): which part each has of them, and of how many of the fastest.
const ROUGHLY: u64 = 100;
const CLOSELY: u64 = 10;
const CLOSER: usize = 3;
const WHOLLY: u64 = 1;

/// Rough plans have so many ops together: on long traces, sets with few of the choices of updates alone are tried.
const ROUGH_OPS: usize = 1_000_000;

/// Of what was put together, so many are tried until one can be packed; on long traces, where packing takes
/// longer than all else, the fastest alone.
const PACKED: usize = 4;

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
    let rough_left = ROUGH_OPS / problem.trace.ops.len().max(1);
    let (best, failure) = (None, None);
    let mut trials = Trials { method, problem, monitor, movable, rough_left, best, failure };
    // Of each choice of updates there the fewest sets, and some between them and all.
    let mut left = trials.choices(|of| vec![of[0].clone(), of[of.len() / 2].clone()]);
    // Where nothing there makes the fastest rough plan, it makes the fastest plan.
    let keeps = |of: &[(Nanos, There)]| {
        let [(kept, there), rest @ ..] = of else { return false };
        there.homes.is_empty() && rest.iter().all(|(time, _)| time > kept)
    };
    let keeps = keeps(&left);
    if let Some(plan) = trials.best.take_if(|_| keeps) {
        return Ok(plan);
    }
    let mut fastest: Vec<Vec<OpId>> = Vec::new();
    for (_, there) in &left {
        if fastest.len() < CHOSEN && !fastest.contains(&there.updates) {
            fastest.push(there.updates.clone());
        }
    }
    for updates in fastest {
        let near = trials.sets(&updates).into_iter();
        let near = near.filter(|there| left.iter().all(|(_, tried)| tried != there));
        let near = near.take(trials.rough_left).collect();
        left.extend(trials.round(near, ROUGHLY));
    }
    left.sort_by_key(|(time, _)| *time);
    let closer = if is_long(problem) { 1 } else { CLOSER };
    let fastest = left.iter().take(closer).map(|(_, there)| there.clone()).collect();
    let mut order: Vec<There> = trials.round(fastest, CLOSELY).into_iter().map(|of| of.1).collect();
    order.extend(left.into_iter().skip(closer).map(|(_, there)| there));
    // The fastest of which there are addresses.
    let _ = order.into_iter().find(|there| !trials.round(vec![there.clone()], WHOLLY).is_empty());
    trials.best.ok_or(trials.failure.unwrap_or(PlanError::Interrupted))
}

/// Whether moving may be worth its search where there is a plan that keeps what outlives the iteration, of such a time:
/// whether nothing proves of the memory that it would leave that no plan is faster by a part in [`PAYS`] and by what
/// some of it takes to be copied back.
pub(crate) fn may_pay(problem: &Problem, kept: Nanos) -> bool {
    if is_long(problem) {
        return false;
    }
    let movable = movable(problem);
    let all: Bytes = movable.iter().map(|id| problem.trace.tensors[id.index()].bytes).sum();
    let wanted = Nanos(kept.0 - kept.0 / PAYS);
    (0..=HALVINGS).map(|level| Bytes(all.0 >> level)).filter(|moved| *moved > Bytes::ZERO).any(
        |moved| {
            let mut roomier = problem.clone();
            roomier.budget += moved;
            let copied = problem.machine.link.copy_time(Direction::D2h, moved);
            resident(&roomier).time().is_some_and(|least| least + copied < wanted)
        },
    )
}

fn is_long(problem: &Problem) -> bool {
    problem.trace.ops.len() > LONG
}

/// Sets that are tried, and the best plan so far.
struct Trials<'a> {
    method: &'a dyn Method,
    problem: &'a Problem<'a>,
    monitor: &'a dyn Monitor,
    /// What may move, the first to do so first.
    movable: Vec<TensorId>,
    /// So many more rough plans may be made, those aside without which nothing is known.
    rough_left: usize,
    best: Option<Plan>,
    failure: Option<PlanError>,
}

impl Trials<'_> {
    /// Tries some sets without updates there, and with as many of them as make it fastest: with ever smaller steps
    /// around what was fastest with larger ones. All that were tried, the fastest first.
    fn choices(&mut self, some: impl Fn(&[There]) -> Vec<There>) -> Vec<(Nanos, There)> {
        let updatable = updatable(self.problem, &self.movable);
        let mut known = vec![Vec::new()];
        let sets = self.sets(&[]);
        let mut tried = if sets.is_empty() { Vec::new() } else { self.round(some(&sets), ROUGHLY) };
        let (mut fastest, mut step) = (None::<(Nanos, u64)>, ALL / 4);
        let mut behind: Vec<u64> = (0..=ALL).step_by(step as usize).collect();
        while step > 0 {
            for behind in behind {
                let updates = given(self.problem, &updatable, behind);
                if known.contains(&updates) {
                    continue;
                }
                let sets = self.sets(&updates);
                known.push(updates);
                if !sets.is_empty() {
                    let of = self.round(some(&sets), ROUGHLY);
                    let best = of.first().map(|(time, _)| (*time, behind));
                    fastest = fastest.into_iter().chain(best).min();
                    tried.extend(of);
                }
            }
            let Some((_, middle)) = fastest.filter(|_| self.rough_left > 0) else { break };
            step /= 2;
            behind = vec![middle.saturating_sub(step), (middle + step).min(ALL)];
        }
        tried.sort_by_key(|(time, _)| *time);
        tried
    }

    /// The sets of tensors to try with these updates there; none, and a failure, where there are no such.
    fn sets(&mut self, updates: &[OpId]) -> Vec<There> {
        sets(self.problem, &self.movable, updates).unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            Vec::new()
        })
    }

    /// Tries sets with a part of the evaluations: those with a plan, the fastest first. Addresses, which take long, are
    /// looked for only of the fastest, and on short traces as long as there is no plan to fall back on.
    fn round(&mut self, sets: Vec<There>, part: u64) -> Vec<(Nanos, There)> {
        let evaluations = (self.problem.limits.evaluations / part).max(1);
        let mut trial = self.problem.clone().with_evaluations(evaluations);
        trial.is_rough = part > WHOLLY;
        self.rough_left = self.rough_left.saturating_sub(sets.len());
        let (method, monitor) = (self.method, self.monitor);
        let plan = |there: &There, packed: bool| {
            plan_with(method, &trial, there, Stays::Some, packed, monitor)
        };
        let mut tried = Vec::new();
        let mut sets = sets.into_iter();
        let falls_back = part < ROUGHLY || !is_long(self.problem);
        while falls_back
            && self.best.is_none()
            && let Some(there) = sets.next()
        {
            self.note(plan(&there, true), there, &mut tried);
        }
        let sets: Vec<There> = sets.collect();
        let found: Vec<_> = sets.par_iter().map(|there| plan(there, part < ROUGHLY)).collect();
        for (there, found) in sets.into_iter().zip(found) {
            self.note(found, there, &mut tried);
        }
        tried.sort_by_key(|(time, _)| *time);
        tried
    }

    /// Keeps what came of a set.
    fn note(
        &mut self,
        found: Result<(Nanos, Option<Plan>)>,
        there: There,
        tried: &mut Vec<(Nanos, There)>,
    ) {
        match found {
            Ok((time, plan)) => {
                tried.push((time, there));
                let best = self.best.as_ref().map(|best| best.predicted.iteration);
                if let Some(plan) = plan.filter(|_| best.is_none_or(|best| time < best)) {
                    self.monitor.found(time);
                    self.best = Some(plan);
                }
            }
            Err(PlanError::Interrupted) => {}
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
    }
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
    let stays = Stays::All(offload == Offload::Updates);
    let (_, plan) = plan_with(method, problem, &there, stays, true, monitor)?;
    Ok(plan.expect("it was packed"))
}

/// What may move, the first to do so first: parameters and the optimizer's state that the caller does not
/// hold and some op is known to read (what reads the others, a recording may not say). First comes what
/// costs least for its bytes: the time of its copies, in for the updates and once more where others use it,
/// and out, and twice what of the way out is left to do when the last op has ended. Of what costs the same,
/// the first few are spread over the time in which it is used, so that the link has something to do all
/// along and never too much at once.
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
        let is_read = uses[id.index()].2 < trace.ops.len();
        is_state && is_there && is_read && tensor.bytes > Bytes::ZERO
    };
    let movable = (0..trace.tensors.len()).map(TensorId::from_index).filter(is_movable);
    let mut movable: Vec<_> = movable.map(|id| (id, uses[id.index()])).collect();
    // The time in which what is used as often begins to be used.
    let mut spans: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (_, (updates, others, first, _)) in &movable {
        let (begin, end) = spans.entry((*updates, *others)).or_insert((u64::MAX, 0));
        (*begin, *end) = (begins[*first].min(*begin), begins[*first].max(*end));
    }
    movable.sort_by_cached_key(|(id, (updates, others, first, last))| {
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
/// and the first few of the others that may move, or none where there is room for all.
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

/// How long it takes with this on the host, where the method decides about the rest, and if it is to be packed, the
/// fastest plan.
fn plan_with(
    method: &dyn Method,
    problem: &Problem,
    There { homes, updates }: &There,
    stays: Stays,
    packed: bool,
    monitor: &dyn Monitor,
) -> Result<(Nanos, Option<Plan>)> {
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
        if !packed {
            return Ok((ways[0].0, None));
        }
        for (_, decided) in ways.iter().take(if is_long(problem) { 1 } else { PACKED }) {
            match lower_where_it_fits(&moving, moving.budget, decided) {
                Ok(plan) => return Ok((plan.predicted.iteration, Some(plan))),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }
    Err(failure.expect("something was tried for each target"))
}
