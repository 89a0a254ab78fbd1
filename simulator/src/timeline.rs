//! A plan's timeline, from when its actions start and end: as predicted here, or as measured on a
//! device.

use schema::{
    ActionId, Basis, Bytes, Interval, Lane, MemoryPoint, Nanos, Plan, Stall, StallCause, Task,
    Timeline, Trace,
};

use crate::replay::{Observer, Schedule, replay_with};
use crate::{Account, Program};

/// An action starts or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The action.
    pub action: ActionId,
    /// The moment.
    pub at: Nanos,
    /// It ends; else it starts.
    pub ends: bool,
}

/// Simulates a plan with the durations that it states. Labels are names from the trace where one
/// is given.
pub fn predict(plan: &Plan, trace: Option<&Trace>) -> Timeline {
    let program = Program::of(plan);
    let mut events = Vec::with_capacity(2 * plan.actions.len());
    replay_with(&program, &program.duration, &mut Schedule::default(), &mut events);
    timeline(plan, trace, Basis::Predicted, &events)
}

impl Observer for Vec<Event> {
    fn starts(&mut self, action: u32, now: u64) {
        self.push(Event { action: ActionId(action), at: Nanos(now), ends: false });
    }

    fn ends(&mut self, action: u32, now: u64) {
        self.push(Event { action: ActionId(action), at: Nanos(now), ends: true });
    }
}

/// The timeline of an iteration in which actions started and ended as `events` say: each action
/// once, in the order in which it happened.
pub fn timeline(plan: &Plan, trace: Option<&Trace>, basis: Basis, events: &[Event]) -> Timeline {
    let mut times = vec![(Nanos::ZERO, Nanos::ZERO); plan.actions.len()];
    for event in events {
        let (start, end) = &mut times[event.action.index()];
        *if event.ends { end } else { start } = event.at;
    }
    let (peak, memory) = memory_curve(plan, events);
    let mut lane_free = [Nanos::ZERO; Lane::COUNT];
    let mut intervals = Vec::with_capacity(plan.actions.len());
    for (index, follows) in followed_copies(plan).into_iter().enumerate() {
        let action = &plan.actions[index];
        let (start, end) = times[index];
        let free = std::mem::replace(&mut lane_free[plan.lane(action).index()], end);
        intervals.push(Interval {
            action: ActionId::from_index(index),
            lane: plan.lane(action),
            task: action.task,
            label: label(action.task, trace),
            bytes: plan.moved_bytes(action),
            start,
            end,
            stall: stall(plan, &times, index, free),
            follows,
        });
    }
    Timeline {
        basis,
        method: plan.method.clone(),
        trace: plan.trace.clone(),
        machine: plan.machine.clone(),
        budget: plan.budget,
        iteration: events.last().map_or(Nanos::ZERO, |event| event.at),
        peak,
        intervals,
        memory,
    }
}

fn label(task: Task, trace: Option<&Trace>) -> String {
    let op = |op: schema::OpId| trace.and_then(|t| t.ops.get(op.index())).map(|op| op.name.clone());
    let tensor = |id: schema::TensorId| {
        trace.and_then(|t| t.tensors.get(id.index())).map(|t| t.name.clone())
    };
    match task {
        Task::Run(id) | Task::Recompute(id) => op(id).unwrap_or_else(|| id.to_string()),
        Task::D2h(id) | Task::H2d(id) | Task::Compress(id) | Task::Decompress(id) => {
            tensor(id).unwrap_or_else(|| id.to_string())
        }
    }
}

/// Bytes that are in flight while an action runs.
fn copied_bytes(plan: &Plan, action: usize) -> Bytes {
    let action = &plan.actions[action];
    match action.task {
        Task::D2h(_) | Task::H2d(_) => plan.moved_bytes(action),
        _ => Bytes::ZERO,
    }
}

/// For each copy in, the copy out that filled its host buffer; for each op, the copies in whose
/// tensors it is the first to read.
fn followed_copies(plan: &Plan) -> Vec<Vec<ActionId>> {
    let mut filled_by = vec![None; plan.host_buffers.len()];
    let mut unread_copy = vec![None; plan.buffers.len()];
    let mut follows = vec![Vec::new(); plan.actions.len()];
    for (index, action) in plan.actions.iter().enumerate() {
        let id = ActionId::from_index(index);
        match (action.task, action.host) {
            (Task::D2h(_), Some(host)) => filled_by[host.index()] = Some(id),
            (Task::H2d(_), Some(host)) => follows[index].extend(filled_by[host.index()]),
            _ => {}
        }
        follows[index].extend(action.there.iter().filter_map(|host| filled_by[host.index()]));
        if !matches!(action.task, Task::D2h(_) | Task::H2d(_)) {
            let copies = action.reads.iter().filter_map(|b| unread_copy[b.index()].take());
            follows[index].extend(copies);
        }
        if let Task::H2d(_) = action.task {
            action.writes.iter().for_each(|b| unread_copy[b.index()] = Some(id));
        }
    }
    follows
}

/// Why an action did not start when its lane was free: something that it waits for ended later.
fn stall(plan: &Plan, times: &[(Nanos, Nanos)], index: usize, free: Nanos) -> Option<Stall> {
    let action = &plan.actions[index];
    let end = |id: ActionId| times[id.index()].1;
    let waits = action.after.iter().chain(&action.not_before);
    // The last to end is what it waited for; the first in the list among equals.
    let on = waits.copied().reduce(|a, b| if end(b) > end(a) { b } else { a })?;
    if end(on) <= free {
        return None;
    }
    let other = &plan.actions[on.index()];
    let changed_there = other.there.iter().any(|host| action.host == Some(*host));
    let gives_data = other.writes.iter().any(|b| action.reads.contains(b))
        || matches!(other.task, Task::D2h(_))
            && other.host.is_some_and(|h| action.there.contains(&h))
        || matches!(action.task, Task::H2d(_))
            && (changed_there || matches!(other.task, Task::D2h(_)) && other.host == action.host);
    let cause = if gives_data {
        StallCause::Data
    } else if action.not_before.contains(&on) {
        StallCause::Turn
    } else {
        StallCause::Memory
    };
    Some(Stall { idle: times[index].0.saturating_sub(free), on, cause })
}

/// The largest sum of live buffers, and live bytes over time.
fn memory_curve(plan: &Plan, events: &[Event]) -> (Bytes, Vec<MemoryPoint>) {
    let program = Program::of(plan);
    let mut account = Account::of(&program);
    let mut in_flight = Bytes::ZERO;
    let mut points: Vec<MemoryPoint> = Vec::new();
    for Event { action, at, ends } in events.iter().copied() {
        let copied = copied_bytes(plan, action.index());
        if ends {
            account.ends(&program, action.0, |_| {});
            in_flight -= copied;
        } else {
            account.starts(&program, action.0);
            in_flight += copied;
        }
        let point = MemoryPoint { at, resident: Bytes(account.live()), in_flight };
        match points.last_mut() {
            Some(last) if last.at == point.at => *last = point,
            Some(last) if last.resident == point.resident && last.in_flight == point.in_flight => {}
            _ => points.push(point),
        }
    }
    (Bytes(account.peak()), points)
}
