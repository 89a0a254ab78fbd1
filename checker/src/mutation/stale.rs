//! What is made once more, somewhere else: copies and compressed forms of what changes in place,
//! and reruns of what reads it, before or after it has changed.

use schema::{
    Action, ActionId, Buffer, BufferId, Bytes, CodecId, CodecRef, Fidelity, HostBuffer,
    HostBufferId, Nanos, Plan, Task, TensorId,
};

use super::subject::Subject;

/// Has one to three ops read a copy of a constant instead of the constant. Whether the copy has the
/// version that they need depends on when it was made; it may have been on the host, compressed,
/// both, or have been made smaller by the host.
pub(super) fn copy_of_constant(s: &mut Subject) -> Option<()> {
    let made: std::collections::HashSet<_> = s.trace.ops.iter().flat_map(|op| &op.writes).collect();
    let read = |plan: &Plan, action: &Action| {
        let constant = |id: &BufferId| {
            let buffer = &plan.buffers[id.index()];
            let tensor = buffer.tensor.filter(|_| buffer.compressed.is_none());
            tensor.is_some_and(|tensor| !made.contains(&tensor)).then_some(*id)
        };
        if is_op(action) { action.reads.iter().find_map(constant) } else { None }
    };
    let reader = s.one_of(s.plan.actions.len(), |p, i| read(p, &p.actions[i]).is_some())?;
    let source = read(s.plan, &s.plan.actions[reader])?;
    let Buffer { tensor, bytes, .. } = s.plan.buffers[source.index()];
    let tensor = tensor?;
    let copy = add_buffer(s.plan, Some(tensor), bytes, None);
    s.plan.buffers[copy.index()].at_end = s.random.one_in(8);
    let way = way(s, tensor, bytes, source, copy);
    // Each step goes in just before an action between the source's filling and the reader.
    let fills = |action: &Action| action.writes.contains(&source);
    let filled = s.plan.actions.iter().position(fills).map_or(0, |by| by + 1).min(reader);
    let mut places: Vec<usize> = way
        .iter()
        .map(|_| filled + s.random.below((reader + 1 - filled) as u64) as usize)
        .collect();
    places.sort_unstable();
    let is_ordered = !s.random.one_in(6);
    let mut last: Option<usize> = None;
    let mut left = 1 + s.random.below(3);
    for (step, (mut action, place)) in way.into_iter().zip(places).enumerate() {
        let at = place + step;
        if step == 0 {
            // Whatever has touched the source by now has ended, and what will waits.
            let touched = (0..at).filter(|i| uses(&s.plan.actions[*i], source) && is_ordered);
            action.after = touched.map(ActionId::from_index).collect();
        }
        action.after.extend(last.map(ActionId::from_index));
        insert(s.plan, at, action);
        if step == 0 && is_ordered {
            let later = s.plan.actions[at + 1..].iter_mut().filter(|a| uses(a, source));
            later.for_each(|other| other.after.push(ActionId::from_index(at)));
        }
        last = Some(at);
    }
    let last = last?;
    for action in s.plan.actions[last + 1..].iter_mut().filter(|action| is_op(action)) {
        if let Some(read) = action.reads.iter_mut().find(|id| **id == source && left > 0) {
            *read = copy;
            action.after.push(ActionId::from_index(last));
            left -= 1;
        }
    }
    Some(())
}

/// The actions that bring a tensor from one buffer to another in one of four ways.
fn way(
    s: &mut Subject,
    tensor: TensorId,
    bytes: Bytes,
    source: BufferId,
    copy: BufferId,
) -> Vec<Action> {
    let way = if bytes.0 < 64 { 0 } else { s.random.below(4) };
    let codec = match s.random.one_in(2) || s.plan.codecs.is_empty() {
        true => {
            let zvc =
                CodecRef { codec: "zvc".into(), parameter: None, fidelity: Fidelity::Lossless };
            s.plan.codecs.push(zvc);
            CodecId(s.plan.codecs.len() as u32 - 1)
        }
        false => CodecId(s.random.below(s.plan.codecs.len() as u64) as u32),
    };
    let varies = s.plan.codecs[codec.index()].fidelity.size_varies();
    let small = Bytes(bytes.0 / 2);
    let host_bytes = match way {
        3 => small,
        2 if !varies => small,
        _ => bytes,
    };
    let compressed = (way > 0).then_some(codec);
    let end = s.plan.host_buffers.iter().map(|b| b.address + b.bytes.0).max().unwrap_or_default();
    let host = HostBufferId::from_index(s.plan.host_buffers.len());
    let needs_host = way != 1 || varies;
    if needs_host {
        let buffer = HostBuffer::new(tensor, end, host_bytes);
        s.plan.host_buffers.push(HostBuffer { compressed, ..buffer });
        s.plan.host_budget = s.plan.host_budget.max(Bytes(end + host_bytes.0));
    }
    let host = needs_host.then_some(host);
    let fallback = host.filter(|_| varies);
    let d2h = |from| action(Task::D2h(tensor), &[from], &[], host);
    let h2d = |to| action(Task::H2d(tensor), &[], &[to], host);
    let compress = |to| action(Task::Compress(tensor), &[source], &[to], fallback);
    let decompress = |from| action(Task::Decompress(tensor), &[from], &[copy], fallback);
    match way {
        1 => {
            let form = add_buffer(s.plan, Some(tensor), small, Some(codec));
            vec![compress(form), decompress(form)]
        }
        2 => {
            let form = add_buffer(s.plan, Some(tensor), small, Some(codec));
            let back = add_buffer(s.plan, Some(tensor), small, Some(codec));
            vec![compress(form), d2h(form), h2d(back), decompress(back)]
        }
        _ => vec![d2h(source), h2d(copy)],
    }
}

/// Runs an op once more, right before a later reader of its output, which then reads what that
/// makes.
pub(super) fn run_again(s: &mut Subject) -> Option<()> {
    let (first, reader, output) = (0..50).find_map(|_| {
        let first = s.random.below(s.plan.actions.len() as u64) as usize;
        let action = &s.plan.actions[first];
        let output =
            *action.writes.iter().find(|id| s.plan.buffers[id.index()].tensor.is_some())?;
        let reads = |action: &Action| is_op(action) && action.reads.contains(&output);
        let readers: Vec<usize> =
            (first + 1..s.plan.actions.len()).filter(|i| reads(&s.plan.actions[*i])).collect();
        (is_op(action) && !readers.is_empty()).then(|| (first, s.random.of(&readers), output))
    })?;
    let (Task::Run(op) | Task::Recompute(op)) = s.plan.actions[first].task else { return None };
    let mut again = s.plan.actions[first].clone();
    again.task = Task::Recompute(op);
    again.in_place.clear();
    again.holds.clear();
    again.not_before.clear();
    for id in &mut again.writes {
        let old = s.plan.buffers[id.index()];
        let new = add_buffer(s.plan, old.tensor, old.bytes, None);
        if *id == output {
            *s.plan.actions[reader].reads.iter_mut().find(|id| **id == output)? = new;
        }
        *id = new;
    }
    // What it reads may have come back since.
    for id in &mut again.reads {
        let tensor = s.plan.buffers[id.index()].tensor;
        let latest =
            s.plan.actions[..reader].iter().rev().filter(|a| is_op(a)).find_map(|a| {
                a.reads.iter().find(|id| s.plan.buffers[id.index()].tensor == tensor)
            });
        *id = *latest.filter(|_| !s.random.one_in(4)).unwrap_or(id);
    }
    insert(s.plan, reader, again);
    Some(())
}

fn is_op(action: &Action) -> bool {
    matches!(action.task, Task::Run(_) | Task::Recompute(_))
}

fn uses(action: &Action, buffer: BufferId) -> bool {
    action.reads.iter().chain(&action.writes).any(|id| *id == buffer)
}

fn action(
    task: Task,
    reads: &[BufferId],
    writes: &[BufferId],
    host: Option<HostBufferId>,
) -> Action {
    let (reads, writes) = (reads.to_vec(), writes.to_vec());
    Action { reads, writes, host, ..Action::new(task, Nanos(1)) }
}

/// Puts an action in; edges follow their actions.
fn insert(plan: &mut Plan, at: usize, action: Action) {
    for other in &mut plan.actions {
        for on in other.after.iter_mut().chain(&mut other.not_before) {
            on.0 += u32::from(on.index() >= at);
        }
    }
    plan.actions.insert(at, action);
}

fn add_buffer(
    plan: &mut Plan,
    tensor: Option<TensorId>,
    bytes: Bytes,
    compressed: Option<CodecId>,
) -> BufferId {
    let end = plan.buffers.iter().map(|b| b.address + b.bytes.0).max().unwrap_or_default();
    let address = end.next_multiple_of(256);
    plan.buffers.push(Buffer { compressed, ..Buffer::new(tensor, address, bytes) });
    plan.budget = plan.budget.max(Bytes(address + bytes.0));
    BufferId::from_index(plan.buffers.len() - 1)
}
