//! What device memory holds, moment by moment: a plan's buffers by what they are for.

use std::collections::BTreeMap;

use schema::{ActionId, Bytes, Interval, Nanos, Plan, Role, Task, TensorId, Timeline, Trace};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    Parameters,
    OptimizerState,
    Inputs,
    Activations,
    Gradients,
    Workspace,
    InFlight,
}

impl Content {
    pub const COUNT: usize = Self::TABLE.len();

    const TABLE: [(Self, &str); 7] = [
        (Self::Parameters, "parameters"),
        (Self::OptimizerState, "optimizer state"),
        (Self::Inputs, "inputs"),
        (Self::Activations, "activations"),
        (Self::Gradients, "gradients"),
        (Self::Workspace, "workspace"),
        (Self::InFlight, "being copied"),
    ];

    pub fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.into_iter().map(|(content, _)| content)
    }

    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    fn of(tensor: Option<TensorId>, trace: &Trace) -> Self {
        let tensor = tensor.and_then(|tensor| trace.tensors.get(tensor.index()));
        match tensor.map_or(Role::Workspace, |tensor| tensor.role) {
            Role::Parameter => Self::Parameters,
            Role::OptimizerState => Self::OptimizerState,
            Role::Input => Self::Inputs,
            Role::Activation => Self::Activations,
            Role::Gradient => Self::Gradients,
            Role::Workspace => Self::Workspace,
        }
    }
}

/// The memory from one moment until the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub at: Nanos,
    /// Bytes by [`Content`].
    pub bytes: [u64; Content::COUNT],
}

impl Moment {
    pub fn total(&self) -> Bytes {
        Bytes(self.bytes.iter().sum())
    }
}

/// A part of the memory at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub content: Content,
    /// None: workspace of an op.
    pub tensor: Option<TensorId>,
    pub bytes: Bytes,
}

/// A buffer's bytes during a part of the iteration.
struct Stay {
    piece: Piece,
    from: Nanos,
    until: Nanos,
}

/// A plan's buffers in the times of one of its timelines.
///
/// A buffer lives from the start of the action that writes it to the end of the last that reads,
/// writes or holds it, as [`Plan`] says. While a copy of it runs it counts as being copied. Bytes
/// that an output takes over from an input count as the output's from when its action starts.
pub(super) struct Contents {
    stays: Vec<Stay>,
}

impl Contents {
    pub fn of(plan: &Plan, timeline: &Timeline, trace: &Trace) -> Self {
        let intervals: BTreeMap<ActionId, &Interval> =
            timeline.intervals.iter().map(|interval| (interval.action, interval)).collect();
        let mut stays = Vec::new();
        for (index, uses) in uses(plan).into_iter().enumerate() {
            let buffer = &plan.buffers[index];
            let of = |action: &ActionId| intervals.get(action).copied();
            let written = uses.written.as_ref().and_then(of);
            let from = if buffer.at_start { Some(Nanos::ZERO) } else { written.map(|i| i.start) };
            let Some(from) = from else { continue };
            let last = uses.used.iter().filter_map(of).map(|i| i.end).max();
            let until = last.filter(|_| !buffer.at_end).unwrap_or(timeline.iteration);
            let taken = uses.taken_over.filter(|_| until > from);
            let taken = taken.and_then(|(action, bytes)| Some((of(&action)?.start, bytes)));
            let content = Content::of(buffer.tensor, trace);
            let piece = Piece { content, tensor: buffer.tensor, bytes: buffer.bytes };
            let copies = uses.used.iter().filter_map(of);
            let copies = copies.filter(|i| matches!(i.task, Task::D2h(_) | Task::H2d(_)));
            let mut copies: Vec<_> = copies.map(|i| (i.start, i.end)).collect();
            copies.sort_unstable();
            split(&mut stays, piece, (from, until), &copies, taken);
        }
        Self { stays }
    }

    /// The memory at every moment at which it changes, in order.
    pub fn moments(&self) -> Vec<Moment> {
        let mut changes: BTreeMap<Nanos, [i128; Content::COUNT]> = BTreeMap::new();
        for Stay { piece, from, until } in &self.stays {
            let bytes = i128::from(piece.bytes.0);
            changes.entry(*from).or_default()[piece.content as usize] += bytes;
            changes.entry(*until).or_default()[piece.content as usize] -= bytes;
        }
        let mut now = [0i128; Content::COUNT];
        let moments = changes.into_iter().map(|(at, change)| {
            now.iter_mut().zip(change).for_each(|(now, change)| *now += change);
            Moment { at, bytes: now.map(|bytes| u64::try_from(bytes).unwrap_or(0)) }
        });
        moments.collect()
    }

    /// What the memory holds at a moment: by content, the largest first.
    pub fn at(&self, at: Nanos) -> Vec<Piece> {
        let there = self.stays.iter().filter(|stay| stay.from <= at && at < stay.until);
        let mut pieces: Vec<Piece> =
            there.map(|stay| stay.piece).filter(|piece| piece.bytes > Bytes::ZERO).collect();
        pieces.sort_by(|a, b| (a.content, b.bytes, a.tensor).cmp(&(b.content, a.bytes, b.tensor)));
        pieces
    }
}

/// The actions that a buffer's life depends on.
#[derive(Default, Clone)]
struct Uses {
    written: Option<ActionId>,
    used: Vec<ActionId>,
    /// The action whose output takes over bytes of it, and how many.
    taken_over: Option<(ActionId, Bytes)>,
}

fn uses(plan: &Plan) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); plan.buffers.len()];
    for (index, action) in plan.actions.iter().enumerate() {
        let id = ActionId::from_index(index);
        for buffer in action.reads.iter().chain(&action.writes).chain(&action.holds) {
            uses[buffer.index()].used.push(id);
        }
        for buffer in &action.writes {
            uses[buffer.index()].written = Some(id);
        }
        for pair in &action.in_place {
            let (input, output) =
                (&plan.buffers[pair.input.index()], &plan.buffers[pair.output.index()]);
            let end = (input.address + input.bytes.0).min(output.address + output.bytes.0);
            let shared = Bytes(end.saturating_sub(input.address.max(output.address)));
            uses[pair.input.index()].taken_over = Some((id, shared));
        }
    }
    uses
}

/// Cuts a buffer's life where a copy of it begins or ends, and where bytes of it are taken over.
fn split(
    stays: &mut Vec<Stay>,
    piece: Piece,
    (from, until): (Nanos, Nanos),
    copies: &[(Nanos, Nanos)],
    taken: Option<(Nanos, Bytes)>,
) {
    let mut cuts: Vec<Nanos> = copies.iter().flat_map(|(start, end)| [*start, *end]).collect();
    cuts.extend(taken.map(|(at, _)| at));
    cuts.extend([from, until]);
    cuts.sort_unstable();
    cuts.dedup();
    for pair in cuts.windows(2) {
        let (start, end) = (pair[0].max(from), pair[1].min(until));
        if start >= end {
            continue;
        }
        let copied = copies.iter().any(|(begin, finish)| *begin <= start && end <= *finish);
        let gone = taken.filter(|(at, _)| *at <= start).map_or(Bytes::ZERO, |(_, bytes)| bytes);
        let content = if copied { Content::InFlight } else { piece.content };
        let piece = Piece { content, bytes: piece.bytes.saturating_sub(gone), ..piece };
        stays.push(Stay { piece, from: start, until: end });
    }
}

#[cfg(test)]
mod tests {
    use schema::{
        Action, Buffer, BufferId, Document, HostBuffer, HostBufferId, InPlaceBuffers, OpId, Origin,
        Provenance, Tensor,
    };

    use super::*;
    use crate::examples::{interval, timeline};

    fn tensor(name: &str, role: Role) -> Tensor {
        Tensor::new(name, Bytes::ZERO, role)
    }

    fn trace() -> Trace {
        Trace {
            network: "tiny".into(),
            batch: None,
            provenance: Provenance::new(Origin::Modelled, "none", "by hand"),
            tensors: vec![
                tensor("weight", Role::Parameter),
                tensor("a", Role::Activation),
                tensor("b", Role::Gradient),
            ],
            ops: Vec::new(),
        }
    }

    /// `a` is made, copied out, and overwritten by `b`, whose op needs workspace.
    fn plan() -> Plan {
        let buffer = |tensor: Option<u32>, address, bytes| {
            Buffer::new(tensor.map(TensorId), address, Bytes(bytes))
        };
        let action = |task, reads: &[u32], writes: &[u32]| Action {
            reads: reads.iter().copied().map(BufferId).collect(),
            writes: writes.iter().copied().map(BufferId).collect(),
            ..Action::new(task, Nanos(10))
        };
        let weight = Buffer { at_start: true, at_end: true, ..buffer(Some(0), 0, 100) };
        let copy =
            Action { host: Some(HostBufferId(0)), ..action(Task::D2h(TensorId(1)), &[1], &[]) };
        let in_place = InPlaceBuffers { input: BufferId(1), output: BufferId(2) };
        let last = action(Task::Run(OpId(1)), &[1], &[2, 3]);
        let any = include_str!("../../../schema/tests/gallery/plan-v1.json");
        let any = Plan::from_json(any, "plan.json".as_ref()).expect("well formed");
        Plan {
            buffers: vec![
                weight,
                buffer(Some(1), 100, 50),
                buffer(Some(2), 100, 40),
                buffer(None, 150, 30),
            ],
            host_buffers: vec![HostBuffer::new(TensorId(1), 0, Bytes(50))],
            actions: vec![
                action(Task::Run(OpId(0)), &[0], &[1]),
                copy,
                Action { in_place: vec![in_place], ..last },
            ],
            ..any
        }
    }

    fn contents() -> Contents {
        let plan = plan();
        let tasks = plan.actions.iter().map(|action| action.task).enumerate();
        let intervals = tasks
            .map(|(i, task)| {
                interval(i as u32, task, "", 0, [10 * i as u64, 10 * i as u64 + 10], &[])
            })
            .collect();
        let timeline = Timeline { iteration: Nanos(40), intervals, ..timeline() };
        Contents::of(&plan, &timeline, &trace())
    }

    #[test]
    fn memory_is_told_apart_by_what_it_is_for() {
        let moments = contents().moments();
        let shown: Vec<_> = moments
            .iter()
            .map(|moment| {
                let parts = Content::all().filter(|c| moment.bytes[*c as usize] > 0);
                let parts = parts.map(|c| format!(", {} {}", c.name(), moment.bytes[c as usize]));
                format!("{}{}", moment.at, parts.collect::<String>())
            })
            .collect();
        // From 20 on `b` owns the 40 bytes that it takes over; 10 of `a` stay until its last use.
        insta::assert_snapshot!(shown.join("\n"), @r"
        0 ns, parameters 100, activations 50
        10 ns, parameters 100, being copied 50
        20 ns, parameters 100, activations 10, gradients 40, workspace 30
        30 ns, parameters 100
        40 ns
        ");
    }

    #[test]
    fn the_peak_is_made_of_what_is_there() {
        let contents = contents();
        let peak = super::super::memory::peak(&contents.moments()).expect("a peak");
        assert_eq!((peak.at, peak.total()), (Nanos(20), Bytes(180)));
        let pieces = contents.at(peak.at);
        assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<Bytes>(), peak.total());
        assert_eq!(pieces[0].tensor, Some(TensorId(0)));
        assert_eq!(
            pieces[3],
            Piece { content: Content::Workspace, tensor: None, bytes: Bytes(30) }
        );
    }
}
