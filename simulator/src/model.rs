//! A trace as searches read it: flat arrays, and the gaps in which tensors may leave.

use schema::{Bytes, Choice, Nanos, Op, OpId, OpKind, Phase, TensorId, Trace};

use crate::program::Lists;

/// In place of an op's index: no op.
pub const NO_OP: u32 = u32::MAX;

/// The time between two uses of a tensor, in which it need not be on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The tensor.
    pub tensor: TensorId,
    /// The op that uses it last before the gap.
    pub after: OpId,
    /// The op that uses it next; none where it must only be there when the iteration ends.
    pub before: Option<OpId>,
    /// Size of the tensor.
    pub bytes: Bytes,
}

/// Position of a gap in [`Model::gaps`].
pub type GapId = usize;

/// A trace in flat arrays.
///
/// A tensor is *used* by the op that writes it and by those that read it, and at the end of the
/// iteration if it outlives that. Tensors that no op writes are there all the time, also where
/// the framework gave them back: a recomputation may need them. Of what is held there are no gaps.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) duration: Vec<u64>,
    pub(crate) recompute: Vec<u64>,
    pub(crate) workspace: Vec<u64>,
    pub(crate) is_convolution: Vec<bool>,
    layers: Vec<u32>,
    /// Where the backward computation of what stands above the last convolution begins.
    pub(crate) above: Option<OpId>,
    pub(crate) reads: Lists,
    pub(crate) writes: Lists,
    /// The same of reruns.
    pub(crate) reads_again: Lists,
    pub(crate) writes_again: Lists,
    /// What each op changes in place, in order.
    changes: Lists,
    /// By tensor: whether some op changes it in place.
    changed: Vec<bool>,
    /// By tensor: whether it is there before the first op.
    there_at_start: Vec<bool>,
    /// Pairs of input and output, one after the other.
    pub(crate) in_place: Lists,
    /// The last op before which an op may be run again: later, an update has changed what it
    /// reads. Zero: never.
    pub(crate) rerun_until: Vec<u32>,
    pub(crate) bytes: Vec<u64>,
    pub(crate) producer: Vec<u32>,
    /// The op whose rerun makes a tensor.
    pub(crate) remade_by: Vec<u32>,
    /// The last op that uses the tensor; the number of ops if it outlives the iteration.
    pub(crate) last_use: Vec<u32>,
    /// Tensors whose last use an op is.
    pub(crate) dies_after: Lists,
    pub(crate) outliving: Vec<u32>,
    /// Tensors that begin and end the iteration on the host.
    pub(crate) homes: Vec<u32>,
    at_home: Vec<bool>,
    /// By tensor: the ops that change one of them in place, in order.
    home_changes: Lists,
    /// Of those, the ones that an op uses last.
    pub(crate) goes_home_after: Lists,
    /// Time of each op that the host's processor runs; empty where it runs none.
    there: Vec<Option<u64>>,
    /// By tensor: those of them that change it, in order.
    changed_there: Lists,
    /// By tensor: those of them that read it, in order.
    read_there: Lists,
    held: Vec<bool>,
    /// By op: bytes of what is held and there while it runs for the first time.
    held_bytes: Vec<u64>,
    pub(crate) total: u64,
    /// Gaps that begin after an op: a range of `gaps`, given by its end.
    pub(crate) gaps_end: Vec<u32>,
    gaps: Vec<Gap>,
    recomputable: Vec<bool>,
}

impl Model {
    /// The model of a well-formed trace, in which a tensor's memory can be given back after its
    /// last use.
    pub fn of(trace: &Trace) -> Self {
        Self::with(trace, &[], |op| op.reads.clone())
    }

    /// The model in which these tensors, which no op makes and the caller does not hold, begin and end
    /// the iteration on the host. They come in when they are used for the first time and go back after
    /// the last, by a copy where they have changed; there are no gaps before and after.
    pub fn with_homes(trace: &Trace, homes: &[TensorId]) -> Self {
        Self::with(trace, homes, |op| op.reads.clone())
    }

    /// The model in which a tensor's memory is given back when the framework did so: the op that
    /// frees it counts as one that uses it.
    pub fn as_recorded(trace: &Trace) -> Self {
        let produced: std::collections::HashSet<TensorId> =
            trace.ops.iter().flat_map(|op| op.writes.iter().copied()).collect();
        Self::with(trace, &[], |op| {
            let held = (op.frees.iter()).filter(|t| {
                produced.contains(t) && !op.reads.contains(t) && !op.writes.contains(t)
            });
            op.reads.iter().chain(held).copied().collect()
        })
    }

    fn with(trace: &Trace, homes: &[TensorId], uses_of: impl Fn(&Op) -> Vec<TensorId>) -> Self {
        let uses: Vec<Vec<TensorId>> = trace.ops.iter().map(uses_of).collect();
        let ops = trace.ops.len();
        let mut producer = vec![NO_OP; trace.tensors.len()];
        for (index, op) in trace.ops.iter().enumerate() {
            op.writes.iter().for_each(|t| producer[t.index()] = index as u32);
        }
        let mut reads = Lists::default();
        let mut writes = Lists::default();
        let mut in_place = Lists::default();
        let mut reads_again = Lists::default();
        let mut writes_again = Lists::default();
        let mut changes = Lists::default();
        let mut remade_by = vec![NO_OP; trace.tensors.len()];
        for (index, op) in trace.ops.iter().enumerate() {
            reads_again.push(op.reads_again().iter().map(|t| t.0));
            writes_again.push(op.writes_again().iter().map(|t| t.0));
            changes.push(changed(op, &producer));
            for tensor in op.writes_again().iter().filter(|_| op.rerunnable) {
                remade_by[tensor.index()] = index as u32;
            }
            writes.push(op.writes.iter().map(|t| t.0));
            in_place.push(op.in_place.iter().flat_map(|pair| [pair.input.0, pair.output.0]));
        }
        uses.iter().for_each(|uses| reads.push(uses.iter().map(|t| t.0)));
        let mut at_home = vec![false; trace.tensors.len()];
        homes.iter().for_each(|tensor| at_home[tensor.index()] = true);
        let last_use = last_uses(trace, &uses, &producer, &at_home);
        let last_used_by = |at_home_too: bool| {
            let mut by_op = vec![Vec::new(); ops];
            for (tensor, op) in last_use.iter().enumerate().filter(|(_, op)| **op < ops as u32) {
                if at_home[tensor] == at_home_too {
                    by_op[*op as usize].push(tensor as u32);
                }
            }
            let mut lists = Lists::default();
            by_op.into_iter().for_each(|tensors| lists.push(tensors));
            lists
        };
        let (dies, goes_home) = (last_used_by(false), last_used_by(true));
        let mut is_changed = vec![false; trace.tensors.len()];
        for op in 0..ops {
            changes.get(op).iter().for_each(|tensor| is_changed[*tensor as usize] = true);
        }
        let mut changed_by = vec![Vec::new(); trace.tensors.len()];
        for op in 0..if homes.is_empty() { 0 } else { ops } {
            let changed = changes.get(op).iter().filter(|tensor| at_home[**tensor as usize]);
            changed.for_each(|tensor| changed_by[*tensor as usize].push(op as u32));
        }
        let mut home_changes = Lists::default();
        changed_by.into_iter().for_each(|ops| home_changes.push(ops));
        let gaps = find_gaps(trace, &uses, &last_use);
        let mut gaps_end = vec![0; ops];
        gaps.iter().for_each(|gap| gaps_end[gap.after.index()] += 1);
        for op in 1..ops {
            gaps_end[op] += gaps_end[op - 1];
        }
        let rerun_until = rerun_limits(trace, &changes);
        let recomputable = recomputable(trace, &producer, &rerun_until);
        let held_bytes = held_bytes(trace, &producer, &last_use);
        Self {
            duration: trace.ops.iter().map(|op| op.duration.0).collect(),
            recompute: (trace.ops.iter()).map(|op| op.recompute.unwrap_or(op.duration).0).collect(),
            workspace: trace.ops.iter().map(|op| op.workspace.0).collect(),
            is_convolution: trace.ops.iter().map(|op| op.kind == OpKind::Convolution).collect(),
            layers: backward_layers(trace),
            above: above_convolutions(trace),
            reads,
            writes,
            reads_again,
            writes_again,
            changes,
            changed: is_changed,
            there_at_start: (trace.tensors.iter().zip(&producer))
                .map(|(tensor, by)| *by == NO_OP && tensor.appears_before.is_none())
                .collect(),
            in_place,
            rerun_until,
            bytes: trace.tensors.iter().map(|t| t.bytes.0).collect(),
            producer,
            remade_by,
            outliving: (0..last_use.len() as u32)
                .filter(|tensor| last_use[*tensor as usize] == ops as u32)
                .collect(),
            homes: (0..at_home.len() as u32).filter(|tensor| at_home[*tensor as usize]).collect(),
            at_home,
            home_changes,
            goes_home_after: goes_home,
            there: Vec::new(),
            changed_there: Lists::default(),
            read_there: Lists::default(),
            held: trace.tensors.iter().map(|tensor| tensor.held).collect(),
            held_bytes,
            total: trace.ops.iter().map(|op| op.duration.0).sum(),
            last_use,
            dies_after: dies,
            gaps_end,
            gaps,
            recomputable,
        }
    }

    /// The model in which the host's processor runs these updates, each in so much time. What they change
    /// has its home on the host. Those before which the device runs nothing it runs itself.
    pub fn with_updates_there(mut self, updates: &[(OpId, Nanos)]) -> Self {
        let ops = self.ops();
        let mut there = vec![None; ops];
        for (op, time) in updates {
            there[op.index()] = Some(time.0);
        }
        let first = there.iter().position(Option::is_none).unwrap_or(ops);
        there[..first].fill(None);
        let (mut here, mut changed_there) = (Lists::default(), Lists::default());
        for tensor in 0..self.tensors() {
            let (on_host, on_device): (Vec<u32>, Vec<u32>) = (self.home_changes.get(tensor).iter())
                .partition(|op| there[**op as usize].is_some());
            here.push(on_device);
            changed_there.push(on_host);
        }
        let mut read_there = vec![Vec::new(); self.tensors()];
        for op in (0..ops).filter(|op| there[*op].is_some()) {
            for tensor in self.reads.get(op) {
                read_there[*tensor as usize].push(op as u32);
            }
        }
        self.read_there = Lists::default();
        read_there.into_iter().for_each(|reads| self.read_there.push(reads));
        let run_there = self.duration.iter().zip(&there).filter(|(_, there)| there.is_some());
        self.total -= run_there.map(|(time, _)| time).sum::<u64>();
        (self.home_changes, self.changed_there, self.there) = (here, changed_there, there);
        self
    }

    /// Whether the host's processor runs an op.
    pub fn runs_there(&self, op: OpId) -> bool {
        self.time_there(op.index()).is_some()
    }

    /// How long the host's processor takes for an op that it runs.
    pub(crate) fn time_there(&self, op: usize) -> Option<u64> {
        self.there.get(op).copied().flatten()
    }

    /// The last of the updates on the host that change a tensor before an op.
    pub(crate) fn last_change_there(&self, tensor: u32, before: u32) -> Option<u32> {
        if self.there.is_empty() {
            return None;
        }
        let changes = self.changed_there.get(tensor as usize);
        changes[..changes.partition_point(|op| *op < before)].last().copied()
    }

    /// The last of the updates on the host that read a tensor from its home there before an op.
    pub(crate) fn last_read_there(&self, tensor: u32, before: u32) -> Option<u32> {
        if self.there.is_empty() {
            return None;
        }
        let reads = self.read_there.get(tensor as usize);
        reads[..reads.partition_point(|op| *op < before)].last().copied()
    }

    /// All gaps, by the op after which they begin.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// How many ops the trace has.
    pub fn ops(&self) -> usize {
        self.duration.len()
    }

    /// The first op of the layer whose backward computation an op is part of: the ops of one
    /// convolution belong together, and so does all that comes before the first of those (what stands
    /// above the last convolution). Any other op is a layer of its own.
    pub fn layer(&self, op: OpId) -> OpId {
        OpId(self.layers[op.index()])
    }

    /// How many tensors the trace has.
    pub fn tensors(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a tensor begins and ends the iteration on the host.
    pub fn is_at_home(&self, tensor: TensorId) -> bool {
        self.at_home[tensor.index()]
    }

    /// Bytes of all that is on the device before the first op.
    pub(crate) fn at_start(&self) -> u64 {
        let constants = (0..self.bytes.len()).filter(|t| self.producer[*t] == NO_OP);
        constants.filter(|t| !self.at_home[*t]).map(|t| self.bytes[t]).sum()
    }

    /// How often ops of the device before this one change a tensor in place that has its home on the
    /// host. What the host's processor changes it changes there.
    pub(crate) fn version(&self, tensor: u32, before: u32) -> u32 {
        self.home_changes.get(tensor as usize).partition_point(|op| *op < before) as u32
    }

    /// Whether an op makes a tensor, or may change it in place.
    pub(crate) fn alters(&self, op: u32, tensor: u32) -> bool {
        self.producer[tensor as usize] == op || self.changes(OpId(op), TensorId(tensor))
    }

    /// Whether the first run of an op may change in place a tensor that it reads: only what no op
    /// makes is changed.
    pub fn changes(&self, op: OpId, tensor: TensorId) -> bool {
        self.changes.get(op.index()).binary_search(&tensor.0).is_ok()
    }

    /// Whether the first run of some op may change a tensor in place.
    pub fn is_changed(&self, tensor: TensorId) -> bool {
        self.changed[tensor.index()]
    }

    /// Whether a tensor is there, as no op makes it, before the first op.
    pub(crate) fn is_there_at_start(&self, tensor: u32) -> bool {
        self.there_at_start[tensor as usize]
    }

    /// The op whose rerun makes a tensor; none where none does.
    pub fn remade_by(&self, tensor: TensorId) -> Option<OpId> {
        let op = self.remade_by[tensor.index()];
        (op != NO_OP).then_some(OpId(op))
    }

    /// The tensors that a rerun of an op reads.
    pub fn reads_again(&self, op: OpId) -> impl Iterator<Item = TensorId> + '_ {
        self.reads_again.get(op.index()).iter().map(|t| TensorId(*t))
    }

    /// The op that writes a tensor; none for those that exist before the iteration.
    pub fn producer(&self, tensor: TensorId) -> Option<OpId> {
        let op = self.producer[tensor.index()];
        (op != NO_OP).then_some(OpId(op))
    }

    /// The tensors that an op uses and does not write.
    pub fn reads(&self, op: OpId) -> impl Iterator<Item = TensorId> + '_ {
        self.reads.get(op.index()).iter().map(|t| TensorId(*t))
    }

    /// The last op that uses a tensor; none if it outlives the iteration.
    pub fn last_use(&self, tensor: TensorId) -> Option<OpId> {
        let op = self.last_use[tensor.index()];
        ((op as usize) < self.ops()).then_some(OpId(op))
    }

    /// Whether the caller holds a tensor, whose memory nothing else may have then.
    pub fn is_held(&self, tensor: TensorId) -> bool {
        self.held[tensor.index()]
    }

    /// Whether a held tensor has been made and must be there when an op, by its position, starts for
    /// the first time; the number of ops for the end of the iteration.
    pub fn holds(&self, tensor: TensorId, op: usize) -> bool {
        let (tensor, op) = (tensor.index(), op as u32);
        let is_made = self.producer[tensor] == NO_OP || self.producer[tensor] < op;
        self.held[tensor] && is_made && self.last_use[tensor] >= op
    }

    /// Bytes of what is held and there while an op runs for the first time, its outputs among them.
    pub fn held_bytes(&self, op: OpId) -> Bytes {
        Bytes(self.held_bytes[op.index()])
    }

    /// The position in the trace up to which an op may be run again: before the op at that
    /// position for the last time. The number of ops means always, 0 never.
    pub fn rerunnable_until(&self, op: OpId) -> usize {
        self.rerun_until[op.index()] as usize
    }

    /// Whether a choice is possible for a gap at all.
    pub fn allows(&self, gap: GapId, choice: Choice) -> bool {
        choice != Choice::Recompute || self.recomputable[self.gaps[gap].tensor.index()]
    }

    /// Whether an op uses a tensor that it does not write, or the tensor must be there when the
    /// iteration ends.
    pub(crate) fn uses(&self, op: u32, tensor: u32) -> bool {
        match self.duration.len() as u32 {
            end if op >= end => self.last_use[tensor as usize] == end,
            _ => self.reads.get(op as usize).contains(&tensor),
        }
    }

    /// The gaps that begin after an op.
    pub(crate) fn gaps_after(&self, op: usize) -> std::ops::Range<usize> {
        let begin = if op == 0 { 0 } else { self.gaps_end[op - 1] };
        begin as usize..self.gaps_end[op] as usize
    }
}

fn last_uses(
    trace: &Trace,
    uses: &[Vec<TensorId>],
    producer: &[u32],
    at_home: &[bool],
) -> Vec<u32> {
    let end = trace.ops.len() as u32;
    let mut freed = vec![false; producer.len()];
    let mut last: Vec<u32> = producer.to_vec();
    for (index, op) in trace.ops.iter().enumerate() {
        uses[index].iter().for_each(|t| last[t.index()] = index as u32);
        op.frees.iter().for_each(|t| freed[t.index()] = true);
    }
    for (tensor, last) in last.iter_mut().enumerate() {
        if !at_home[tensor] && (producer[tensor] == NO_OP || !freed[tensor]) {
            *last = end;
        }
    }
    last
}

fn find_gaps(trace: &Trace, uses: &[Vec<TensorId>], last_use: &[u32]) -> Vec<Gap> {
    let mut used = vec![NO_OP; last_use.len()];
    let mut gaps = Vec::new();
    let mut add = |tensor: usize, after: u32, before: u32| {
        let schema::Tensor { bytes, held, .. } = trace.tensors[tensor];
        if after != NO_OP && before > after + 1 && bytes > Bytes::ZERO && !held {
            gaps.push(Gap {
                tensor: TensorId::from_index(tensor),
                after: OpId(after),
                before: ((before as usize) < trace.ops.len()).then_some(OpId(before)),
                bytes,
            });
        }
    };
    for (index, op) in trace.ops.iter().enumerate() {
        for tensor in uses[index].iter().chain(&op.writes) {
            let previous = std::mem::replace(&mut used[tensor.index()], index as u32);
            add(tensor.index(), previous, index as u32);
        }
    }
    for (tensor, last) in last_use.iter().enumerate() {
        if *last as usize == trace.ops.len() {
            add(tensor, used[tensor], *last);
        }
    }
    gaps.sort_by_key(|gap| (gap.after, gap.tensor));
    gaps
}

/// What is held and there during each op, in bytes.
fn held_bytes(trace: &Trace, producer: &[u32], last_use: &[u32]) -> Vec<u64> {
    // What comes to be with each op and is gone with it.
    let mut changes = vec![(0, 0); trace.ops.len() + 1];
    for (index, tensor) in trace.tensors.iter().enumerate().filter(|(_, tensor)| tensor.held) {
        let made = if producer[index] == NO_OP { 0 } else { producer[index] };
        changes[made as usize].0 += tensor.bytes.0;
        changes[(last_use[index] as usize + 1).min(trace.ops.len())].1 += tensor.bytes.0;
    }
    let there = changes[..trace.ops.len()].iter().scan(0, |there, (made, gone)| {
        *there = *there + made - gone;
        Some(*there)
    });
    there.collect()
}

/// What an op may change in place, in order.
fn changed(op: &Op, producer: &[u32]) -> Vec<u32> {
    let is_changed = |t: &&TensorId| producer[t.index()] == NO_OP && op.may_change(**t);
    let mut changed: Vec<u32> = op.reads.iter().filter(is_changed).map(|t| t.0).collect();
    changed.sort_unstable();
    changed
}

/// An op that reads what a later op changes in place can be run again before that, and not after.
fn rerun_limits(trace: &Trace, changes: &Lists) -> Vec<u32> {
    let ops = trace.ops.len() as u32;
    let mut changed_by = vec![ops; trace.tensors.len()];
    let mut limits = vec![0; trace.ops.len()];
    for (index, op) in trace.ops.iter().enumerate().rev() {
        if op.rerunnable {
            let reads = op.reads_again().iter();
            limits[index] = reads.map(|t| changed_by[t.index()]).min().unwrap_or(ops);
        }
        changes.get(index).iter().for_each(|t| changed_by[*t as usize] = index as u32);
    }
    limits
}

/// A tensor can be recomputed if its op can be run again and all that this needs is there or can
/// be recomputed.
fn recomputable(trace: &Trace, producer: &[u32], rerun_until: &[u32]) -> Vec<bool> {
    let mut result = vec![false; producer.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        let available = |t: &TensorId| producer[t.index()] == NO_OP || result[t.index()];
        let possible = rerun_until[index] > 0 && op.reads_again().iter().all(available);
        op.writes_again().iter().for_each(|t| result[t.index()] = possible);
    }
    result
}

/// [`Model::layer`] of each op. Neighbours that read the same tensor, the gradient of a convolution's
/// output, are that convolution's.
fn backward_layers(trace: &Trace) -> Vec<u32> {
    let is_convolution = |op: &Op| op.kind == OpKind::Convolution && op.phase == Phase::Backward;
    let mut is_above = above_convolutions(trace).is_some();
    let mut layers: Vec<u32> = Vec::with_capacity(trace.ops.len());
    for (index, op) in trace.ops.iter().enumerate() {
        let previous = index.checked_sub(1).map(|previous| &trace.ops[previous]);
        is_above &= !is_convolution(op);
        let with_previous = previous.is_some_and(|previous| match is_convolution(op) {
            true => is_convolution(previous) && op.reads.iter().any(|t| previous.reads.contains(t)),
            false => is_above && previous.phase == Phase::Backward && op.phase == Phase::Backward,
        });
        layers.push(if with_previous { layers[index - 1] } else { index as u32 });
    }
    layers
}

/// The first backward op, where convolutions come after it.
fn above_convolutions(trace: &Trace) -> Option<OpId> {
    let is_backward = |op: &&Op| op.phase == Phase::Backward;
    let is_convolution = |op: &Op| op.kind == OpKind::Convolution;
    let first = trace.ops.iter().position(|op| is_backward(&op))?;
    let later = trace.ops.iter().filter(is_backward).any(is_convolution);
    (later && !is_convolution(&trace.ops[first])).then_some(OpId(first as u32))
}
