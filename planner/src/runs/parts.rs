//! What sequences of runs are made of.

use schema::{Op, OpId, TensorId};
use simulator::Policy;

use crate::Problem;

/// A way back for a tensor that is not a rerun of its op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A copy in of what was copied out.
    Copy,
    /// A codec, whose compressed form stayed on the device.
    Codec(u8),
    /// A codec, whose compressed form was copied out and in.
    CodecAndCopy(u8),
    /// None: it stands where its tensor has been copied out, and holds it until then.
    Out,
}

/// One tensor's way back, which stands in a sequence like a rerun that reads nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    pub tensor: u32,
    pub way: Way,
    /// What is on the device of the tensor while it is away.
    pub small: i64,
    /// Time of the copies out and in; of an item that holds, of the copy out alone.
    pub copies: [u64; 2],
    /// Time on the lane of codecs, where they have one.
    pub codec: u64,
}

/// What a sequence of runs is made of, the same for all sequences of a problem.
///
/// What is held does not come and go: no run reads or makes it, and a run that does has room for it
/// to work in.
pub(crate) struct Parts {
    /// By op, the end of the iteration, and items: the tensors that it reads and that come and go.
    pub reads: Vec<Vec<u32>>,
    pub writes: Vec<Vec<u32>>,
    /// By op: pairs of input and output that may share memory.
    pub in_place: Vec<Vec<(u32, u32)>>,
    pub workspace: Vec<i64>,
    /// By op: what a rerun takes of compute; by item, what its codec does.
    pub time: Vec<u64>,
    /// By op: the last stage in which it may run again.
    pub until: Vec<usize>,
    /// By op, itself; by item, the op with which its tensor comes to be or is used first.
    pub near: Vec<u32>,
    /// By tensor.
    pub bytes: Vec<i64>,
    /// By tensor: the op that makes it, if one does.
    pub maker: Vec<Option<u32>>,
    /// By tensor: its items.
    pub items: Vec<std::ops::Range<u32>>,
    all_items: Vec<Item>,
    /// Bytes of what never leaves.
    pub constant: i64,
    /// What is held and made by an op: the op, the last that uses it, and its bytes.
    pub held: Vec<(usize, usize, i64)>,
    /// Tensors that have a size and may leave.
    pub leaving: Vec<u32>,
    /// By op: the time of all before it.
    pub clock: Vec<u64>,
    /// What has been copied out stays on the host.
    pub copies_stay: bool,
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
        let bytes: Vec<i64> = trace.tensors.iter().map(|t| t.bytes.0 as i64).collect();
        let mut first_use: Vec<Option<u32>> = maker.clone();
        for (index, op) in trace.ops.iter().enumerate() {
            for tensor in &op.reads {
                first_use[tensor.index()].get_or_insert(index as u32);
            }
        }
        // What is held and dead is not made again.
        let until = |op: usize| match problem.allowed.recompute {
            true => (model.reads(OpId::from_index(op)))
                .filter(|t| model.is_held(*t) && model.producer(*t).is_some())
                .filter_map(|t| model.last_use(t).map(OpId::index))
                .fold(model.rerunnable_until(OpId::from_index(op)), usize::min),
            false => 0,
        };
        let comes = |t: &&TensorId| !held[t.index()];
        let workspace = |op: &Op| -> i64 {
            let made = op.writes.iter().filter(|t| held[t.index()]);
            op.workspace.0 as i64 + made.map(|t| bytes[t.index()]).sum::<i64>()
        };
        let last = |t| model.last_use(TensorId::from_index(t)).map_or(ops, OpId::index);
        let made = |t| Some((model.producer(TensorId::from_index(t))?.index(), last(t), bytes[t]));
        let mut clock = vec![0];
        trace.ops.iter().for_each(|op| clock.push(clock[clock.len() - 1] + op.duration.0));
        let mut parts = Self {
            reads: Vec::with_capacity(ops + 1),
            writes: (trace.ops.iter())
                .map(|op| op.writes.iter().filter(comes).map(|t| t.0).collect())
                .collect(),
            in_place: (trace.ops.iter())
                .map(|op| op.in_place.iter().map(|p| (p.input.0, p.output.0)).collect())
                .collect(),
            workspace: trace.ops.iter().map(workspace).collect(),
            time: trace.ops.iter().map(|op| op.recompute.unwrap_or(op.duration).0).collect(),
            until: (0..ops).map(until).collect(),
            near: (0..ops as u32).collect(),
            constant: 0,
            held: (0..tensors).filter(|t| held[*t]).filter_map(made).collect(),
            leaving: Vec::new(),
            items: Vec::with_capacity(tensors),
            all_items: Vec::new(),
            clock,
            copies_stay: policy.copies_stay,
            bytes,
            maker,
            ops,
        };
        let mut outs: Vec<(u32, u32)> = Vec::new();
        // The end of the iteration stands where an op more would.
        parts.add(Vec::new(), 0, ops as u32, 0);
        for (tensor, first) in first_use.iter().enumerate() {
            let begin = parts.writes.len() as u32;
            if let (Some(first), true) = (first, parts.bytes[tensor] > 0 && !held[tensor]) {
                for (item, time) in items(problem, tensor as u32) {
                    parts.add(vec![tensor as u32], time, *first, usize::MAX);
                    parts.all_items.push(item);
                }
            }
            let end = parts.writes.len() as u32;
            if end > begin && problem.allowed.swap {
                parts.add(Vec::new(), 0, first.unwrap_or(0), usize::MAX);
                let out = parts.all_items[parts.all_items.len() - (end - begin) as usize].copies;
                let item =
                    Item { tensor: tensor as u32, way: Way::Out, small: 0, copies: out, codec: 0 };
                parts.all_items.push(item);
                outs.push((end, tensor as u32));
            }
            parts.items.push(begin..end);
        }
        for op in 0..ops {
            let mut tensors: Vec<u32> = model
                .reads(OpId::from_index(op))
                .map(|t| t.0)
                .filter(|t| parts.comes_and_goes(*t))
                .collect();
            tensors.sort_unstable();
            tensors.dedup();
            parts.reads.push(tensors);
        }
        // The end of the iteration counts as an op that reads what outlives it.
        let outlives = |t: &u32| model.last_use(TensorId(*t)).is_none();
        let all = 0..tensors as u32;
        let at_end = all.clone().filter(|t| parts.comes_and_goes(*t)).filter(outlives).collect();
        parts.reads.push(at_end);
        parts.reads.resize(parts.writes.len(), Vec::new());
        outs.iter().for_each(|(out, tensor)| parts.reads[*out as usize].push(*tensor));
        let is_made = |t: u32| held[t as usize] && model.producer(TensorId(t)).is_some();
        let stays = all.clone().filter(|t| !parts.comes_and_goes(*t) && !is_made(*t));
        let (constant, leaving) = (
            stays.map(|t| parts.bytes[t as usize]).sum(),
            all.filter(|t| parts.may_leave(*t)).collect(),
        );
        Self { constant, leaving, ..parts }
    }

    /// One more that stands among the ops.
    fn add(&mut self, writes: Vec<u32>, time: u64, near: u32, until: usize) {
        self.writes.push(writes);
        self.in_place.push(Vec::new());
        self.workspace.push(0);
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

    /// Where a tensor can be copied out: the item that holds it until it has been.
    pub fn out_of(&self, tensor: u32) -> u32 {
        self.items[tensor as usize].end
    }

    pub fn is_out(&self, op: u32) -> bool {
        self.item(op).is_some_and(|item| item.way == Way::Out)
    }

    /// Whether some op makes a tensor, or it may leave and be brought back.
    pub fn comes_and_goes(&self, tensor: u32) -> bool {
        self.maker[tensor as usize].is_some() || !self.items[tensor as usize].is_empty()
    }

    fn may_leave(&self, tensor: u32) -> bool {
        let maker = self.maker[tensor as usize];
        self.bytes[tensor as usize] > 0
            && (!self.items[tensor as usize].is_empty()
                || maker.is_some_and(|op| self.until[op as usize] > 0))
    }
}

/// A tensor's ways back that are no reruns, each with what it takes of compute.
fn items(problem: &Problem, tensor: u32) -> Vec<(Item, u64)> {
    let (may, link) = (problem.allowed, &problem.machine.link);
    let copies = |bytes| {
        [schema::Direction::D2h, schema::Direction::H2d]
            .map(|direction| link.copy_time(direction, bytes).0)
    };
    let mut all = Vec::new();
    if may.swap {
        let copies = copies(problem.trace.tensors[tensor as usize].bytes);
        all.push((Item { tensor, way: Way::Copy, small: 0, copies, codec: 0 }, 0));
    }
    let codecs = if may.compress { problem.codecs.costs.len() as u8 } else { 0 };
    let lane = problem.codecs.costs.lane();
    for number in 0..codecs {
        let Some(cost) = problem.codecs.costs.cost(number, TensorId(tensor)) else { continue };
        let runs = (cost.compress + cost.decompress).0;
        let time = lane.map_or(runs, |lane| (runs as f64 * lane.taken()) as u64);
        let (codec, small) = (lane.map_or(0, |_| runs), cost.reserved.0 as i64);
        let way = Way::Codec(number);
        all.push((Item { tensor, way, small, copies: [0, 0], codec }, time));
        if may.swap {
            let (way, copies) = (Way::CodecAndCopy(number), copies(cost.reserved));
            all.push((Item { tensor, way, small: 0, copies, codec }, time));
        }
    }
    all
}
