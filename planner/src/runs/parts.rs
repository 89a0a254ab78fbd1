//! What sequences of runs are made of.

use schema::{Bytes, InPlace, Op, OpId, TensorId};
use simulator::{OffloadStart, Policy};

use super::{Key, first_run};
use crate::Problem;
use crate::lower::ALIGNMENT;

/// A way back for a tensor that is not a rerun of its op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A copy in of what was copied out.
    Copy,
    /// A codec, whose compressed form stayed on the device.
    Codec(u8),
    /// A codec, whose compressed form was copied out and in.
    CodecAndCopy(u8),
}

/// One tensor's way back, which stands in a sequence like a rerun that reads nothing; or what holds
/// the tensor until it has left by that way, which stands there like a run that reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    pub tensor: u32,
    pub way: Way,
    pub holds: bool,
    /// What is on the device of the tensor while it is away.
    pub small: i64,
    /// Time of the copies out and in.
    pub copies: [u64; 2],
    /// Time of both runs of the codec, where codecs have a lane.
    pub codec: [u64; 2],
}

/// What a run has to do with, of what comes and goes.
#[derive(Default)]
pub(crate) struct Operands {
    pub reads: Vec<u32>,
    pub writes: Vec<u32>,
    /// Pairs of input and output that may share memory.
    pub in_place: Vec<(u32, u32)>,
    /// What it works in. What it makes that is held counts here, as that does not come and go.
    pub workspace: i64,
}

/// What a sequence of runs is made of, the same for all sequences of a problem.
pub(crate) struct Parts {
    /// By op and the end of the iteration, the first time that it runs.
    pub first: Vec<Operands>,
    /// By op, the end of the iteration, and items, when it runs again.
    pub again: Vec<Operands>,
    /// By op: what a rerun takes of compute; by item, what its codec does.
    pub time: Vec<u64>,
    /// By op: the last stage in which it may run again.
    pub until: Vec<usize>,
    /// By op, itself; by item, the op with which its tensor comes to be or is used first.
    pub near: Vec<u32>,
    /// By tensor, as all bytes here those of whole stretches of aligned addresses: what is not counted
    /// would lack when addresses are found.
    pub bytes: Vec<i64>,
    /// By tensor: the op that makes it, if one does.
    pub maker: Vec<Option<u32>>,
    /// The same of reruns.
    pub remaker: Vec<Option<u32>>,
    /// By tensor: its items.
    pub items: Vec<std::ops::Range<u32>>,
    /// By tensor: those of its items that a search considers, as no other is better in every way.
    pub worthwhile: Vec<std::ops::Range<u32>>,
    all_items: Vec<Item>,
    /// Bytes of what never leaves.
    pub constant: i64,
    /// What is held and made by an op: the op, the last that uses it, and its bytes.
    pub held: Vec<(usize, usize, i64)>,
    /// By stage: bytes that are not to be used; empty where all are.
    pub reserved: Vec<i64>,
    /// Tensors that have a size and may leave, in the order in which they come to be.
    pub leaving: Vec<u32>,
    /// By op: the time of all before it.
    pub clock: Vec<u64>,
    policy: Policy,
    /// By tensor: whether some op changes it in place.
    changed: Vec<bool>,
    pub has_codecs: bool,
    ops: usize,
}

impl Parts {
    pub fn new(problem: &Problem, policy: Policy) -> Self {
        let (trace, model) = (problem.trace, &problem.model);
        let (ops, tensors) = (trace.ops.len(), trace.tensors.len());
        let held: Vec<bool> =
            (0..tensors).map(|t| model.is_held(TensorId::from_index(t))).collect();
        let maker = |t: usize| model.producer(TensorId::from_index(t)).map(|op| op.0);
        let maker: Vec<Option<u32>> = (0..tensors).map(|t| maker(t).filter(|_| !held[t])).collect();
        let remaker = |t: usize| model.remade_by(TensorId::from_index(t)).map(|op| op.0);
        let remaker: Vec<Option<u32>> =
            (0..tensors).map(|t| remaker(t).filter(|_| !held[t])).collect();
        let bytes: Vec<i64> = trace.tensors.iter().map(|t| aligned(t.bytes)).collect();
        let mut first_use: Vec<Option<u32>> = maker.clone();
        for (index, op) in trace.ops.iter().enumerate() {
            for tensor in &op.reads {
                first_use[tensor.index()].get_or_insert(index as u32);
            }
        }
        // What is held and dead is not made again.
        let until = |op: usize| match problem.allowed.recompute {
            true => (model.reads_again(OpId::from_index(op)))
                .filter(|t| model.is_held(*t) && model.producer(*t).is_some())
                .filter_map(|t| model.last_use(t).map(OpId::index))
                .fold(model.rerunnable_until(OpId::from_index(op)), usize::min),
            false => 0,
        };
        let last = |t| model.last_use(TensorId::from_index(t)).map_or(ops, OpId::index);
        let made = |t| Some((model.producer(TensorId::from_index(t))?.index(), last(t), bytes[t]));
        let mut clock = vec![0];
        trace.ops.iter().for_each(|op| clock.push(clock[clock.len() - 1] + op.duration.0));
        let mut parts = Self {
            first: Vec::with_capacity(ops + 1),
            again: Vec::new(),
            time: trace.ops.iter().map(|op| op.recompute.unwrap_or(op.duration).0).collect(),
            until: (0..ops).map(until).collect(),
            near: (0..ops as u32).collect(),
            constant: 0,
            held: (0..tensors).filter(|t| held[*t]).filter_map(made).collect(),
            reserved: Vec::new(),
            leaving: Vec::new(),
            items: Vec::with_capacity(tensors),
            worthwhile: Vec::with_capacity(tensors),
            all_items: Vec::new(),
            clock,
            policy,
            changed: (0..tensors).map(|t| model.is_changed(TensorId::from_index(t))).collect(),
            has_codecs: problem.allowed.compress && !problem.codecs.costs.is_empty(),
            bytes,
            maker,
            remaker,
            ops,
        };
        // The end of the iteration stands where an op more would.
        parts.add(0, ops as u32, 0);
        for (tensor, first) in first_use.iter().enumerate() {
            let begin = parts.near.len() as u32;
            let mut worthwhile = begin;
            if let (Some(first), true) = (first, parts.bytes[tensor] > 0 && !held[tensor]) {
                let (better, worse) = sorted_out(items(problem, tensor as u32));
                worthwhile = begin + better.len() as u32;
                for (item, time) in better.into_iter().chain(worse) {
                    parts.add(time, *first, usize::MAX);
                    parts.all_items.push(item);
                }
            }
            parts.worthwhile.push(begin..worthwhile);
            let end = parts.near.len() as u32;
            for way in begin..end {
                let item = *parts.item(way).expect("one of the items just added");
                parts.add(0, first.unwrap_or(0), usize::MAX);
                parts.all_items.push(Item { holds: true, small: 0, ..item });
            }
            parts.items.push(begin..end);
        }
        for op in &trace.ops {
            let (first, again) = (
                parts.operands(op, &op.reads, &op.writes, &held),
                parts.operands(op, op.reads_again(), op.writes_again(), &held),
            );
            parts.first.push(first);
            parts.again.push(again);
        }
        // The end of the iteration counts as an op that reads what outlives it.
        let outlives = |t: &u32| model.last_use(TensorId(*t)).is_none();
        let all = 0..tensors as u32;
        let at_end = all.clone().filter(|t| parts.comes_and_goes(*t)).filter(outlives).collect();
        parts.first.push(Operands { reads: at_end, ..Operands::default() });
        parts.again.push(Operands::default());
        for item in &parts.all_items {
            let tensor = vec![item.tensor];
            let (reads, writes) =
                if item.holds { (tensor, Vec::new()) } else { (Vec::new(), tensor) };
            parts.again.push(Operands { reads, writes, ..Operands::default() });
        }
        let is_made = |t: u32| held[t as usize] && model.producer(TensorId(t)).is_some();
        let stays = all.clone().filter(|t| !parts.comes_and_goes(*t) && !is_made(*t));
        let constant = stays.map(|t| parts.bytes[t as usize]).sum();
        let mut leaving: Vec<u32> = all.filter(|t| parts.may_leave(*t)).collect();
        leaving.sort_by_key(|t| parts.maker[*t as usize]);
        Self { constant, leaving, ..parts }
    }

    /// What a run of an op has to do with that reads and writes these.
    fn operands(
        &self,
        op: &Op,
        reads: &[TensorId],
        writes: &[TensorId],
        held: &[bool],
    ) -> Operands {
        let mut comes: Vec<u32> =
            reads.iter().map(|t| t.0).filter(|t| self.comes_and_goes(*t)).collect();
        comes.sort_unstable();
        let bytes = |t: TensorId| self.bytes[t.index()];
        let (kept, made): (Vec<TensorId>, Vec<TensorId>) =
            writes.iter().partition(|t| held[t.index()]);
        let pairs = (op.in_place.iter())
            .filter(|pair| reads.contains(&pair.input) && writes.contains(&pair.output));
        let (over_held, pairs): (Vec<InPlace>, Vec<InPlace>) =
            pairs.partition(|pair| held[pair.input.index()]);
        let shared = over_held.iter().map(|pair| bytes(pair.input).min(bytes(pair.output)));
        let kept = kept.into_iter().map(bytes).sum::<i64>();
        Operands {
            reads: comes,
            writes: made.into_iter().map(|t| t.0).collect(),
            in_place: pairs.iter().map(|pair| (pair.input.0, pair.output.0)).collect(),
            workspace: aligned(op.workspace) + kept - shared.sum::<i64>(),
        }
    }

    /// What the run at a key has to do with, which is one of this op.
    pub fn at(&self, key: Key, op: u32) -> &Operands {
        let of = if key == first_run(op as usize) { &self.first } else { &self.again };
        &of[op as usize]
    }

    /// One more that stands among the ops.
    fn add(&mut self, time: u64, near: u32, until: usize) {
        self.time.push(time);
        self.near.push(near);
        self.until.push(until);
    }

    pub fn ops(&self) -> usize {
        self.ops
    }

    /// The item that stands among the ops as this one, if one does.
    pub fn item(&self, op: u32) -> Option<&Item> {
        self.all_items.get((op as usize).checked_sub(self.ops + 1)?)
    }

    /// The item of a tensor and a way.
    pub fn item_of(&self, tensor: u32, way: Way) -> Option<u32> {
        let mut items = self.items[tensor as usize].clone();
        items.find(|item| self.item(*item).is_some_and(|item| item.way == way))
    }

    /// What holds a tensor until it has left for an item to bring it back.
    pub fn hold_of(&self, item: u32, tensor: u32) -> u32 {
        item + self.items[tensor as usize].len() as u32
    }

    pub fn is_hold(&self, op: u32) -> bool {
        self.item(op).is_some_and(|item| item.holds)
    }

    /// Whether some op makes a tensor, or it may leave and be brought back.
    pub fn comes_and_goes(&self, tensor: u32) -> bool {
        self.maker[tensor as usize].is_some() || !self.items[tensor as usize].is_empty()
    }

    /// Whether a copy of a tensor on the host stays there, and stays right.
    pub fn copy_stays(&self, tensor: u32) -> bool {
        self.policy.copies_stay && !self.changed[tensor as usize]
    }

    /// Whether a copy of a tensor may start before what reads it last.
    pub fn leaves_early(&self, tensor: u32) -> bool {
        self.policy.offload == OffloadStart::OnceMade && !self.changed[tensor as usize]
    }

    fn may_leave(&self, tensor: u32) -> bool {
        let maker = self.remaker[tensor as usize];
        self.bytes[tensor as usize] > 0
            && (!self.items[tensor as usize].is_empty()
                || maker.is_some_and(|op| self.until[op as usize] > 0))
    }
}

/// The bytes that a block takes where each begins at an aligned address.
fn aligned(bytes: Bytes) -> i64 {
    bytes.0.next_multiple_of(ALIGNMENT) as i64
}

/// The stretches of aligned addresses that so many bytes have whole.
pub(crate) fn whole(bytes: Bytes) -> i64 {
    (bytes.0 / ALIGNMENT * ALIGNMENT) as i64
}

/// A tensor's ways back that are no reruns, each with what it takes of compute.
fn items(problem: &Problem, tensor: u32) -> Vec<Timed> {
    let (may, link) = (problem.allowed, &problem.machine.link);
    let copies = |bytes| {
        [schema::Direction::D2h, schema::Direction::H2d]
            .map(|direction| link.copy_time(direction, bytes).0)
    };
    let mut all = Vec::new();
    let item = |way, small, copies, codec| Item { tensor, way, holds: false, small, copies, codec };
    if may.swap {
        let copies = copies(problem.trace.tensors[tensor as usize].bytes);
        all.push((item(Way::Copy, 0, copies, [0, 0]), 0));
    }
    let codecs = if may.compress { problem.codecs.costs.len() as u8 } else { 0 };
    let lane = problem.codecs.costs.lane();
    for number in 0..codecs {
        let Some(cost) = problem.codecs.costs.cost(number, TensorId(tensor)) else { continue };
        let runs = (cost.compress + cost.decompress).0;
        let time = lane.map_or(runs, |lane| (runs as f64 * lane.taken()) as u64);
        let codec = lane.map_or([0, 0], |_| [cost.compress.0, cost.decompress.0]);
        all.push((item(Way::Codec(number), aligned(cost.reserved), [0, 0], codec), time));
        if may.swap {
            all.push((item(Way::CodecAndCopy(number), 0, copies(cost.reserved), codec), time));
        }
    }
    all
}

/// An item with what it takes of compute.
type Timed = (Item, u64);

/// Those items of a tensor than which no other is better in every way, and the rest.
fn sorted_out(items: Vec<Timed>) -> (Vec<Timed>, Vec<Timed>) {
    let is_as_good = |(one, time): &Timed, (other, others): &Timed| {
        let lanes = [one.copies, one.codec].concat().into_iter();
        let is_alike = std::mem::discriminant(&one.way) == std::mem::discriminant(&other.way);
        is_alike
            && one.small <= other.small
            && time <= others
            && lanes.zip([other.copies, other.codec].concat()).all(|(one, other)| one <= other)
    };
    let mut better: Vec<Timed> = Vec::new();
    let mut worse = Vec::new();
    for item in items {
        if better.iter().any(|other| is_as_good(other, &item)) {
            worse.push(item);
            continue;
        }
        worse.extend(better.extract_if(.., |other| is_as_good(&item, other)));
        better.push(item);
    }
    (better, worse)
}
