//! One place, and the least cut there at given prices.

use schema::OpId;

use super::flow::{Network, UNCUT};
use super::ways::{MEMORY, ROWS, Rows, SPENT, Ways};
use crate::Problem;
use crate::kept_load::used_bytes;

/// A cut costs no more than this for one tensor; less than it might, which only lowers bounds.
const MOST: u64 = 1 << 60;

/// What every plan has to decide for one place.
pub(super) struct Place<'a> {
    ways: &'a Ways,
    /// Tensors that must be had later and that nothing makes again.
    apart: Vec<u32>,
    /// Ops that may be run again for the others, each a node of the network: the op and its time.
    ops: Vec<u64>,
    /// Tensors that must be had later, each with the node of the op that makes it.
    wanted: Vec<(u32, u32)>,
    /// Dead tensors that these ops read, each a node after those of the ops, with the arc to the
    /// node of the op that makes it, if that may be run again.
    dead: Vec<(u32, Option<(usize, u32)>)>,
    /// Arcs from ops to dead tensors.
    reads: Vec<usize>,
    network: Network,
    pub room: [i128; ROWS],
    on_source_side: Vec<bool>,
}

/// What a choice takes, by row, and what it costs beyond what there is.
pub(super) struct Taken {
    /// By row, what it takes beyond what there is.
    pub beyond: [i128; ROWS],
    /// At the prices that it is the best for: no choice costs less.
    pub least: i128,
}

impl<'a> Place<'a> {
    /// The place where an op starts, with the time of the ops before it and that of the others.
    pub fn new(problem: &Problem, ways: &'a Ways, op: usize, times: [u64; 2]) -> Self {
        let (model, trace) = (&problem.model, problem.trace);
        let at = &trace.ops[op];
        // What the op uses is there, and what is held.
        let is_held = |t| model.holds(schema::TensorId::from_index(t), op);
        let mut is_there: Vec<bool> = (0..model.tensors()).map(is_held).collect();
        at.reads.iter().for_each(|tensor| is_there[tensor.index()] = true);
        // Copies may have kept what an update has changed since.
        let copies = problem.allowed.swap || problem.allowed.compress;
        let may_run_again = |maker: OpId| {
            problem.may_run_again(maker) && (copies || model.rerunnable_until(maker) > op)
        };
        let is_wanted = |tensor: schema::TensorId| {
            let later = model.last_use(tensor).is_none_or(|last| last.index() > op);
            later && model.producer(tensor).is_none_or(|maker| maker.index() < op)
        };
        let mut place = Self {
            ways,
            apart: Vec::new(),
            ops: Vec::new(),
            wanted: Vec::new(),
            dead: Vec::new(),
            reads: Vec::new(),
            network: Network::default(),
            room: [0; ROWS],
            on_source_side: Vec::new(),
        };
        let [before, after] = times.map(i128::from);
        let memory = i128::from(problem.budget.0) - i128::from(used_bytes(problem, op));
        place.room = [memory, before, 0, before, after, 0, after];
        // By op, its node; ops whose inputs have not been looked at.
        let mut node = vec![u32::MAX; trace.ops.len()];
        let mut stack: Vec<OpId> = Vec::new();
        let mut ops = Vec::new();
        let mut node_of = |maker: OpId, stack: &mut Vec<OpId>, ops: &mut Vec<u64>| {
            let node = &mut node[maker.index()];
            if *node == u32::MAX {
                *node = ops.len() as u32;
                let op = &trace.ops[maker.index()];
                ops.push(op.device_time_again().0);
                stack.push(maker);
            }
            *node
        };
        for tensor in (0..model.tensors()).map(schema::TensorId::from_index) {
            let is_empty = trace.tensors[tensor.index()].bytes.0 == 0;
            if is_empty || is_there[tensor.index()] || !is_wanted(tensor) {
                continue;
            }
            match model.remade_by(tensor).filter(|maker| may_run_again(*maker)) {
                Some(maker) => {
                    place.wanted.push((tensor.0, node_of(maker, &mut stack, &mut ops)));
                }
                None => place.apart.push(tensor.0),
            }
        }
        // Nodes of dead tensors are numbered when it is known how many ops there are.
        let mut dead_number = vec![u32::MAX; model.tensors()];
        let mut reads: Vec<(u32, u32)> = Vec::new();
        let mut makers: Vec<(u32, Option<u32>)> = Vec::new();
        while let Some(reader) = stack.pop() {
            let reader_node = node_of(reader, &mut stack, &mut ops);
            for tensor in model.reads_again(reader) {
                let is_empty = trace.tensors[tensor.index()].bytes.0 == 0;
                if is_empty || is_there[tensor.index()] || is_wanted(tensor) {
                    continue;
                }
                if model.producer(tensor).is_none() {
                    continue;
                }
                let number = &mut dead_number[tensor.index()];
                if *number == u32::MAX {
                    *number = makers.len() as u32;
                    let maker = model.remade_by(tensor).filter(|maker| may_run_again(*maker));
                    let maker = maker.map(|maker| node_of(maker, &mut stack, &mut ops));
                    makers.push((tensor.0, maker));
                }
                reads.push((reader_node, *number));
            }
        }
        let first_dead = ops.len() as u32;
        for (number, (tensor, maker)) in makers.into_iter().enumerate() {
            let arc = |maker| (place.network.arc(first_dead + number as u32, maker), maker);
            let maker = maker.map(arc);
            place.dead.push((tensor, maker));
        }
        for (reader, number) in reads {
            let arc = place.network.arc(reader, first_dead + number);
            place.reads.push(arc);
        }
        place.ops = ops;
        let nodes = place.ops.len() + place.dead.len();
        place.network.finish(nodes);
        place.on_source_side = vec![false; nodes];
        place
    }

    /// How many nodes and arcs its network has.
    pub fn size(&self) -> usize {
        self.network.len() + self.apart.len() + self.wanted.len()
    }

    /// What costs least at some prices. Where there is work for less, what is said to be the least
    /// may be less than that.
    pub fn least(&mut self, prices: &Rows, work: &mut usize) -> Taken {
        let ways = self.ways;
        let cost = |tensor: u32| ways.cheapest(tensor, prices).0.min(MOST);
        let network = &mut self.network;
        network.clear();
        for (node, time) in self.ops.iter().enumerate() {
            network.demand[node] = time.saturating_mul(prices[SPENT]).min(MOST);
        }
        for (tensor, node) in &self.wanted {
            let supply = &mut network.supply[*node as usize];
            *supply = supply.saturating_add(cost(*tensor));
        }
        for (number, (tensor, maker)) in self.dead.iter().enumerate() {
            match maker {
                Some((arc, _)) => network.set(*arc, cost(*tensor)),
                None => network.demand[self.ops.len() + number] = cost(*tensor),
            }
        }
        self.reads.iter().for_each(|arc| network.set(*arc, UNCUT));
        let apart: i128 = self.apart.iter().map(|tensor| i128::from(cost(*tensor))).sum();
        let cut = apart + network.fill(work) as i128;
        network.source_side(&mut self.on_source_side);
        let charged = |row: usize| i128::from(prices[row]) * self.room[row];
        let least = cut - (0..ROWS).map(charged).sum::<i128>();
        Taken { beyond: self.beyond(prices, |node| self.on_source_side[node]), least }
    }

    /// What it takes beyond what there is if all ops are run again that may be, or none, and all
    /// else is had in the way that is cheapest at some prices.
    pub fn all_or_none(&self, all: bool, prices: &Rows) -> [i128; ROWS] {
        self.beyond(prices, |_| all)
    }

    fn beyond(&self, prices: &Rows, runs_again: impl Fn(usize) -> bool) -> [i128; ROWS] {
        let mut beyond = self.room.map(|room| -room);
        self.each_had(prices, &runs_again, |_, way| {
            beyond.iter_mut().zip(way).for_each(|(sum, taken)| *sum += i128::from(*taken));
        });
        let again = self.ops.iter().enumerate().filter(|(node, _)| runs_again(*node));
        beyond[SPENT] += again.map(|(_, time)| i128::from(*time)).sum::<i128>();
        beyond
    }

    /// What the last choice has, and how, at the prices that it is the best for.
    pub fn had(&self, prices: &Rows, tell: impl FnMut(u32, &Rows)) {
        self.each_had(prices, |node| self.on_source_side[node], tell);
    }

    fn each_had(
        &self,
        prices: &Rows,
        runs_again: impl Fn(usize) -> bool,
        mut tell: impl FnMut(u32, &Rows),
    ) {
        let mut take = |tensor: u32| tell(tensor, self.ways.cheapest(tensor, prices).1);
        self.apart.iter().for_each(|tensor| take(*tensor));
        let held = self.wanted.iter().filter(|(_, node)| !runs_again(*node as usize));
        held.for_each(|(tensor, _)| take(*tensor));
        for (number, (tensor, maker)) in self.dead.iter().enumerate() {
            let made_again = maker.is_some_and(|(_, node)| runs_again(node as usize));
            if runs_again(self.ops.len() + number) && !made_again {
                take(*tensor);
            }
        }
    }

    /// By how much the least that must be on the device exceeds what there is of memory, whatever
    /// the time.
    pub fn short_by(&mut self, work: &mut usize) -> i128 {
        let mut prices = [0; ROWS];
        prices[MEMORY] = 1;
        self.least(&prices, work).least
    }
}
