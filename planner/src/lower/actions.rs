//! The actions of a recording, in the order in which they start.

use schema::{
    Action, ActionId, BufferId, Direction, HostBufferId, InPlaceBuffers, Nanos, OpId, Processor,
    Task, TensorId,
};
use simulator::{Evaluator, Materialised, Record, RecordedCopy, Work};

use crate::Problem;
use crate::lower::beside::pace_net;
use crate::lower::buffers::Layout;
use crate::lower::late::is_copied;

/// Which action of the recording: a run, a copy out, a copy in or an update on the host.
#[derive(Clone, Copy)]
enum Source {
    Run(usize),
    Out(usize),
    Back(usize),
    There(usize),
}

/// Actions without `after`; buffers as in the layout.
pub(super) fn actions(
    problem: &Problem,
    evaluator: &Evaluator,
    record: &Record,
    layout: &Layout,
) -> Vec<Action> {
    let runs = record.positions.len() - 1;
    let mut sources: Vec<(u32, Source)> = (0..runs)
        .map(|i| (record.run_events[i].0, Source::Run(i)))
        .chain(copied(record).map(|(i, c)| (c.events.0, Source::Out(i))))
        .chain(record.backs.iter().enumerate().map(|(i, c)| (c.events.0, Source::Back(i))))
        .chain(record.updates.iter().enumerate().map(|(i, u)| (u.events.0, Source::There(i))))
        .collect();
    sources.sort_unstable_by_key(|(event, _)| *event);
    let mut ids = Ids::new(record);
    for (index, (_, source)) in sources.iter().enumerate() {
        ids.set(*source, ActionId::from_index(index));
    }
    let mut actions: Vec<Action> = (sources.iter())
        .map(|(_, source)| bare_action(problem, evaluator, record, layout, *source, &ids))
        .collect();
    for (codec, run) in &record.codec_gates {
        actions[ids.runs[*codec as usize].index()].not_before.push(ids.runs[*run as usize]);
    }
    pace_net(&mut actions);
    attach_buffers(problem, record, layout, &ids, &mut actions);
    await_copies(record, &ids, &mut actions);
    actions
}

/// The copies out that are copied: what has its home on the host is there at the start.
fn copied(record: &Record) -> impl Iterator<Item = (usize, &RecordedCopy)> {
    record.outs.iter().enumerate().filter(|(_, out)| is_copied(out))
}

/// The action of each run and copy.
struct Ids {
    runs: Vec<ActionId>,
    outs: Vec<ActionId>,
    backs: Vec<ActionId>,
}

impl Ids {
    fn new(record: &Record) -> Self {
        Self {
            runs: vec![ActionId(0); record.positions.len()],
            outs: vec![ActionId(0); record.outs.len()],
            backs: vec![ActionId(0); record.backs.len()],
        }
    }

    fn set(&mut self, source: Source, id: ActionId) {
        match source {
            Source::Run(i) => self.runs[i] = id,
            Source::Out(i) => self.outs[i] = id,
            Source::Back(i) => self.backs[i] = id,
            // Nothing is paced by one.
            Source::There(_) => {}
        }
    }
}

fn bare_action(
    problem: &Problem,
    evaluator: &Evaluator,
    record: &Record,
    layout: &Layout,
    source: Source,
    ids: &Ids,
) -> Action {
    let gate = |gate: Option<u32>| gate.map(|run| ids.runs[run as usize]).into_iter().collect();
    let mut there = Vec::new();
    let (task, duration, not_before, host) = match source {
        Source::Run(i) => {
            let run = record.positions[i];
            let op = &problem.trace.ops[run.op as usize];
            let packing = |id: u32| &record.packings[id as usize];
            let host = |id: u32| layout.host_of_packing[id as usize];
            let (task, duration, host) = match run.work {
                Work::Run => (Task::Run(OpId(run.op)), op.duration, None),
                Work::Again => {
                    (Task::Recompute(OpId(run.op)), op.recompute.unwrap_or(op.duration), None)
                }
                Work::Compress(id) => {
                    let tensor = TensorId(packing(id).tensor);
                    (Task::Compress(tensor), packing(id).cost.compress, host(id))
                }
                Work::Decompress(id) => {
                    let tensor = TensorId(packing(id).tensor);
                    (Task::Decompress(tensor), packing(id).cost.decompress, host(id))
                }
            };
            (task, duration, Vec::new(), host)
        }
        Source::Out(i) => {
            let copy = &record.outs[i];
            let time = copy_time(evaluator, Direction::D2h, copy);
            (Task::D2h(copy.tensor), time, gate(copy.gate), Some(i))
        }
        Source::Back(i) => {
            let copy = &record.backs[i];
            let time = copy_time(evaluator, Direction::H2d, copy);
            (Task::H2d(copy.tensor), time, gate(copy.gate), Some(copy.swap as usize))
        }
        Source::There(i) => {
            let update = &record.updates[i];
            there.extend(update.swaps.iter().map(|swap| HostBufferId(*swap)));
            (Task::Run(update.op), update.duration, gate(update.gate), None)
        }
    };
    let on = match (task, source) {
        (_, Source::There(_)) => Processor::Host,
        (Task::Run(op) | Task::Recompute(op), _) => problem.trace.ops[op.index()].on,
        _ => Processor::Device,
    };
    Action {
        task,
        on,
        duration: Nanos(duration.0),
        after: Vec::new(),
        not_before,
        reads: Vec::new(),
        writes: Vec::new(),
        holds: Vec::new(),
        in_place: Vec::new(),
        host: host.map(HostBufferId::from_index),
        there,
    }
}

fn copy_time(evaluator: &Evaluator, direction: Direction, copy: &RecordedCopy) -> Nanos {
    let there = copy.there.map(|codec| evaluator.time_there(direction, codec, copy.tensor));
    match copy.codec {
        Some(codec) => evaluator.small_copy_time(direction, codec, copy.tensor),
        None => evaluator.copy_time(direction, copy.tensor) + there.unwrap_or_default(),
    }
}

fn attach_buffers(
    problem: &Problem,
    record: &Record,
    layout: &Layout,
    ids: &Ids,
    actions: &mut [Action],
) {
    for (index, residency) in layout.residencies.iter().enumerate() {
        let buffer = BufferId::from_index(index);
        match residency.origin {
            Materialised::AtStart => {}
            Materialised::Written => {
                actions[ids.runs[residency.first as usize].index()].writes.push(buffer);
            }
            Materialised::CopiedIn(back) => {
                actions[ids.backs[back as usize].index()].writes.push(buffer);
            }
        }
        if let Some(swap) = residency.copied_out {
            actions[ids.outs[swap as usize].index()].reads.push(buffer);
        }
    }
    attach_reads(problem, record, layout, ids, actions);
    for (position, buffer) in layout.workspace.iter().enumerate() {
        if let Some(buffer) = buffer {
            actions[ids.runs[position].index()].writes.push(BufferId::from_index(*buffer));
        }
    }
    for (position, input, output) in &layout.in_place {
        let pair = InPlaceBuffers {
            input: BufferId::from_index(*input),
            output: BufferId::from_index(*output),
        };
        actions[ids.runs[*position as usize].index()].in_place.push(pair);
    }
}

/// Every run reads its inputs where they reside at the time; codecs read a tensor or its small
/// form.
fn attach_reads(
    problem: &Problem,
    record: &Record,
    layout: &Layout,
    ids: &Ids,
    actions: &mut [Action],
) {
    let mut resident = vec![None; problem.trace.tensors.len()];
    let mut small = vec![None; record.packings.len()];
    let mut by_first: Vec<usize> = (0..layout.residencies.len()).collect();
    by_first.sort_by_key(|i| layout.residencies[*i].first);
    let mut next = by_first.into_iter().peekable();
    for (position, run) in record.positions[..record.positions.len() - 1].iter().enumerate() {
        let mut written = Vec::new();
        while let Some(i) = next.next_if(|i| layout.residencies[*i].first as usize <= position) {
            let residency = &layout.residencies[i];
            // What this very run writes is not what it reads.
            if let Some(packing) = residency.small {
                small[packing as usize] = Some(i);
            } else if residency.origin == Materialised::Written {
                written.push(i);
            } else {
                resident[residency.tensor as usize] = Some(i);
            }
        }
        let op = &problem.trace.ops[run.op as usize];
        let action = &mut actions[ids.runs[position].index()];
        let buffer = |i: Option<usize>| BufferId::from_index(i.expect("inputs are resident"));
        let again = run.work == Work::Again;
        match run.work {
            Work::Run | Work::Again => {
                let reads = if again { op.reads_again() } else { &op.reads };
                action.reads.extend(reads.iter().map(|t| buffer(resident[t.index()])));
                let held = op.frees.iter().filter(|t| !op.reads.contains(t)).filter(|t| {
                    let residency = resident[t.index()].map(|i| layout.residencies[i]);
                    residency.is_some_and(|r| r.last as usize == position && !again)
                });
                action.holds.extend(held.map(|t| buffer(resident[t.index()])));
            }
            Work::Compress(id) => {
                let tensor = record.packings[id as usize].tensor;
                action.reads.push(buffer(resident[tensor as usize]));
            }
            Work::Decompress(id) => action.reads.push(buffer(small[id as usize])),
        }
        for i in written {
            let residency = &layout.residencies[i];
            // A second copy of an output that is there already is thrown away at once.
            let thrown_away = again
                && residency.last as usize == position
                && resident[residency.tensor as usize]
                    .is_some_and(|other| layout.residencies[other].last as usize > position);
            if !thrown_away {
                resident[residency.tensor as usize] = Some(i);
            }
        }
    }
}

/// The copies that a synchronous policy makes runs wait for.
fn await_copies(record: &Record, ids: &Ids, actions: &mut [Action]) {
    for awaited in &record.awaited {
        let Some(run) = ids.runs[..ids.runs.len() - 1].get(awaited.position as usize) else {
            continue;
        };
        let out = awaited.out.filter(|out| is_copied(&record.outs[*out as usize]));
        let copies = (out.map(|i| ids.outs[i as usize]).into_iter())
            .chain(awaited.back.map(|i| ids.backs[i as usize]));
        actions[run.index()].not_before.extend(copies);
    }
}
