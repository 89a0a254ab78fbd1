//! Plans in which part of what outlives the iteration (the optimizer's state, parameters) begins and ends
//! it on the host: it comes in for each use, or stays for the next where there is room, and goes back where
//! it has changed.
//!
//! This is put together from two parts, so that any search that knows nothing of it serves. First is
//! decided which tensors have their homes on the host: those whose copies cost least; as few as leave every
//! op enough, or more where that makes the iteration faster. A method then plans the [rest](rest): the trace
//! without these tensors, whose ops have room set aside for them, on a link that is slower by what they take
//! of it. What it decides is carried out [with them](visits), and timed with all copies as they are. So what
//! a method decides about activations rests on an estimate of what the link has left; the plan's times do not. Beside
//! what the method decides is tried what needs no search ([dearest]), and of the fastest, what is left of memory and of the
//! link is [put to use](refill).
//!
//! What moves, and which updates the host's processor runs, is chosen together: a few of both at first, and then what is near the
//! fastest, with ever smaller steps ([trials]).
//!
//! Where the host's processor runs updates, some of them are tried there, from as many as it has done
//! when the device is done up to all: their gradients leave, and the optimizer's state stays where it is.

mod absences;
pub(crate) mod bound;
mod dearest;
mod order;
mod refill;
mod rest;
mod sets;
mod trials;
mod updates;
mod visits;

use std::collections::BTreeMap;

use schema::{Bytes, Direction, Nanos, OpId, Phase, Plan, Role, TensorId};

use crate::fit::{lower_where_it_fits, share};
use crate::method::{Method, Offload, needs_swap};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Result};
use rest::Rest;
use sets::HALVINGS;
use trials::Trials;
use updates::{ALL, Share, homes_of, updatable};
use visits::{FULL, Stays, TELLING};

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

/// What a plan has on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct There {
    homes: Vec<TensorId>,
    /// What the host's processor runs.
    updates: Vec<OpId>,
    /// By which share they were chosen.
    share: Share,
}

/// Plans with homes on the host, as a method decides about the rest.
///
/// Where a plan is known that keeps all on the device, all effort went into that one: of what moves, what is found with
/// part of it is enough.
///
/// # Errors
/// If no set of them leaves enough memory, the host does not hold them, or the method has no plan.
pub(crate) fn plan(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
    is_kept_known: bool,
) -> Result<Plan> {
    let movable = movable(problem);
    let rough_left = ROUGH_OPS / problem.trace.ops.len().max(1);
    let (best, failure) = (None, None);
    let mut trials = Trials { method, problem, monitor, movable, rough_left, best, failure };
    // Of each choice of updates there some sets: few, of which the smallest leaves room for little, and more.
    let mut left = trials.choices(|of| {
        let fewest = if of[0].updates.is_empty() { 0 } else { of.len() / 4 };
        let some = [fewest, of.len() / 4, of.len() / 2];
        let mut some: Vec<There> = some.iter().map(|index| of[*index].clone()).collect();
        some.dedup();
        some
    });
    // Where nothing there makes the fastest rough plan, it makes the fastest plan.
    let keeps = |of: &[(Nanos, There)]| {
        let [(kept, there), rest @ ..] = of else { return false };
        there.homes.is_empty() && rest.iter().all(|(time, _)| time > kept)
    };
    let keeps = keeps(&left);
    if let Some(plan) = trials.best.take_if(|_| keeps) {
        return Ok(plan);
    }
    // With the updates there with which it is fastest, all sets.
    if let Some((_, fastest)) = left.first().cloned() {
        let near = trials.sets(&fastest.updates, fastest.share).into_iter();
        let near = near.filter(|there| left.iter().all(|(_, tried)| tried != there));
        let near = near.take(trials.rough_left).collect();
        left.extend(trials.round(near, ROUGHLY, false));
    }
    left.sort_by_key(|(time, _)| *time);
    trials.nearer(&mut left);
    let closer = if is_long(problem) { 1 } else { CLOSER };
    let fastest = left.iter().take(closer).map(|(_, there)| there.clone()).collect();
    let mut order: Vec<There> =
        trials.round(fastest, CLOSELY, true).into_iter().map(|of| of.1).collect();
    order.extend(left.into_iter().skip(closer).map(|(_, there)| there));
    // The fastest of which there are addresses.
    let mut wholly = |there: &There| !trials.round(vec![there.clone()], WHOLLY, true).is_empty();
    let _ = (!is_kept_known).then(|| order.iter().find(|there| wholly(there)));
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
    let levels =
        (0..=HALVINGS).map(|level| Bytes(all.0 >> level)).filter(|moved| *moved > Bytes::ZERO);
    let copied = |moved| problem.machine.link.copy_time(Direction::D2h, moved);
    let Some(fewest) = levels.clone().next_back().map(copied) else { return false };
    let mut roomier = problem.clone();
    for moved in levels {
        roomier.budget = problem.budget + moved;
        let Some(least) = roomier.resident().time() else { return false };
        if least + copied(moved) < wanted {
            return true;
        }
        // With less memory no plan is faster.
        if least + fewest >= wanted {
            return false;
        }
    }
    false
}

fn is_long(problem: &Problem) -> bool {
    problem.trace.ops.len() > LONG
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
    let there = There { homes, updates, share: Share { behind: ALL, alone: false } };
    check_times(problem, &there.homes)?;
    let stays = Stays::All(offload == Offload::Updates);
    let way = Way { packed: true, refined: false };
    let (_, plan) = plan_with(method, problem, &there, stays, way, monitor)?;
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

/// What is done with decisions.
#[derive(Clone, Copy)]
struct Way {
    /// Whether they become a plan, which has addresses.
    packed: bool,
    /// Whether what they leave of memory and of the link is put to use.
    refined: bool,
}

/// How long it takes with this on the host, where the method decides about the rest, and the fastest plan where there
/// is to be one.
fn plan_with(
    method: &dyn Method,
    problem: &Problem,
    There { homes, updates, .. }: &There,
    stays: Stays,
    Way { packed, refined }: Way,
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
    let allowed = problem.allowed.and(Allowed::WITHOUT_CODECS).and(method.uses());
    (inner.allowed, inner.limits, inner.is_rough) = (allowed, problem.limits, problem.is_rough);
    let mut failure = None;
    for permille in method.targets() {
        let mut found = match method.candidates(&inner, share(inner.budget, *permille), monitor) {
            Ok(found) => found,
            Err(error) => return Err(failure.unwrap_or(error)),
        };
        // What is best for the rest, whose link is an estimate, need not be with all that moves.
        let (mut ways, mut cause) = (Vec::new(), None);
        if stays == Stays::Some && !is_long(problem) {
            let time = |decided: Decided| {
                let ways = visits::with_homes(&inner, &decided, &moving, stays, &TELLING).ok()?;
                Some((ways.first()?.0, decided))
            };
            let dearest = dearest::dearest(&inner).into_iter().filter_map(time);
            found.extend(dearest.min_by_key(|(time, _)| *time).map(|(_, decided)| decided));
        }
        for decided in &found {
            match visits::with_homes(&inner, decided, &moving, stays, &FULL) {
                Ok(more) => ways.extend(more),
                Err(why) => cause = Some(why),
            }
        }
        if let (true, Some(cause)) = (ways.is_empty(), cause) {
            return Err(PlanError::from_infeasible(cause, problem.budget));
        }
        ways.sort_by_key(|(time, _)| *time);
        if refined
            && stays == Stays::Some
            && !is_long(problem)
            && let Some(faster) = refill::refilled(&moving, &ways[0])
        {
            ways.insert(0, faster);
        }
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
