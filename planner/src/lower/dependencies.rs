//! What must come after what.

use schema::{ActionId, Lane, Plan, Task};
use simulator::{Addresses, HappensBefore, Model};

/// Fills in `after`: every read comes after what fills the buffer, every buffer after all uses of
/// those whose addresses it takes over, and a change in place after all reads before it and before
/// all that follow. What follows from lanes or other dependencies is left out, also of
/// `not_before`.
pub(super) fn connect(plan: &mut Plan, model: &Model) {
    let mut order = HappensBefore::default();
    let mut device = Arena::new(plan.buffers.iter().map(|b| (b.address, b.bytes.0)));
    let mut host = Arena::new(plan.host_buffers.iter().map(|b| (b.address, b.bytes.0)));
    for (buffer, _) in plan.buffers.iter().enumerate().filter(|(_, b)| b.at_start) {
        device.take(buffer, &mut Vec::new());
    }
    for (buffer, _) in plan.host_buffers.iter().enumerate().filter(|(_, b)| b.at_start) {
        host.take(buffer, &mut Vec::new());
    }
    for index in 0..plan.actions.len() {
        let action = &plan.actions[index];
        let (id, lane) = (ActionId::from_index(index), plan.lane(action));
        let mut after = Vec::new();
        for buffer in action.reads.iter().chain(&action.holds) {
            after.extend(device.filled_by[buffer.index()]);
            device.last_use[buffer.index()][lane.index()] = Some(id);
        }
        for buffer in &action.reads {
            after.extend(device.changed_by[buffer.index()]);
            let tensor = plan.buffers[buffer.index()].tensor;
            if let (Task::Run(op), Some(tensor)) = (action.task, tensor)
                && model.changes(op, tensor)
            {
                after.extend(device.last_use[buffer.index()].into_iter().flatten());
                device.changed_by[buffer.index()] = Some(id);
            }
        }
        for buffer in &action.writes {
            device.take(buffer.index(), &mut after);
            device.fill(buffer.index(), id, lane);
        }
        for buffer in &action.there {
            after.extend(host.filled_by[buffer.index()]);
            after.extend(host.changed_by[buffer.index()]);
            let tensor = plan.host_buffers[buffer.index()].tensor;
            if let Task::Run(op) = action.task
                && model.changes(op, tensor)
            {
                after.extend(host.last_use[buffer.index()].into_iter().flatten());
                host.changed_by[buffer.index()] = Some(id);
            }
            host.last_use[buffer.index()][lane.index()] = Some(id);
        }
        if let Some(buffer) = action.host {
            after.extend(host.filled_by[buffer.index()]);
            after.extend(host.changed_by[buffer.index()]);
            match action.task {
                Task::Compress(_) | Task::D2h(_) => {
                    // The copy of a compressed form goes where its compression may have put the
                    // tensor.
                    if host.filled_by[buffer.index()].is_none() {
                        host.take(buffer.index(), &mut after);
                    }
                    host.fill(buffer.index(), id, lane);
                }
                _ => host.last_use[buffer.index()][lane.index()] = Some(id),
            }
        }
        // An output over an input of the same action finds this action among the input's users.
        after.retain(|other| *other != id);
        let after = order.reduce(lane, &after);
        order.push(lane, &after);
        let action = &mut plan.actions[index];
        action.after = after;
        action.not_before.retain(|other| !order.ends_before(*other, id));
    }
}

/// One arena: who holds which addresses, and who used which buffer last.
struct Arena {
    ranges: Vec<(u64, u64)>,
    addresses: Addresses,
    filled_by: Vec<Option<ActionId>>,
    /// The last action that changed a buffer in place.
    changed_by: Vec<Option<ActionId>>,
    last_use: Vec<[Option<ActionId>; Lane::COUNT]>,
}

impl Arena {
    fn new(ranges: impl Iterator<Item = (u64, u64)>) -> Self {
        let ranges: Vec<(u64, u64)> = ranges.map(|(begin, bytes)| (begin, begin + bytes)).collect();
        Self {
            addresses: Addresses::default(),
            filled_by: vec![None; ranges.len()],
            changed_by: vec![None; ranges.len()],
            last_use: vec![[None; Lane::COUNT]; ranges.len()],
            ranges,
        }
    }

    fn fill(&mut self, buffer: usize, action: ActionId, lane: Lane) {
        self.filled_by[buffer] = Some(action);
        self.last_use[buffer][lane.index()] = Some(action);
    }

    /// Gives a buffer its addresses; adds all who used what held them.
    fn take(&mut self, buffer: usize, after: &mut Vec<ActionId>) {
        let (begin, end) = self.ranges[buffer];
        for holder in self.addresses.take((begin, end), buffer as u32) {
            after.extend(self.last_use[holder as usize].into_iter().flatten());
        }
    }
}
