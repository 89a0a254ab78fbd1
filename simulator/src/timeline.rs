//! A plan's predicted timeline.

use schema::{
    ActionId, Basis, Bytes, Interval, Lane, MemoryPoint, Nanos, Plan, Stall, StallCause, Task,
    Timeline, Trace,
};

use crate::Program;
use crate::replay::{Observer, Schedule, replay_with};

/// Simulates a plan with the durations that it states. Labels are names from the trace where one
/// is given.
pub fn predict(plan: &Plan, trace: Option<&Trace>) -> Timeline {
    let program = Program::of(plan);
    let mut schedule = Schedule::default();
    let mut curve = MemoryCurve::new(plan);
    replay_with(&program, &program.duration, &mut schedule, &mut curve);
    let follows = followed_copies(plan);
    let mut lane_free = [0; Lane::COUNT];
    let mut intervals = Vec::with_capacity(plan.actions.len());
    for (index, follows) in follows.into_iter().enumerate() {
        let action = &plan.actions[index];
        let (start, end) = (schedule.start[index], schedule.end[index]);
        let free = std::mem::replace(&mut lane_free[plan.lane(action.task).index()], end);
        intervals.push(Interval {
            action: ActionId::from_index(index),
            lane: plan.lane(action.task),
            task: action.task,
            label: label(action.task, trace),
            bytes: plan.moved_bytes(action),
            start: Nanos(start),
            end: Nanos(end),
            stall: (start > free).then(|| stall(plan, &schedule, index, start - free)),
            follows,
        });
    }
    Timeline {
        basis: Basis::Predicted,
        method: plan.method.clone(),
        trace: plan.trace.clone(),
        machine: plan.machine.clone(),
        budget: plan.budget,
        iteration: Nanos(schedule.iteration_ns),
        peak: Bytes(schedule.peak_bytes),
        intervals,
        memory: curve.points,
    }
}

fn label(task: Task, trace: Option<&Trace>) -> String {
    let op = |op: schema::OpId| trace.and_then(|t| t.ops.get(op.index())).map(|op| op.name.clone());
    let tensor = |id: schema::TensorId| {
        trace.and_then(|t| t.tensors.get(id.index())).map(|t| t.name.clone())
    };
    match task {
        Task::Run(id) | Task::Recompute(id) => op(id).unwrap_or_else(|| id.to_string()),
        Task::CopyOut(id) | Task::CopyIn(id) | Task::Compress(id) | Task::Decompress(id) => {
            tensor(id).unwrap_or_else(|| id.to_string())
        }
    }
}

/// Bytes that are in flight while an action runs.
fn copied_bytes(plan: &Plan, action: usize) -> Bytes {
    let action = &plan.actions[action];
    match action.task {
        Task::CopyOut(_) | Task::CopyIn(_) => plan.moved_bytes(action),
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
            (Task::CopyOut(_), Some(host)) => filled_by[host.index()] = Some(id),
            (Task::CopyIn(_), Some(host)) => follows[index].extend(filled_by[host.index()]),
            _ => {}
        }
        if !matches!(action.task, Task::CopyOut(_) | Task::CopyIn(_)) {
            let copies = action.reads.iter().filter_map(|b| unread_copy[b.index()].take());
            follows[index].extend(copies);
        }
        if let Task::CopyIn(_) = action.task {
            action.writes.iter().for_each(|b| unread_copy[b.index()] = Some(id));
        }
    }
    follows
}

/// Why an action did not start when its lane was free.
fn stall(plan: &Plan, schedule: &Schedule, index: usize, idle: u64) -> Stall {
    let action = &plan.actions[index];
    let waits = action.after.iter().chain(&action.not_before);
    // The last to end is what it waited for; the first in the list among equals.
    let on = waits
        .copied()
        .reduce(|a, b| if schedule.end[b.index()] > schedule.end[a.index()] { b } else { a });
    let on = on.unwrap_or(ActionId::from_index(index));
    let other = &plan.actions[on.index()];
    let gives_data = other.writes.iter().any(|b| action.reads.contains(b))
        || matches!(
            (other.task, action.task), (Task::CopyOut(_), Task::CopyIn(_)) if other.host == action.host
        );
    let cause = if gives_data {
        StallCause::Data
    } else if action.not_before.contains(&on) {
        StallCause::Turn
    } else {
        StallCause::Memory
    };
    Stall { idle: Nanos(idle), on, cause }
}

struct MemoryCurve<'a> {
    plan: &'a Plan,
    in_flight: u64,
    points: Vec<MemoryPoint>,
}

impl<'a> MemoryCurve<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self { plan, in_flight: 0, points: Vec::new() }
    }

    fn point(&mut self, now: u64, live: u64) {
        let point =
            MemoryPoint { at: Nanos(now), resident: Bytes(live), in_flight: Bytes(self.in_flight) };
        match self.points.last_mut() {
            Some(last) if last.at == point.at => *last = point,
            Some(last) if last.resident == point.resident && last.in_flight == point.in_flight => {}
            _ => self.points.push(point),
        }
    }
}

impl Observer for MemoryCurve<'_> {
    fn starts(&mut self, action: u32, now: u64, live: u64) {
        self.in_flight += copied_bytes(self.plan, action as usize).0;
        self.point(now, live);
    }

    fn ends(&mut self, action: u32, now: u64, live: u64) {
        self.in_flight -= copied_bytes(self.plan, action as usize).0;
        self.point(now, live);
    }
}
