//! What is on the net goes on beside compute.
//!
//! The reference timeline has collectives among the ops of the device. By its order a collective's memory would be
//! given to what compute does next, which then waits for the collective. Here it is kept, where there is room, until
//! the collective would have ended beside compute.

use std::collections::{HashMap, VecDeque};

use schema::{Action, ActionId, Nanos, Op, Processor, Task, TensorId};
use simulator::{Record, Residency, Work};

use super::pack::Block;
use crate::Problem;

/// What is on the net begins when the device's ops before it have ended, as a framework asks for it then: what
/// it gathers for later comes no earlier than its place in the trace says.
pub(super) fn pace_net(actions: &mut [Action]) {
    let mut before = None;
    for (index, action) in actions.iter_mut().enumerate() {
        match (action.on, action.task) {
            (Processor::Net, _) => action.not_before.extend(before),
            (Processor::Device, Task::Run(_) | Task::Recompute(_)) => {
                before = Some(ActionId::from_index(index));
            }
            _ => {}
        }
    }
}

/// The blocks of residencies, which come first, with the longer lives of what collectives read; nothing where there
/// are no collectives. What an output lies over is given up as before.
pub(super) fn longer_lives(
    problem: &Problem,
    record: &Record,
    residencies: &[Residency],
    blocks: &[Block],
) -> Option<Vec<Block>> {
    let ends = ends(problem, record);
    if ends.is_empty() {
        return None;
    }
    let mut of_tensor: HashMap<u32, Vec<usize>> = HashMap::new();
    for (index, residency) in residencies.iter().enumerate().filter(|(_, r)| r.small.is_none()) {
        of_tensor.entry(residency.tensor).or_default().push(index);
    }
    let mut longer = blocks.to_vec();
    for (position, until) in ends {
        let read = reads(problem, record, position).iter().filter_map(|t| of_tensor.get(&t.0));
        for index in read.flatten() {
            let residency = &residencies[*index];
            if (residency.first as usize..=residency.last as usize).contains(&position) {
                longer[*index].until = longer[*index].until.max(until);
            }
        }
    }
    for block in blocks.iter().filter_map(|block| block.over) {
        longer[block].until = blocks[block].until;
    }
    Some(longer)
}

/// Each position that is on the net, and the event before which it ends where it goes on beside compute.
fn ends(problem: &Problem, record: &Record) -> Vec<(usize, u32)> {
    let end = record.positions.len() - 1;
    let (mut now, mut net, mut before) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
    let mut there: HashMap<TensorId, Nanos> = HashMap::new();
    let mut going: VecDeque<(usize, Nanos)> = VecDeque::new();
    let mut ends = Vec::new();
    for position in 0..end {
        let (start, ended) = record.runs[position];
        let duration = ended - start;
        match op(problem, record, position).filter(|op| op.on == Processor::Net) {
            Some(op) => {
                net = net.max(now) + duration;
                going.push_back((position, net));
                let changed = op.mutates.iter().flatten();
                there.extend(op.writes.iter().chain(changed).map(|tensor| (*tensor, net)));
            }
            None => {
                // Compute waits as long as it did for copies, and for what it reads to be there.
                now += start.saturating_sub(before);
                let read = reads(problem, record, position).iter().filter_map(|t| there.get(t));
                now = read.fold(now, |now, there| now.max(*there));
                while let Some((of, _)) = going.pop_front_if(|(_, net)| *net <= now) {
                    ends.push((of, record.run_events[position].0 + 1));
                }
                now += duration;
            }
        }
        before = ended;
    }
    ends.extend(going.into_iter().map(|(of, _)| (of, record.run_events[end].0 + 1)));
    ends
}

/// The op that runs at a position, unless that is a codec.
fn op<'a>(problem: &'a Problem, record: &Record, position: usize) -> Option<&'a Op> {
    let run = record.positions[position];
    matches!(run.work, Work::Run | Work::Again).then(|| &problem.trace.ops[run.op as usize])
}

fn reads<'a>(problem: &'a Problem, record: &Record, position: usize) -> &'a [TensorId] {
    let again = record.positions[position].work == Work::Again;
    let read = |op: &'a Op| if again { op.reads_again() } else { op.reads.as_slice() };
    op(problem, record, position).map_or(&[], read)
}
