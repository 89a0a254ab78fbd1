//! Changes to what runs, when.

use schema::{ActionId, OpId, Plan, Processor, Task, TensorId};

use super::subject::Subject;

pub(super) fn drop_after(s: &mut Subject) -> Option<()> {
    let action = s.action(|action| !action.after.is_empty())?;
    let after = &mut s.plan.actions[action].after;
    after.remove(s.random.below(after.len() as u64) as usize);
    Some(())
}

pub(super) fn redirect_after(s: &mut Subject) -> Option<()> {
    let action = s.action(|action| action.after.iter().any(|on| on.0 > 0))?;
    let after = &mut s.plan.actions[action].after;
    let edge = after.iter_mut().find(|on| on.0 > 0)?;
    let back = if s.random.one_in(2) { 1 } else { 1 + s.random.below(u64::from(edge.0)) as u32 };
    edge.0 -= back;
    Some(())
}

pub(super) fn add_after(s: &mut Subject) -> Option<()> {
    let action = s.one_of(s.plan.actions.len(), |_, i| i > 0)?;
    let on = ActionId(s.random.below(action as u64) as u32);
    s.plan.actions[action].after.push(on);
    Some(())
}

pub(super) fn drop_pacing(s: &mut Subject) -> Option<()> {
    s.action(|action| !action.not_before.is_empty())?;
    s.plan.actions.iter_mut().for_each(|action| action.not_before.clear());
    Some(())
}

/// Puts the action at `from` before that at `to`, which comes earlier; edges follow their actions.
fn move_before(plan: &mut Plan, from: usize, to: usize) {
    let action = plan.actions.remove(from);
    plan.actions.insert(to, action);
    rename(plan, |id| match id {
        id if id == from => Some(to),
        id if (to..from).contains(&id) => Some(id + 1),
        id => Some(id),
    });
}

/// Renames the ends of all edges; those that have none now are gone.
fn rename(plan: &mut Plan, new: impl Fn(usize) -> Option<usize>) {
    let renamed = |ids: &[ActionId]| {
        ids.iter().filter_map(|id| new(id.index())).map(ActionId::from_index).collect()
    };
    for action in &mut plan.actions {
        action.after = renamed(&action.after);
        action.not_before = renamed(&action.not_before);
    }
}

/// The place of the action before `action` on its lane, if it may go before that as edges go.
fn place_before(plan: &Plan, action: usize) -> Option<usize> {
    let lane = plan.lane(&plan.actions[action]);
    let before = (0..action).rev().find(|i| plan.lane(&plan.actions[*i]) == lane)?;
    let waits = |on: &ActionId| on.index() >= before;
    (!plan.actions[action].after.iter().any(waits)).then_some(before)
}

pub(super) fn move_up(s: &mut Subject) -> Option<()> {
    let mut action = s.one_of(s.plan.actions.len(), |plan, i| place_before(plan, i).is_some())?;
    for _ in 0..1 + s.random.below(20) {
        let Some(to) = place_before(s.plan, action) else { break };
        s.plan.actions[action].not_before.clear();
        move_before(s.plan, action, to);
        action = to;
    }
    Some(())
}

/// Takes an action out. What came after it comes after what it came after.
fn take_out(plan: &mut Plan, action: usize) {
    let taken = plan.actions.remove(action);
    for other in &mut plan.actions[action..] {
        if other.after.iter().any(|on| on.index() == action) {
            other.after.extend(taken.after.iter().filter(|on| on.index() != action));
        }
    }
    rename(plan, |id| match id {
        id if id == action => None,
        id if id > action => Some(id - 1),
        id => Some(id),
    });
}

pub(super) fn drop_any(s: &mut Subject) -> Option<()> {
    let action = s.action(|_| true)?;
    take_out(s.plan, action);
    Some(())
}

pub(super) fn duplicate(s: &mut Subject) -> Option<()> {
    let action = s.action(|_| true)?;
    let twice = s.plan.actions[action].clone();
    rename(s.plan, |id| Some(if id > action { id + 1 } else { id }));
    s.plan.actions.insert(action + 1, twice);
    Some(())
}

pub(super) fn run_to_recompute(s: &mut Subject) -> Option<()> {
    let action = s.action(|action| matches!(action.task, Task::Run(_)))?;
    let Task::Run(op) = s.plan.actions[action].task else { return None };
    s.plan.actions[action].task = Task::Recompute(op);
    Some(())
}

pub(super) fn recompute_to_run(s: &mut Subject) -> Option<()> {
    let action = s.action(|action| matches!(action.task, Task::Recompute(_)))?;
    let Task::Recompute(op) = s.plan.actions[action].task else { return None };
    s.plan.actions[action].task = Task::Run(op);
    Some(())
}

pub(super) fn other_task(s: &mut Subject) -> Option<()> {
    let action = s.action(|_| true)?;
    let op = OpId(s.random.below(s.trace.ops.len() as u64) as u32);
    let tensor = TensorId(s.random.below(s.trace.tensors.len() as u64) as u32);
    let task = &mut s.plan.actions[action].task;
    let other = match *task {
        Task::Run(_) => Task::Run(op),
        Task::Recompute(_) => Task::Recompute(op),
        Task::D2h(_) => Task::D2h(tensor),
        Task::H2d(_) => Task::H2d(tensor),
        Task::Compress(_) => Task::Compress(tensor),
        Task::Decompress(_) => Task::Decompress(tensor),
    };
    (std::mem::replace(task, other) != other).then_some(())
}

pub(super) fn flip_codec_lane(s: &mut Subject) -> Option<()> {
    s.action(|action| matches!(action.task, Task::Compress(_) | Task::Decompress(_)))?;
    s.plan.codec_lane ^= true;
    Some(())
}

pub(super) fn other_processor(s: &mut Subject) -> Option<()> {
    let action = s.action(|action| matches!(action.task, Task::Run(_) | Task::Recompute(_)))?;
    let on = s.random.of(&[Processor::Device, Processor::Host, Processor::Net]);
    let action = &mut s.plan.actions[action];
    if on != Processor::Host {
        action.there.clear();
    }
    (std::mem::replace(&mut action.on, on) != on).then_some(())
}
