//! What programmes of one problem have in common.

use schema::{Direction, OpId, TensorId};

use crate::Problem;

pub(super) struct Facts<'a> {
    pub problem: &'a Problem<'a>,
    /// Whether anything may be copied.
    pub copies: bool,
    /// By tensor: the op that makes it, if that counts.
    pub maker: Vec<Option<usize>>,
    /// By tensor: whether no op makes it, and it may be away.
    comes_and_goes: Vec<bool>,
    /// By tensor: the ops that read it, in order; the number of ops where it outlives the iteration.
    pub uses: Vec<Vec<usize>>,
    /// The time of the ops before each.
    pub start: Vec<u64>,
    /// By tensor: how long a copy out and a copy in take.
    pub copy: Vec<[u64; 2]>,
    /// What a byte costs, about.
    pub price: f64,
    /// Plans that lose more than this in one stretch are left out.
    pub most_lost: u64,
}

/// A plan that takes so many times as long beyond its ops as is known to be the least is left out:
/// no programme is to show as much.
const MOST_LOST: u64 = 4;

/// No copy counts for more, so that sums of products stay far from the end of numbers.
const LONGEST: u64 = 1 << 50;

impl<'a> Facts<'a> {
    /// The facts of a problem of which it is known what no plan can beat, and what a byte costs.
    pub fn new(problem: &'a Problem<'a>, known: u64, price: f64) -> Self {
        let (trace, model) = (problem.trace, &problem.model);
        let copies = problem.allowed.swap;
        let tensors = || (0..model.tensors()).map(TensorId::from_index);
        let has_size = |t: &TensorId| trace.tensors[t.index()].bytes.0 > 0;
        let maker = |t: TensorId| model.producer(t).filter(|_| has_size(&t)).map(OpId::index);
        let may_be_away = |t: TensorId| {
            copies && model.producer(t).is_none() && has_size(&t) && !model.is_at_home(t)
        };
        let mut uses = vec![Vec::new(); model.tensors()];
        for (index, op) in trace.ops.iter().enumerate() {
            op.reads.iter().for_each(|t| uses[t.index()].push(index));
        }
        for tensor in tensors().filter(|t| model.last_use(*t).is_none()) {
            uses[tensor.index()].push(trace.ops.len());
        }
        let mut start = vec![0];
        for op in &trace.ops {
            start.push(start[start.len() - 1] + op.device_time().0);
        }
        let time = |t: TensorId| {
            let bytes = trace.tensors[t.index()].bytes;
            [Direction::D2h, Direction::H2d]
                .map(|way| problem.machine.link.copy_time(way, bytes).0.min(LONGEST))
        };
        let copy: Vec<[u64; 2]> = tensors().filter(|_| copies).map(time).collect();
        Self {
            problem,
            copies,
            maker: tensors().map(maker).collect(),
            comes_and_goes: tensors().map(may_be_away).collect(),
            uses,
            start,
            copy,
            price,
            most_lost: known.saturating_mul(MOST_LOST).clamp(1, LONGEST),
        }
    }

    /// The first use of a tensor after an op.
    pub fn next_use(&self, tensor: usize, op: usize) -> Option<usize> {
        let uses = &self.uses[tensor];
        uses.get(uses.partition_point(|user| *user <= op)).copied()
    }

    /// Whether a tensor counts, and is there or has been before an op starts.
    pub fn is_made(&self, tensor: usize, place: usize) -> bool {
        self.maker[tensor].map_or(self.comes_and_goes[tensor], |maker| maker < place)
    }

    /// Whether a tensor counts at all.
    pub fn counts(&self, tensor: usize) -> bool {
        self.maker[tensor].is_some() || self.comes_and_goes[tensor]
    }

    /// Whether an op may be run again after another has started. Copies may have kept what an update
    /// has changed since.
    pub fn may_run_after(&self, op: usize, place: usize) -> bool {
        let op = OpId::from_index(op);
        let until = self.problem.model.rerunnable_until(op);
        self.problem.may_run_again(op) && (self.copies || until > place)
    }

    /// Whether a rerun of the op that makes a tensor makes it, too.
    pub fn is_remade(&self, tensor: usize) -> bool {
        self.problem.model.remade_by(TensorId::from_index(tensor)).is_some()
    }

    pub fn time_again(&self, op: usize) -> u64 {
        let op = &self.problem.trace.ops[op];
        op.device_time_again().0
    }

    pub fn bytes(&self, tensor: usize) -> u64 {
        self.problem.trace.tensors[tensor].bytes.0
    }

    /// The time of all ops.
    pub fn time(&self) -> u64 {
        self.start[self.start.len() - 1]
    }
}
