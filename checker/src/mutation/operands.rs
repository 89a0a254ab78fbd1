//! Changes to what actions name.

use schema::{Action, BufferId, Bytes, HostBufferId, InPlaceBuffers, Plan, Task};

use super::subject::Subject;

/// Has a read name another buffer that serves in the stead of the first.
fn replace_read(s: &mut Subject, serves: impl Fn(&Plan, usize, usize) -> bool) -> Option<()> {
    for _ in 0..20 {
        let action = s.action(|action| !action.reads.is_empty())?;
        let reads = s.plan.actions[action].reads.len() as u64;
        let read = s.random.below(reads) as usize;
        let old = s.plan.actions[action].reads[read].index();
        let other = |plan: &Plan, other: usize| other != old && serves(plan, old, other);
        if let Some(other) = s.one_of(s.plan.buffers.len(), other) {
            s.plan.actions[action].reads[read] = BufferId::from_index(other);
            return Some(());
        }
    }
    None
}

pub(super) fn other_buffer(s: &mut Subject) -> Option<()> {
    replace_read(s, |plan, old, other| plan.buffers[other].tensor == plan.buffers[old].tensor)
}

pub(super) fn other_tensor(s: &mut Subject) -> Option<()> {
    replace_read(s, |plan, old, other| plan.buffers[other].bytes == plan.buffers[old].bytes)
}

pub(super) fn move_operand(s: &mut Subject) -> Option<()> {
    let action = s.action(|a| !(a.reads.is_empty() && a.writes.is_empty()))?;
    let action = &mut s.plan.actions[action];
    let from = s.random.below(3);
    let lists = [&mut action.reads, &mut action.writes, &mut action.holds];
    let mut order = [0, 1, 2];
    order.rotate_left(from as usize);
    let from = order.into_iter().find(|list| !lists[*list].is_empty())?;
    let operand = s.random.below(lists[from].len() as u64) as usize;
    let to = (from + 1 + s.random.below(2) as usize) % 3;
    let [reads, writes, holds] = lists;
    let lists = [reads, writes, holds];
    let operand = lists[from].remove(operand);
    lists[to].push(operand);
    Some(())
}

pub(super) fn drop_operand(s: &mut Subject) -> Option<()> {
    let action = s.action(|a| !(a.reads.is_empty() && a.writes.is_empty()))?;
    let action = &mut s.plan.actions[action];
    let reads = action.reads.len() as u64;
    let operand = s.random.below(reads + action.writes.len() as u64);
    match operand < reads {
        true => action.reads.remove(operand as usize),
        false => action.writes.remove((operand - reads) as usize),
    };
    Some(())
}

pub(super) fn add_operand(s: &mut Subject) -> Option<()> {
    let action = s.action(|_| true)?;
    let buffer = BufferId(s.random.below(s.plan.buffers.len() as u64) as u32);
    let action = &mut s.plan.actions[action];
    match s.random.one_in(2) {
        true => action.reads.push(buffer),
        false => action.holds.push(buffer),
    }
    Some(())
}

pub(super) fn drop_hold(s: &mut Subject) -> Option<()> {
    let action = s.action(|action| !action.holds.is_empty())?;
    let holds = &mut s.plan.actions[action].holds;
    holds.remove(s.random.below(holds.len() as u64) as usize);
    Some(())
}

pub(super) fn drop_pair(s: &mut Subject) -> Option<()> {
    let action = s.action(|action| !action.in_place.is_empty())?;
    s.plan.actions[action].in_place.pop();
    Some(())
}

pub(super) fn add_pair(s: &mut Subject) -> Option<()> {
    let action = s.action(|a| !(a.reads.is_empty() || a.writes.is_empty()))?;
    let action = &mut s.plan.actions[action];
    let input = action.reads[s.random.below(action.reads.len() as u64) as usize];
    let output = action.writes[s.random.below(action.writes.len() as u64) as usize];
    action.in_place.push(InPlaceBuffers { input, output });
    if s.random.one_in(2) {
        s.plan.buffers[output.index()].address = s.plan.buffers[input.index()].address;
    }
    Some(())
}

pub(super) fn separate_pair(s: &mut Subject) -> Option<()> {
    let action = s.action(|action| !action.in_place.is_empty())?;
    let InPlaceBuffers { input, output } = s.plan.actions[action].in_place[0];
    let moved = if s.random.one_in(2) { input } else { output }.index();
    let end = s.plan.buffers.iter().map(|b| b.address + b.bytes.0).max()?;
    match s.random.below(3) {
        // Behind all others, where nothing is in the way.
        0 => {
            let buffer = &mut s.plan.buffers[moved];
            buffer.address = end;
            let end = end + buffer.bytes.0;
            s.plan.budget = s.plan.budget.max(Bytes(end));
            s.plan.predicted.arena = s.plan.predicted.arena.max(Bytes(end));
        }
        1 => s.plan.buffers[moved].address += 1 + s.random.below(256),
        _ => {
            let back = 1 + s.random.below(256);
            let address = &mut s.plan.buffers[moved].address;
            *address = address.checked_sub(back)?;
        }
    }
    Some(())
}

/// Has an action name another host buffer, of the same tensor or of any.
pub(super) fn replace_host(s: &mut Subject, of_tensor: bool) -> Option<()> {
    for _ in 0..20 {
        let action = s.action(|action| named(action) > 0)?;
        let place = s.random.below(named(&s.plan.actions[action]) as u64) as usize;
        let old = host_at(&mut s.plan.actions[action], place)?.index();
        let serves = |plan: &Plan, other: usize| {
            let hosts = &plan.host_buffers;
            other != old && (!of_tensor || hosts[other].tensor == hosts[old].tensor)
        };
        if let Some(other) = s.one_of(s.plan.host_buffers.len(), serves) {
            *host_at(&mut s.plan.actions[action], place)? = HostBufferId::from_index(other);
            return Some(());
        }
    }
    None
}

/// How many host buffers an action names.
fn named(action: &Action) -> usize {
    usize::from(action.host.is_some()) + action.there.len()
}

fn host_at(action: &mut Action, place: usize) -> Option<&mut HostBufferId> {
    action.host.iter_mut().chain(&mut action.there).nth(place)
}

pub(super) fn drop_host(s: &mut Subject) -> Option<()> {
    let is_codec = |task| matches!(task, Task::Compress(_) | Task::Decompress(_));
    let action = match s.random.one_in(2) {
        true => s.action(|action| action.host.is_some() && is_codec(action.task))?,
        false => s.action(|action| named(action) > 0)?,
    };
    let action = &mut s.plan.actions[action];
    if action.host.take().is_none() {
        action.there.pop();
    }
    Some(())
}
