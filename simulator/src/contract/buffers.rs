//! Whether each buffer is one of its tensor's: the part of the contract that looks at no action.

use schema::{Buffer, BufferId, HostBufferId, OpId, Plan, Task, TensorId, Trace};

use super::ContractError;
use crate::{Model, NO_OP};

/// Checks a plan's device buffers, and that they hold what outlives the iteration at its end.
pub(super) fn check(plan: &Plan, trace: &Trace, model: &Model) -> Result<(), ContractError> {
    for (index, buffer) in plan.buffers.iter().enumerate() {
        if let Some(why) = problem(buffer, trace, model) {
            return Err(ContractError::Buffer { buffer: BufferId::from_index(index), why });
        }
    }
    let tensors = trace.tensors.len();
    let at_start = holders(plan, tensors, "begins", |buffer| buffer.at_start)?;
    let at_end = holders(plan, tensors, "ends", |buffer| buffer.at_end)?;
    let homes = homes(plan, trace, model, [&at_start, &at_end])?;
    let is_there = |tensor: &u32| at_end[*tensor as usize].is_some() || homes[*tensor as usize];
    let missing = model.outliving.iter().find(|tensor| !is_there(tensor));
    missing.map_or(Ok(()), |tensor| Err(ContractError::NotThereAtEnd { tensor: TensorId(*tensor) }))
}

/// Checks that what is held stays in the buffer in which it comes to be: from the start or from
/// when it is made for the first time, until it is used for the last time or to the end.
pub(super) fn check_held(plan: &Plan, trace: &Trace, model: &Model) -> Result<(), ContractError> {
    let of = |buffer: &BufferId| plan.buffers[buffer.index()];
    let has =
        |buffer: &Buffer, tensor| buffer.tensor == Some(tensor) && buffer.compressed.is_none();
    let mut run = vec![None; trace.ops.len()];
    for action in &plan.actions {
        if let Task::Run(op) = action.task
            && let Some(run) = run.get_mut(op.index())
        {
            *run = Some(action);
        }
    }
    let run = |op: OpId| run[op.index()];
    let is_kept = |tensor: TensorId| match (model.producer(tensor), model.last_use(tensor)) {
        (None, _) => plan.buffers.iter().any(|b| has(b, tensor) && b.at_start && b.at_end),
        (Some(made), last) => run(made).is_some_and(|action| {
            let mut written = action.writes.iter().filter(|b| has(&of(b), tensor));
            written.any(|buffer| match last {
                None => of(buffer).at_end,
                Some(last) => last == made || run(last).is_some_and(|l| l.reads.contains(buffer)),
            })
        }),
    };
    let mut held = (0..trace.tensors.len()).map(TensorId::from_index);
    let lost = held.find(|tensor| model.is_held(*tensor) && !is_kept(*tensor));
    lost.map_or(Ok(()), |tensor| Err(ContractError::NotHeld { tensor }))
}

fn problem(buffer: &Buffer, trace: &Trace, model: &Model) -> Option<&'static str> {
    let stays = buffer.at_start || buffer.at_end;
    let Some(tensor) = buffer.tensor else {
        let outlives = stays || buffer.compressed.is_some();
        return outlives.then_some("is workspace, which does not outlive its action");
    };
    let Some(expected) = trace.tensors.get(tensor.index()) else {
        return Some("holds a tensor that the trace does not have");
    };
    if buffer.compressed.is_some() {
        if stays {
            return Some("is a compressed form, which does not outlive the iteration");
        }
        return (buffer.bytes >= expected.bytes)
            .then_some("is a compressed form that is not smaller than its tensor");
    }
    if expected.bytes != buffer.bytes {
        return Some("is not as large as its tensor");
    }
    let element = expected.dtype.map_or(1, |dtype| dtype.bytes());
    if !buffer.address.is_multiple_of(element) {
        return Some("does not lie at a multiple of its elements' size");
    }
    (buffer.at_start && model.producer[tensor.index()] != NO_OP)
        .then_some("is there at the start, but an op of the iteration makes its tensor")
}

/// Whether each tensor begins and ends on the host: at one place, so that the plan repeats, and on the
/// device neither then nor then.
fn homes(
    plan: &Plan,
    trace: &Trace,
    model: &Model,
    on_device: [&[Option<BufferId>]; 2],
) -> Result<Vec<bool>, ContractError> {
    let mut places = [vec![None; trace.tensors.len()], vec![None; trace.tensors.len()]];
    for (index, host) in plan.host_buffers.iter().enumerate() {
        let wrong = |why| {
            let buffer = HostBufferId::from_index(index);
            Err(ContractError::Home { buffer, why })
        };
        for (when, stays) in [host.at_start, host.at_end].into_iter().enumerate() {
            let tensor = host.tensor.index();
            if !stays {
                continue;
            }
            let Some(of) = trace.tensors.get(tensor) else {
                return wrong("holds a tensor that the trace does not have");
            };
            if model.producer[tensor] != NO_OP || of.held {
                return wrong(
                    "is there between iterations with what an op makes or the caller holds",
                );
            }
            if host.compressed.is_some() || host.bytes != of.bytes {
                return wrong("is there between iterations, and is not the tensor itself");
            }
            if places[when][tensor].replace(host.address).is_some()
                || on_device[when][tensor].is_some()
            {
                return wrong("is not all that holds its tensor between iterations");
            }
        }
    }
    for (index, host) in
        plan.host_buffers.iter().enumerate().filter(|(_, h)| h.at_start || h.at_end)
    {
        let tensor = host.tensor.index();
        if places[0][tensor] != places[1][tensor] {
            let buffer = HostBufferId::from_index(index);
            let why = "ends elsewhere than it begins, so that the plan does not repeat";
            return Err(ContractError::Home { buffer, why });
        }
    }
    Ok(places[1].iter().map(Option::is_some).collect())
}

/// The buffer of each tensor among those that `is` chooses, of which there may be one.
fn holders(
    plan: &Plan,
    tensors: usize,
    when: &'static str,
    is: impl Fn(&Buffer) -> bool,
) -> Result<Vec<Option<BufferId>>, ContractError> {
    let mut holders: Vec<Option<BufferId>> = vec![None; tensors];
    for (index, buffer) in plan.buffers.iter().enumerate().filter(|(_, buffer)| is(buffer)) {
        let (Some(tensor), second) = (buffer.tensor, BufferId::from_index(index)) else { continue };
        if let Some(first) = holders[tensor.index()].replace(second) {
            return Err(ContractError::TwoHolders { tensor, first, second, when });
        }
    }
    Ok(holders)
}
