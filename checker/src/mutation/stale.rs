//! Copies of what changes in place, made before or after it has.

use schema::{Action, ActionId, Buffer, BufferId, Bytes, HostBuffer, HostBufferId, Nanos, Task};

use super::Subject;

/// Copies a constant out and back into memory of its own, before some action that reads it, and has
/// that and a few later ones read the copy. Whether that is the version which they need depends on
/// where it was made.
pub(super) fn copy_of_constant(s: &mut Subject) -> Option<()> {
    let made: std::collections::HashSet<_> = s.trace.ops.iter().flat_map(|op| &op.writes).collect();
    let read = |plan: &schema::Plan, action: &Action| {
        let is_op = matches!(action.task, Task::Run(_) | Task::Recompute(_));
        let constant = |id: &BufferId| {
            let buffer = &plan.buffers[id.index()];
            let tensor = buffer.tensor.filter(|_| buffer.compressed.is_none());
            tensor.is_some_and(|tensor| !made.contains(&tensor)).then_some(*id)
        };
        if is_op { action.reads.iter().find_map(constant) } else { None }
    };
    let reader = s.one_of(s.plan.actions.len(), |p, i| read(p, &p.actions[i]).is_some())?;
    let source = read(s.plan, &s.plan.actions[reader])?;
    let Buffer { tensor, bytes, .. } = s.plan.buffers[source.index()];
    let tensor = tensor?;
    // Both copies go in just before an action between the source's filling and the reader.
    let is_filled = |action: &Action| action.writes.contains(&source);
    let filled = s.plan.actions.iter().position(is_filled).map_or(0, |by| by + 1);
    let at = filled + s.random.below((reader + 1 - filled.min(reader)) as u64) as usize;
    let at = at.min(reader);
    for action in &mut s.plan.actions {
        for on in action.after.iter_mut().chain(&mut action.not_before) {
            on.0 += if on.index() >= at { 2 } else { 0 };
        }
    }
    let copy = BufferId::from_index(s.plan.buffers.len());
    let host = HostBufferId::from_index(s.plan.host_buffers.len());
    let out = Action {
        task: Task::CopyOut(tensor),
        duration: Nanos(1),
        // Whatever has touched the source by now has ended.
        after: (0..at)
            .filter(|i| uses(&s.plan.actions[*i], source))
            .map(ActionId::from_index)
            .collect(),
        not_before: Vec::new(),
        reads: vec![source],
        writes: Vec::new(),
        holds: Vec::new(),
        in_place: Vec::new(),
        host: Some(host),
    };
    let back = Action {
        task: Task::CopyIn(tensor),
        after: vec![ActionId::from_index(at)],
        reads: Vec::new(),
        writes: vec![copy],
        ..out.clone()
    };
    // What touches the source from now on waits for the copy.
    for action in s.plan.actions[at..].iter_mut().filter(|action| uses(action, source)) {
        action.after.push(ActionId::from_index(at));
    }
    let mut left = 1 + s.random.below(3);
    for action in s.plan.actions[reader..].iter_mut() {
        let is_op = matches!(action.task, Task::Run(_) | Task::Recompute(_));
        if let Some(read) = action.reads.iter_mut().find(|id| **id == source && is_op && left > 0) {
            *read = copy;
            action.after.push(ActionId::from_index(at + 1));
            left -= 1;
        }
    }
    s.plan.actions.splice(at..at, [out, back]);
    let end = s.plan.buffers.iter().map(|b| b.address + b.bytes.0).max().unwrap_or_default();
    s.plan.buffers.push(Buffer {
        tensor: Some(tensor),
        address: end,
        bytes,
        compressed: None,
        at_start: false,
        at_end: s.random.one_in(4),
    });
    let arena = Bytes(end + bytes.0);
    s.plan.budget = s.plan.budget.max(arena);
    s.plan.predicted.arena = s.plan.predicted.arena.max(arena);
    let end = s.plan.host_buffers.iter().map(|b| b.address + b.bytes.0).max().unwrap_or_default();
    s.plan.host_buffers.push(HostBuffer { tensor, address: end, bytes, compressed: None });
    let arena = Bytes(end + bytes.0);
    s.plan.host_budget = s.plan.host_budget.max(arena);
    s.plan.predicted.host_arena = s.plan.predicted.host_arena.max(arena);
    Some(())
}

fn uses(action: &Action, buffer: BufferId) -> bool {
    action.reads.iter().chain(&action.writes).any(|id| *id == buffer)
}
