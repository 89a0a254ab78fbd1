//! What must hold of a plan as it ran, checked without the simulator's own bookkeeping.

use schema::{BufferId, Plan, Task};

/// Checks one run of a plan, given the start and end of each action.
pub fn run(plan: &Plan, start: &[u64], end: &[u64]) -> Result<(), String> {
    for (id, action) in plan.actions.iter().enumerate() {
        if end[id] == u64::MAX {
            return Err(format!("action {id} ({:?}) never ran: deadlock", action.task));
        }
    }
    reads_find_what_was_written(plan, start, end)?;
    let lives = lives(plan, start, end);
    let in_place = |a: usize, b: usize| {
        let pair = |p: &schema::InPlaceBuffers| (p.input.index(), p.output.index());
        plan.actions
            .iter()
            .flat_map(|a| &a.in_place)
            .any(|p| pair(p) == (a, b) || pair(p) == (b, a))
    };
    for (a, first) in plan.buffers.iter().enumerate() {
        if first.address + first.bytes.0 > plan.budget.0 {
            return Err(format!("buffer {a} ends beyond the arena"));
        }
        for (b, second) in plan.buffers.iter().enumerate().skip(a + 1) {
            let share_addresses = first.address < second.address + second.bytes.0
                && second.address < first.address + first.bytes.0
                && first.bytes.0 > 0
                && second.bytes.0 > 0;
            let (x, y) = (lives[a], lives[b]);
            let together = x.0 < y.1 && y.0 < x.1;
            if share_addresses && together && !in_place(a, b) {
                return Err(format!("buffers {a} and {b} live at one address: {x:?} and {y:?}"));
            }
        }
    }
    host_buffers_are_apart(plan, start, end)
}

/// A host buffer lives from the start of the first action that fills or reads it to the end of
/// the last.
fn host_buffers_are_apart(plan: &Plan, start: &[u64], end: &[u64]) -> Result<(), String> {
    let mut lives: Vec<Option<(u64, u64)>> = vec![None; plan.host_buffers.len()];
    for (id, action) in plan.actions.iter().enumerate() {
        if let Some(host) = action.host {
            let life = lives[host.index()].get_or_insert((start[id], end[id]));
            *life = (life.0.min(start[id]), life.1.max(end[id]));
        }
    }
    for (a, first) in plan.host_buffers.iter().enumerate() {
        if first.address + first.bytes.0 > plan.host_budget.0 {
            return Err(format!("host buffer {a} ends beyond the arena"));
        }
        for (b, second) in plan.host_buffers.iter().enumerate().skip(a + 1) {
            let share_addresses = first.address < second.address + second.bytes.0
                && second.address < first.address + first.bytes.0;
            let (Some(x), Some(y)) = (lives[a], lives[b]) else { continue };
            if share_addresses && x.0 < y.1 && y.0 < x.1 {
                return Err(format!("host buffers {a} and {b} live at one address: {x:?}, {y:?}"));
            }
        }
    }
    Ok(())
}

fn reads_find_what_was_written(plan: &Plan, start: &[u64], end: &[u64]) -> Result<(), String> {
    let mut written_at = vec![None; plan.buffers.len()];
    let mut on_host_at = vec![None; plan.host_buffers.len()];
    let mut compressed_at = vec![None; plan.host_buffers.len()];
    for (buffer, _) in plan.buffers.iter().enumerate().filter(|(_, b)| b.at_start) {
        written_at[buffer] = Some(0);
    }
    for (id, action) in plan.actions.iter().enumerate() {
        action.writes.iter().for_each(|b| written_at[b.index()] = Some(end[id]));
        if let (Task::D2h(_), Some(host)) = (action.task, action.host) {
            on_host_at[host.index()] = Some(end[id]);
        }
        if let (Task::Compress(_), Some(host)) = (action.task, action.host) {
            compressed_at[host.index()] = Some(end[id]);
        }
    }
    for (id, action) in plan.actions.iter().enumerate() {
        for BufferId(buffer) in &action.reads {
            if written_at[*buffer as usize].is_none_or(|at| at > start[id]) {
                return Err(format!("action {id} reads buffer {buffer} before it is written"));
            }
        }
        if let (Task::H2d(_), Some(host)) = (action.task, action.host)
            && on_host_at[host.index()].is_none_or(|at| at > start[id])
        {
            return Err(format!("action {id} copies in what is not on the host"));
        }
        if let (Task::Decompress(_), Some(host)) = (action.task, action.host)
            && compressed_at[host.index()].is_none_or(|at| at > start[id])
        {
            return Err(format!("action {id} falls back on what is not on the host"));
        }
    }
    Ok(())
}

/// From the start of the action that writes a buffer to the end of the last that uses it.
fn lives(plan: &Plan, start: &[u64], end: &[u64]) -> Vec<(u64, u64)> {
    let mut lives: Vec<(u64, u64)> = plan.buffers.iter().map(|_| (0, 0)).collect();
    for (id, action) in plan.actions.iter().enumerate() {
        action.writes.iter().for_each(|b| lives[b.index()].0 = start[id]);
        for buffer in action.reads.iter().chain(&action.writes).chain(&action.holds) {
            let life = &mut lives[buffer.index()];
            life.1 = life.1.max(end[id]);
        }
    }
    for (buffer, life) in plan.buffers.iter().zip(&mut lives) {
        if buffer.at_end {
            life.1 = u64::MAX;
        }
    }
    lives
}
