//! The policy as a runtime that a trace is run through.

use schema::{Bytes, Nanos, OpId, OpKind, TensorId};
use simulator::{Infeasible, Step};

use super::OnlineRun;
use super::classes::{Classes, Node};
use super::pool::{Pool, Weighed};
use crate::Problem;
use crate::recomputable::droppable;

/// A tensor as the policy knows it.
#[derive(Debug, Clone, Default)]
struct Storage {
    bytes: u64,
    /// Time of the op that makes it and of the views on it so far.
    cost: u64,
    is_there: bool,
    locks: u32,
    last_access: u64,
    /// Whether it may be evicted at all.
    evictable: bool,
    /// Its node while it is evicted or not yet made.
    class: Option<Node>,
    /// What was computed from it so far, and what it is computed from, without what is always
    /// there.
    neighbours: Vec<u32>,
}

/// An op that is about to run, and what it still waits for.
struct Pending {
    op: usize,
    again: bool,
    /// The tensor for whose sake it runs.
    wanted: Option<u32>,
    /// Inputs that were missing when it was asked for, and how many of them have been seen to.
    missing: Vec<u32>,
    seen: usize,
}

pub(super) struct Runtime<'a> {
    problem: &'a Problem<'a>,
    budget: u64,
    used: u64,
    peak: u64,
    clock: u64,
    storages: Vec<Storage>,
    pool: Pool,
    /// Of the pool, what is to be weighed anew before it is looked at.
    unweighed: Vec<u32>,
    classes: Classes,
    /// By the root of a class: tensors that were weighed with it, each with its mark at the time.
    weighed_with: Vec<Vec<(u32, u32)>>,
    /// By tensor: changes when it is, or is to be, weighed anew.
    marks: Vec<u32>,
    /// How many tensors were weighed, or counted as neighbours of one that was.
    weighed: u64,
    steps: Vec<Step>,
}

impl<'a> Runtime<'a> {
    pub fn new(problem: &'a Problem<'a>, budget: Bytes) -> Self {
        let model = &problem.model;
        let droppable = droppable(problem);
        let storage = |index: usize| {
            let tensor = TensorId::from_index(index);
            let constant = model.producer(tensor).is_none();
            Storage {
                bytes: problem.trace.tensors[index].bytes.0,
                is_there: constant,
                evictable: droppable[index],
                ..Storage::default()
            }
        };
        let used = problem.trace.constant_bytes().0;
        Self {
            problem,
            budget: budget.0,
            used,
            peak: used,
            clock: 0,
            storages: (0..model.tensors()).map(storage).collect(),
            pool: Pool::new(model.tensors()),
            unweighed: Vec::new(),
            classes: Classes::default(),
            weighed_with: Vec::new(),
            marks: vec![0; model.tensors()],
            weighed: 0,
            steps: Vec::new(),
        }
    }

    pub fn run(mut self) -> Result<OnlineRun, Infeasible> {
        let ops = self.problem.trace.ops.len();
        for op in 0..ops {
            self.create_outputs(op);
            self.materialise(op, None, op)?;
            let trace_op = &self.problem.trace.ops[op];
            for tensor in &trace_op.writes {
                self.storages[tensor.index()].last_access = self.clock;
                self.has_changed(tensor.0);
            }
            let is_view = trace_op.kind == OpKind::View && trace_op.writes.is_empty();
            if let Some(viewed) = trace_op.reads.first().filter(|_| is_view) {
                self.storages[viewed.index()].cost += time_again(self.problem, op);
                self.storages[viewed.index()].last_access = self.clock;
                self.has_changed(viewed.0);
            }
            for tensor in &trace_op.frees {
                self.release(tensor.0);
            }
        }
        for tensor in 0..self.storages.len() as u32 {
            if self.problem.model.last_use(TensorId(tensor)).is_some() {
                continue;
            }
            if !self.storages[tensor as usize].is_there {
                let op = self.producer(tensor);
                self.materialise(op, Some(tensor), ops)?;
            }
            self.lock(tensor);
        }
        Ok(OnlineRun { time: Nanos(self.clock), peak: Bytes(self.peak), steps: self.steps })
    }

    /// What an op will make is known from when it is asked for, and counts as evicted at no cost.
    fn create_outputs(&mut self, op: usize) {
        let trace_op = &self.problem.trace.ops[op];
        let made = |t: &&TensorId| self.problem.model.producer(**t).is_some();
        let inputs: Vec<u32> = trace_op.reads.iter().filter(made).map(|t| t.0).collect();
        for output in trace_op.writes.iter().map(|t| t.0) {
            let class = self.new_class(0);
            let storage = &mut self.storages[output as usize];
            storage.class = Some(class);
            storage.cost = time_again(self.problem, op);
            storage.neighbours.extend(&inputs);
            for input in &inputs {
                self.storages[*input as usize].neighbours.push(output);
                self.has_changed(*input);
            }
        }
    }

    /// Runs an op, and before it whatever brings its inputs back; `due` is the op that the
    /// framework waits for.
    fn materialise(
        &mut self,
        op: usize,
        wanted: Option<u32>,
        due: usize,
    ) -> Result<(), Infeasible> {
        let limit = 24 * self.problem.trace.ops.len() + 1024;
        let again = wanted.is_some();
        let mut stack = vec![self.ask_for(op, again, wanted)];
        while let Some(pending) = stack.last_mut() {
            if let Some(&input) = pending.missing.get(pending.seen) {
                if self.storages[input as usize].is_there {
                    pending.seen += 1;
                    self.lock(input);
                } else {
                    let op = self.producer(input);
                    let request = self.ask_for(op, true, Some(input));
                    stack.push(request);
                }
                continue;
            }
            let pending = stack.pop().expect("it was just looked at");
            self.compute(&pending, due)?;
            if self.steps.len() > 2 * limit
                || self.clock > self.problem.slowest.0
                || self.weighed > self.problem.most_weighed
            {
                let before = OpId((due.min(self.problem.trace.ops.len() - 1)) as u32);
                return Err(Infeasible::TooManyRecomputations { before });
            }
        }
        Ok(())
    }

    /// Inputs that are there are locked at once; those that are not follow one by one.
    fn ask_for(&mut self, op: usize, again: bool, wanted: Option<u32>) -> Pending {
        let problem = self.problem;
        let mut missing = Vec::new();
        let trace_op = &problem.trace.ops[op];
        let reads = if again { trace_op.reads_again() } else { &trace_op.reads };
        for input in reads.iter().map(|t| t.0) {
            self.storages[input as usize].last_access = self.clock;
            if self.storages[input as usize].is_there {
                self.lock(input);
            } else {
                missing.push(input);
            }
        }
        Pending { op, again, wanted, missing, seen: 0 }
    }

    fn compute(&mut self, pending: &Pending, due: usize) -> Result<(), Infeasible> {
        let problem = self.problem;
        let op = &problem.trace.ops[pending.op];
        let (reads, writes) = match pending.again {
            true => (op.reads_again(), op.writes_again()),
            false => (&op.reads[..], &op.writes[..]),
        };
        let outputs: u64 = writes.iter().map(|t| self.storages[t.index()].bytes).sum();
        self.free(outputs + op.workspace.0, due)?;
        self.used += outputs;
        self.peak = self.peak.max(self.used + op.workspace.0);
        let id = OpId::from_index(pending.op);
        if pending.again {
            self.clock += time_again(problem, pending.op);
            self.steps.push(Step::Again(id));
        } else {
            self.clock += op.duration.0;
            self.steps.push(Step::Run(id));
        }
        // The tensor that was wanted becomes evictable after its siblings.
        let wanted = pending.wanted.or(writes.first().map(|t| t.0));
        let siblings = writes.iter().map(|t| t.0).filter(|t| Some(*t) != wanted);
        for output in siblings.chain(wanted) {
            let storage = &mut self.storages[output as usize];
            if storage.is_there {
                self.used -= storage.bytes;
                continue;
            }
            storage.is_there = true;
            let cost = storage.cost as i64;
            if let Some(class) = storage.class.take() {
                self.class_changes(class);
                self.classes.leave(class, cost);
            }
            if self.storages[output as usize].evictable {
                self.becomes_evictable(output);
            }
        }
        reads.iter().for_each(|t| self.unlock(t.0));
        Ok(())
    }

    fn free(&mut self, bytes: u64, due: usize) -> Result<(), Infeasible> {
        while self.used + bytes > self.budget {
            let Some(victim) = self.cheapest() else {
                let last = self.problem.trace.ops.len() - 1;
                return Err(Infeasible::Memory {
                    needed: Bytes(self.used + bytes),
                    op: OpId(due.min(last) as u32),
                });
            };
            self.evict(victim);
        }
        Ok(())
    }

    /// The tensor with the smallest heuristic.
    fn cheapest(&mut self) -> Option<u32> {
        while let Some(tensor) = self.unweighed.pop() {
            if self.pool.has(tensor) {
                let weighed = self.weigh(tensor);
                self.pool.weigh(tensor, weighed, self.clock);
            }
        }
        self.pool.cheapest(self.clock)
    }

    fn weigh(&mut self, tensor: u32) -> Weighed {
        let mark = &mut self.marks[tensor as usize];
        *mark += 1;
        let mark = (tensor, *mark);
        let storage = &self.storages[tensor as usize];
        self.weighed += 1 + storage.neighbours.len() as u64;
        let mut cost = storage.cost as i64;
        for neighbour in &storage.neighbours {
            let Some(class) = self.storages[*neighbour as usize].class else { continue };
            let root = self.classes.root(class);
            let weighed_with = &mut self.weighed_with[root as usize];
            // Nobody else is weighed meanwhile: once counted, it is the last.
            if weighed_with.last() != Some(&mark) {
                weighed_with.push(mark);
                cost += self.classes.cost(root);
            }
        }
        Weighed { cost, bytes: storage.bytes, last_access: storage.last_access }
    }

    /// What a tensor weighs has changed.
    fn has_changed(&mut self, tensor: u32) {
        if self.pool.has(tensor) {
            self.marks[tensor as usize] += 1;
            self.unweighed.push(tensor);
        }
    }

    fn new_class(&mut self, cost: i64) -> Node {
        self.weighed_with.push(Vec::new());
        self.classes.alone(cost)
    }

    /// The cost of a node's class is about to change.
    fn class_changes(&mut self, node: Node) {
        let root = self.classes.root(node);
        for (tensor, mark) in std::mem::take(&mut self.weighed_with[root as usize]) {
            if self.marks[tensor as usize] == mark {
                self.has_changed(tensor);
            }
        }
    }

    fn evict(&mut self, tensor: u32) {
        self.pool.remove(tensor, self.clock);
        let storage = &mut self.storages[tensor as usize];
        storage.is_there = false;
        self.used -= storage.bytes;
        let cost = storage.cost as i64;
        let class = self.new_class(cost);
        self.storages[tensor as usize].class = Some(class);
        let neighbours = std::mem::take(&mut self.storages[tensor as usize].neighbours);
        for neighbour in &neighbours {
            if let Some(other) = self.storages[*neighbour as usize].class {
                self.class_changes(other);
                self.class_changes(class);
                self.classes.merge(other, class);
            }
            self.has_changed(*neighbour);
        }
        self.storages[tensor as usize].neighbours = neighbours;
        self.steps.push(Step::Drop(TensorId(tensor)));
    }

    /// The framework lets a tensor go: it is evicted at once.
    fn release(&mut self, tensor: u32) {
        let constant = self.problem.model.producer(TensorId(tensor)).is_none();
        if !constant && self.storages[tensor as usize].is_there {
            self.evict(tensor);
        }
    }

    fn lock(&mut self, tensor: u32) {
        let storage = &mut self.storages[tensor as usize];
        storage.locks += 1;
        if storage.locks == 1 && storage.evictable {
            self.pool.remove(tensor, self.clock);
        }
    }

    fn unlock(&mut self, tensor: u32) {
        let storage = &mut self.storages[tensor as usize];
        storage.locks -= 1;
        if storage.locks == 0 && storage.evictable {
            self.becomes_evictable(tensor);
        }
    }

    fn becomes_evictable(&mut self, tensor: u32) {
        self.pool.push(tensor);
        self.has_changed(tensor);
    }

    fn producer(&self, tensor: u32) -> usize {
        let op = self.problem.model.producer(TensorId(tensor));
        op.expect("what no op makes is always there").index()
    }
}

fn time_again(problem: &Problem, op: usize) -> u64 {
    let op = &problem.trace.ops[op];
    op.recompute.unwrap_or(op.duration).0
}
