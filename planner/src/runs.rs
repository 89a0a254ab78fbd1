//! Schedules of recomputation as sequences of runs.
//!
//! A schedule is the trace's ops in their order, with reruns put in anywhere after an op's first
//! run. What is on the device when is no decision: what a run makes stays until the last op that
//! reads it before the next run of the same op, or goes at once if there is none. For a given
//! sequence nothing takes less memory, so that every set of reruns is a schedule, only its peak may
//! be too high, and all there is to search for is which reruns to put in and where. Tensors that
//! are held beyond their last use because a rerun reads them, tensors that are dropped twice, and
//! reruns that serve several later ops are all in this language; one treatment per gap between two
//! uses has none of them.

mod load;
mod repair;
mod search;
mod steps;

use schema::OpId;

use crate::Problem;
use load::Load;

pub(crate) use search::{Found, search};
pub(crate) use steps::{Reruns, reruns_of, steps_of};

/// When a run takes place: the op before which it does in the upper bits, and below a label that
/// orders the reruns before that op. An op's own first run has the last label.
pub(crate) type Key = u64;

/// Bits of a label.
const LABEL_BITS: u32 = 40;

/// The label of an op's first run.
const FIRST_RUN: u64 = (1 << LABEL_BITS) - 1;

/// How far labels are apart, if there is room.
const SPACING: u64 = 1 << 24;

/// The key of an op's first run.
pub(crate) fn first_run(op: usize) -> Key {
    (op as u64) << LABEL_BITS | FIRST_RUN
}

/// The op before which a run takes place, which for its first run is itself.
pub(crate) fn stage(key: Key) -> usize {
    (key >> LABEL_BITS) as usize
}

/// A rerun: when, and of which op.
pub(crate) type Rerun = (Key, u32);

/// What a sequence of runs is made of, the same for all sequences of a problem.
pub(crate) struct Parts {
    /// By op: the tensors that it reads and some op makes.
    reads: Vec<Vec<u32>>,
    writes: Vec<Vec<u32>>,
    /// By op: pairs of input and output that may share memory.
    in_place: Vec<Vec<(u32, u32)>>,
    workspace: Vec<i64>,
    /// By op: time of a rerun.
    time: Vec<u64>,
    /// By op: the last stage in which it may run again.
    until: Vec<usize>,
    /// By tensor.
    bytes: Vec<i64>,
    /// By tensor: the op that makes it; none for those that are there all the time.
    maker: Vec<Option<u32>>,
    /// Bytes of these.
    constant: i64,
    /// Tensors that have a size and a maker, and may leave.
    leaving: Vec<u32>,
}

impl Parts {
    pub fn new(problem: &Problem) -> Self {
        let (trace, model) = (problem.trace, &problem.model);
        let tensors = trace.tensors.len();
        let maker: Vec<Option<u32>> = (0..tensors)
            .map(|t| model.producer(schema::TensorId::from_index(t)).map(|op| op.0))
            .collect();
        let bytes: Vec<i64> = trace.tensors.iter().map(|t| t.bytes.0 as i64).collect();
        let is_made = |t: &u32| maker[*t as usize].is_some();
        let ops = trace.ops.len();
        let mut reads: Vec<Vec<u32>> = Vec::with_capacity(ops + 1);
        for op in 0..ops {
            let mut tensors: Vec<u32> =
                model.reads(OpId::from_index(op)).map(|t| t.0).filter(is_made).collect();
            tensors.sort_unstable();
            tensors.dedup();
            reads.push(tensors);
        }
        // The end of the iteration counts as an op that reads what outlives it.
        let outlives = |t: &u32| model.last_use(schema::TensorId(*t)).is_none();
        reads.push((0..tensors as u32).filter(|t| is_made(t) && outlives(t)).collect());
        let may_leave = |t: &u32| {
            maker[*t as usize].is_some_and(|op| model.rerunnable_until(OpId(op)) > 0)
                && bytes[*t as usize] > 0
        };
        Self {
            reads,
            writes: trace.ops.iter().map(|op| op.writes.iter().map(|t| t.0).collect()).collect(),
            in_place: (trace.ops.iter())
                .map(|op| op.in_place.iter().map(|p| (p.input.0, p.output.0)).collect())
                .collect(),
            workspace: trace.ops.iter().map(|op| op.workspace.0 as i64).collect(),
            time: trace.ops.iter().map(|op| op.recompute.unwrap_or(op.duration).0).collect(),
            until: (0..ops).map(|op| model.rerunnable_until(OpId::from_index(op))).collect(),
            constant: (0..tensors).filter(|t| maker[*t].is_none()).map(|t| bytes[t]).sum(),
            leaving: (0..tensors as u32).filter(may_leave).collect(),
            bytes,
            maker,
        }
    }

    fn ops(&self) -> usize {
        self.writes.len()
    }
}

/// One sequence of runs, with the memory that each takes.
pub(crate) struct Runs<'a> {
    parts: &'a Parts,
    /// By op: when it runs.
    runs: Vec<Vec<Key>>,
    /// By tensor: when it is read.
    readers: Vec<Vec<Key>>,
    load: Load,
    /// In their order.
    reruns: Vec<Rerun>,
    /// Time of all reruns.
    cost: u64,
    /// What was put in (true) or taken out since the journal was begun.
    journal: Vec<(bool, Rerun)>,
}

/// How long a tensor that a run has made stays.
#[derive(Clone, Copy)]
struct Stay {
    /// The run that makes it.
    from: Key,
    /// The last run that reads it, or the run that makes it.
    to: Key,
    /// The next run that makes it; the end of time if there is none.
    next: Key,
}

impl<'a> Runs<'a> {
    /// The sequence without reruns.
    pub fn new(parts: &'a Parts) -> Self {
        let ops = parts.ops();
        let mut readers: Vec<Vec<Key>> = vec![Vec::new(); parts.bytes.len()];
        for (op, reads) in parts.reads.iter().enumerate() {
            reads.iter().for_each(|t| readers[*t as usize].push(first_run(op)));
        }
        let mut runs = Self {
            parts,
            runs: (0..ops).map(|op| vec![first_run(op)]).collect(),
            readers,
            load: Load::new(ops + 1, parts.constant),
            reruns: Vec::new(),
            cost: 0,
            journal: Vec::new(),
        };
        for op in 0..ops {
            runs.load.change(first_run(op), first_run(op), parts.workspace[op]);
            for t in &parts.writes[op] {
                let stay = runs.stay(*t, first_run(op));
                runs.load.change(stay.from, stay.to, parts.bytes[*t as usize]);
                runs.hand_on(*t, stay, 1);
            }
        }
        runs
    }

    /// The sequence with these reruns, as far as they are possible.
    pub fn with(parts: &'a Parts, reruns: &[Rerun]) -> Self {
        let mut runs = Self::new(parts);
        for (key, op) in reruns {
            runs.insert((*key, *op));
        }
        runs.journal.clear();
        runs
    }

    pub fn cost(&self) -> u64 {
        self.cost
    }

    pub fn peak(&self) -> i64 {
        self.load.peak()
    }

    pub fn reruns(&self) -> &[Rerun] {
        &self.reruns
    }

    /// The stay of a tensor that contains a moment, or ends before it: that of the last run of its
    /// op up to then.
    fn stay(&self, tensor: u32, at: Key) -> Stay {
        let op = self.parts.maker[tensor as usize].expect("only what is made comes and goes");
        let runs = &self.runs[op as usize];
        let index = runs.partition_point(|run| *run <= at) - 1;
        let next = runs.get(index + 1).copied().unwrap_or(Key::MAX);
        let from = runs[index];
        Stay { from, to: self.last_reader(tensor, from, next), next }
    }

    /// The last reader between two runs of a tensor's op, or the former run.
    fn last_reader(&self, tensor: u32, from: Key, next: Key) -> Key {
        let readers = &self.readers[tensor as usize];
        let end = readers.partition_point(|reader| *reader < next);
        readers[..end].last().map_or(from, |reader| (*reader).max(from))
    }

    /// The op that runs at a key; none at the end of the iteration.
    fn op_at(&self, key: Key) -> Option<u32> {
        let stage = stage(key);
        if key != first_run(stage) {
            return self
                .reruns
                .binary_search_by_key(&key, |(key, _)| *key)
                .ok()
                .map(|at| self.reruns[at].1);
        }
        (stage < self.parts.ops()).then_some(stage as u32)
    }

    /// Where a stay ends with an op that may lay an output over the tensor, the two share memory
    /// there: `sign` is 1 where the stay comes to be so, and -1 where it ceases to.
    fn hand_on(&mut self, tensor: u32, stay: Stay, sign: i64) {
        if stay.to == stay.from {
            return;
        }
        let Some(op) = self.op_at(stay.to) else { return };
        let shared = self.shared(op, tensor);
        if shared > 0 {
            self.load.change(stay.to, stay.to, -sign * shared);
        }
    }

    /// What an op's outputs share with an input that the op uses last.
    fn shared(&self, op: u32, tensor: u32) -> i64 {
        let bytes = &self.parts.bytes;
        let pairs = self.parts.in_place[op as usize].iter().filter(|(input, _)| *input == tensor);
        let all: i64 = pairs.map(|(_, output)| bytes[*output as usize]).sum();
        all.min(bytes[tensor as usize])
    }

    /// What is on the device from just before a run until it has ended, all that the run itself
    /// makes left aside.
    fn across(&self, key: Key) -> i64 {
        let load = self.load.at(key);
        let Some(op) = self.op_at(key) else { return load };
        let (parts, index) = (self.parts, op as usize);
        let made: i64 = parts.writes[index].iter().map(|t| parts.bytes[*t as usize]).sum();
        let inputs = parts.in_place[index].iter().enumerate().filter(|(at, (input, _))| {
            !parts.in_place[index][..*at].iter().any(|(earlier, _)| earlier == input)
        });
        let shared: i64 = inputs
            .filter(|(_, (input, _))| parts.maker[*input as usize].is_some())
            .filter(|(_, (input, _))| self.stay(*input, key).to == key)
            .map(|(_, (input, _))| self.shared(op, *input))
            .sum();
        load - made - parts.workspace[index] + shared
    }

    /// A key for one more rerun just before a run; none where labels are used up.
    fn key_before(&self, next: Key) -> Option<Key> {
        let begin = (stage(next) as u64) << LABEL_BITS;
        let at = self.reruns.partition_point(|(key, _)| *key < next);
        let previous = match at.checked_sub(1).map(|at| self.reruns[at].0) {
            Some(key) if key >= begin => key,
            _ => begin,
        };
        let step = SPACING.min((next - previous) / 2);
        (step > 0).then_some(previous + step)
    }

    /// Whether an op may run again in a stage.
    fn may_rerun(&self, op: u32, stage: usize) -> bool {
        (op as usize) < stage && stage <= self.parts.until[op as usize]
    }

    /// Puts a rerun in. Does nothing where the op cannot run again there or something else runs
    /// then.
    pub fn insert(&mut self, (key, op): Rerun) -> bool {
        let index = op as usize;
        if !self.may_rerun(op, stage(key)) {
            return false;
        }
        let Err(at) = self.reruns.binary_search_by_key(&key, |(key, _)| *key) else { return false };
        let following = match self.reruns.get(at) {
            Some((next, _)) if stage(*next) == stage(key) => *next,
            _ => first_run(stage(key)),
        };
        let parts = self.parts;
        self.load.insert(key, self.across(following) + parts.workspace[index]);
        self.reruns.insert(at, (key, op));
        for t in &parts.writes[index] {
            let bytes = parts.bytes[*t as usize];
            let old = self.stay(*t, key);
            if old.to < key {
                self.load.change(key, key, bytes);
                continue;
            }
            let new = Stay { to: self.last_reader(*t, old.from, key), ..old };
            self.load.change(new.to + 1, key - 1, -bytes);
            self.hand_on(*t, new, 1);
        }
        let runs = &mut self.runs[index];
        runs.insert(runs.partition_point(|run| *run < key), key);
        for t in &parts.reads[index] {
            let old = self.stay(*t, key);
            let readers = &mut self.readers[*t as usize];
            readers.insert(readers.partition_point(|reader| *reader < key), key);
            if old.to < key {
                self.hand_on(*t, old, -1);
                self.load.change(old.to + 1, key, parts.bytes[*t as usize]);
                self.hand_on(*t, Stay { to: key, ..old }, 1);
            }
        }
        self.cost += parts.time[index];
        self.journal.push((true, (key, op)));
        true
    }

    /// Takes a rerun out.
    pub fn erase(&mut self, (key, op): Rerun) {
        let (index, parts) = (op as usize, self.parts);
        for t in &parts.reads[index] {
            let old = self.stay(*t, key);
            let readers = &mut self.readers[*t as usize];
            readers.remove(readers.partition_point(|reader| *reader < key));
            if old.to == key {
                let new = Stay { to: self.last_reader(*t, old.from, old.next), ..old };
                self.hand_on(*t, old, -1);
                self.load.change(new.to + 1, key, -parts.bytes[*t as usize]);
                self.hand_on(*t, new, 1);
            }
        }
        for t in &parts.writes[index] {
            let gone = self.stay(*t, key);
            if gone.to > key {
                let before = self.stay(*t, key - 1);
                self.hand_on(*t, before, -1);
                self.load.change(before.to + 1, key - 1, parts.bytes[*t as usize]);
            }
        }
        let runs = &mut self.runs[index];
        runs.remove(runs.partition_point(|run| *run < key));
        let at =
            self.reruns.binary_search_by_key(&key, |(key, _)| *key).expect("a rerun that is there");
        self.reruns.remove(at);
        self.load.remove(key);
        self.cost -= parts.time[index];
        self.journal.push((false, (key, op)));
    }

    /// Takes a rerun out, and those that then make nothing that is read.
    pub fn erase_with_needless(&mut self, rerun: Rerun) {
        let mut stack = vec![rerun];
        while let Some((key, op)) = stack.pop() {
            if self.reruns.binary_search_by_key(&key, |(key, _)| *key).is_err() {
                continue;
            }
            let inputs = self.parts.reads[op as usize].iter();
            let made_by: Vec<Rerun> = inputs
                .filter_map(|t| {
                    let maker = self.parts.maker[*t as usize]?;
                    let from = self.stay(*t, key).from;
                    (from != first_run(maker as usize)).then_some((from, maker))
                })
                .collect();
            self.erase((key, op));
            for (from, maker) in made_by {
                let mut writes = self.parts.writes[maker as usize].iter();
                if writes.all(|t| self.stay(*t, from).to == from) {
                    stack.push((from, maker));
                }
            }
        }
    }

    /// How long the journal is, to go back to.
    pub fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Takes back what happened since.
    pub fn back_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            let (inserted, rerun) = self.journal.pop().expect("longer than the mark");
            match inserted {
                true => self.erase(rerun),
                false => _ = self.insert(rerun),
            }
            self.journal.pop();
        }
    }

    /// Forgets how it came here.
    pub fn settle(&mut self) {
        self.journal.clear();
    }
}
