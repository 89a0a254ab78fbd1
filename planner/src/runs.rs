//! Schedules as sequences of runs.
//!
//! A schedule is the trace's ops in their order, with reruns put in anywhere after an op's first
//! run. What is on the device when is no decision: what a run makes stays until the last op that
//! reads it before the next run of the same op, or goes at once if there is none. For a given
//! sequence nothing takes less memory, so that every set of reruns is a schedule, only its peak may
//! be too high, and all there is to search for is which reruns to put in and where. Tensors that
//! are held beyond their last use because a rerun reads them, tensors that are dropped twice, and
//! reruns that serve several later ops are all in this language; one treatment per gap between two
//! uses has none of them.
//!
//! A tensor comes back by a copy or a codec in the same way: an *item* stands in the sequence like a
//! rerun that reads nothing and makes the tensor. It says how the tensor left after its last reader
//! before. A copy in stands where it starts, if there is time for it on its lane before its tensor
//! is read (`lanes.rs`), and another item holds the tensor until it has been copied out, so that a
//! sequence has room for its copies; so it is with codecs on a lane of their own. When they really
//! happen is the evaluator's to find.

mod descend;
mod lanes;
mod load;
mod parts;
mod repair;
mod search;
mod steps;

use std::collections::HashMap;

use lanes::Lanes;
use load::Load;

pub(crate) use parts::{Item, Parts, Way, whole};
pub(crate) use repair::Prices;
pub(crate) use search::{Found, Judge, Search, search};
pub(crate) use steps::{Reruns, reruns_of, reruns_under, steps_of};

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

/// In place of an op: what is there at the start was made by none.
const NOTHING: u32 = u32::MAX;

/// One sequence of runs, with the memory that each takes.
pub(crate) struct Runs<'a> {
    parts: &'a Parts,
    /// By tensor: when it comes to be, and by which op or item.
    made: Vec<Vec<Rerun>>,
    /// By tensor: when it is read.
    readers: Vec<Vec<Key>>,
    /// By tensor: the first of the former and the last of the latter, beside each other as all are looked
    /// at again and again.
    lives: Vec<(Key, Key)>,
    load: Load,
    /// In their order, items among them.
    reruns: Vec<Rerun>,
    /// What reruns and items take of compute.
    cost: u64,
    lanes: Lanes,
    /// What of the lanes' time was not in time when an item was put in, and the sum of those that are
    /// there.
    late: HashMap<Rerun, u64>,
    stalls: u64,
    /// What was put in (true) or taken out since the journal was begun.
    journal: Vec<(bool, Rerun)>,
}

/// How long a tensor that has been made or brought back stays.
#[derive(Clone, Copy)]
struct Stay {
    /// The run that makes it.
    from: Key,
    /// The last run that reads it, or the run that makes it.
    to: Key,
    /// The next run that makes it or brings it back; the end of time if there is none.
    next: Key,
    /// What it is that does so.
    back_by: u32,
}

impl<'a> Runs<'a> {
    /// The sequence without reruns.
    pub fn new(parts: &'a Parts) -> Self {
        let ops = parts.ops();
        let mut readers: Vec<Vec<Key>> = vec![Vec::new(); parts.bytes.len()];
        for (op, operands) in parts.first.iter().enumerate() {
            operands.reads.iter().for_each(|t| readers[*t as usize].push(first_run(op)));
        }
        let first = |t: usize| match parts.maker[t] {
            Some(op) => vec![(first_run(op as usize), op)],
            None if parts.comes_and_goes(t as u32) => vec![(0, NOTHING)],
            None => Vec::new(),
        };
        let made: Vec<Vec<Rerun>> = (0..parts.bytes.len()).map(first).collect();
        let last = |readers: &Vec<Key>| readers.last().copied().unwrap_or(0);
        let begin = |made: &Vec<Rerun>| made.first().map_or(Key::MAX, |(key, _)| *key);
        let mut runs = Self {
            parts,
            lives: made.iter().zip(&readers).map(|(m, r)| (begin(m), last(r))).collect(),
            made,
            readers,
            load: Load::new(ops + 1, parts.constant),
            reruns: Vec::new(),
            cost: 0,
            lanes: Lanes::default(),
            late: HashMap::new(),
            stalls: 0,
            journal: Vec::new(),
        };
        for op in 0..ops {
            runs.load.change(first_run(op), first_run(op), parts.first[op].workspace);
        }
        for (stage, bytes) in parts.reserved.iter().enumerate() {
            runs.load.change(first_run(stage), first_run(stage), *bytes);
        }
        for (maker, last, bytes) in &parts.held {
            runs.load.change(first_run(*maker) + 1, first_run(*last), *bytes);
        }
        for t in (0..parts.bytes.len() as u32).filter(|t| parts.comes_and_goes(*t)) {
            let stay = runs.stay(t, runs.made[t as usize][0].0);
            runs.load.change(stay.from, stay.to, parts.bytes[t as usize]);
            runs.hand_on(t, stay, 1);
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

    /// What reruns and items are likely to take, with what compute waits for.
    pub fn guess(&self) -> f64 {
        (self.cost + self.stalls) as f64
    }

    pub fn peak(&self) -> i64 {
        self.load.peak()
    }

    pub fn reruns(&self) -> &[Rerun] {
        &self.reruns
    }

    /// The stay of a tensor that contains a moment, or ends before it: that of the last run up to
    /// then that makes it or brings it back.
    fn stay(&self, tensor: u32, at: Key) -> Stay {
        let made = &self.made[tensor as usize];
        let index = made.partition_point(|(run, _)| *run <= at) - 1;
        let (next, back_by) = made.get(index + 1).copied().unwrap_or((Key::MAX, NOTHING));
        let (from, _) = made[index];
        Stay { from, to: self.last_reader(tensor, from, next), next, back_by }
    }

    /// The last reader between two runs that make a tensor, or the former run.
    fn last_reader(&self, tensor: u32, from: Key, next: Key) -> Key {
        let readers = &self.readers[tensor as usize];
        let end = readers.partition_point(|reader| *reader < next);
        readers[..end].last().map_or(from, |reader| (*reader).max(from))
    }

    /// What is on the device of a tensor after a stay, until it is brought back.
    fn small(&self, stay: Stay) -> i64 {
        self.parts.item(stay.back_by).map_or(0, |item| item.small)
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
        let shared = self.handed_on(tensor, stay);
        if shared > 0 {
            self.load.change(stay.to, stay.to, -sign * shared);
        }
    }

    /// What the op with which a stay ends lays over the tensor. What is copied or compressed then
    /// is still there when the op has ended.
    fn handed_on(&self, tensor: u32, stay: Stay) -> i64 {
        if stay.to == stay.from || self.parts.item(stay.back_by).is_some() {
            return 0;
        }
        let Some(op) = self.op_at(stay.to) else { return 0 };
        let bytes = &self.parts.bytes;
        let operands = self.parts.at(stay.to, op);
        let pairs = operands.in_place.iter().filter(|(input, _)| *input == tensor);
        let all: i64 = pairs.map(|(_, output)| bytes[*output as usize]).sum();
        all.min(bytes[tensor as usize])
    }

    /// What is on the device from just before a run until it has ended, all that the run itself
    /// makes left aside.
    fn across(&self, key: Key) -> i64 {
        let load = self.load.at(key);
        let Some(op) = self.op_at(key) else { return load };
        let (parts, operands) = (self.parts, self.parts.at(key, op));
        let made: i64 = operands.writes.iter().map(|t| parts.bytes[*t as usize]).sum();
        let inputs = operands.in_place.iter().enumerate().filter(|(at, (input, _))| {
            !operands.in_place[..*at].iter().any(|(earlier, _)| earlier == input)
        });
        let shared: i64 = inputs
            .filter(|(_, (input, _))| parts.comes_and_goes(*input))
            .map(|(_, (input, _))| (*input, self.stay(*input, key)))
            .filter(|(_, stay)| stay.to == key)
            .map(|(input, stay)| self.handed_on(input, stay))
            .sum();
        load - made - operands.workspace + shared
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

    /// Whether an op may run again, or an item stand, in a stage.
    fn may_rerun(&self, op: u32, stage: usize) -> bool {
        (self.parts.near[op as usize] as usize) < stage && stage <= self.parts.until[op as usize]
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
        self.load.insert(key, self.across(following) + parts.again[index].workspace);
        self.reruns.insert(at, (key, op));
        for t in &parts.again[index].writes {
            let old = self.stay(*t, key);
            self.hand_on(*t, old, -1);
            let made = &mut self.made[*t as usize];
            made.insert(made.partition_point(|(run, _)| *run < key), (key, op));
            let [before, after] = [key - 1, key].map(|at| self.stay(*t, at));
            self.split(*t, old, before, key, 1);
            self.hand_on(*t, before, 1);
            self.hand_on(*t, after, 1);
        }
        for t in &parts.again[index].reads {
            let old = self.stay(*t, key);
            let readers = &mut self.readers[*t as usize];
            readers.insert(readers.partition_point(|reader| *reader < key), key);
            self.lives[*t as usize].1 = self.lives[*t as usize].1.max(key);
            if old.to < key {
                self.hand_on(*t, old, -1);
                let bytes = parts.bytes[*t as usize] - self.small(old);
                self.load.change(old.to + 1, key, bytes);
                self.hand_on(*t, Stay { to: key, ..old }, 1);
            }
        }
        self.count((key, op), true);
        self.journal.push((true, (key, op)));
        true
    }

    /// Counts what a rerun or an item takes, or no longer does.
    fn count(&mut self, (key, op): Rerun, is_there: bool) {
        let change = |sum: &mut u64, by: u64| *sum = if is_there { *sum + by } else { *sum - by };
        change(&mut self.cost, self.parts.time[op as usize]);
        let Some(item) = self.parts.item(op) else { return };
        if let Some(late) = self.late.get(&(key, op)) {
            change(&mut self.stalls, *late);
        }
        let at = self.parts.clock[stage(key)];
        let ([out, back], [code, decode], lanes) = (item.copies, item.codec, &mut self.lanes);
        let is_copied = !matches!(item.way, Way::Codec(_));
        let is_coded = code > 0 || decode > 0;
        if item.holds {
            // What is compressed leaves for the host from then on.
            let first = if item.way == Way::Copy { at.saturating_sub(out) } else { at };
            is_copied.then(|| lanes.out.change(first, first + out, is_there));
            is_coded.then(|| lanes.codec.change(at.saturating_sub(code), at, is_there));
        } else {
            let first = if item.way == Way::Copy { at } else { at.saturating_sub(back) };
            is_copied.then(|| lanes.back.change(first, first + back, is_there));
            is_coded.then(|| lanes.codec.change(at, at + decode, is_there));
        }
    }

    /// One stay becomes two (`sign` is 1) or two become one: the part `before` a key at which the
    /// tensor is made or brought back, and that from then on.
    fn split(&mut self, tensor: u32, whole: Stay, before: Stay, key: Key, sign: i64) {
        let bytes = sign * self.parts.bytes[tensor as usize];
        if whole.to >= key {
            self.load.change(before.to + 1, key - 1, -bytes);
        } else {
            self.load.change(key, key, bytes);
            self.load.change(whole.to + 1, key, -sign * self.small(whole));
        }
        self.load.change(before.to + 1, key, sign * self.small(before));
    }

    /// Takes a rerun out.
    pub fn erase(&mut self, (key, op): Rerun) {
        let (index, parts) = (op as usize, self.parts);
        for t in &parts.again[index].reads {
            let old = self.stay(*t, key);
            let readers = &mut self.readers[*t as usize];
            readers.remove(readers.partition_point(|reader| *reader < key));
            self.lives[*t as usize].1 = readers.last().copied().unwrap_or(0);
            if old.to == key {
                let new = Stay { to: self.last_reader(*t, old.from, old.next), ..old };
                self.hand_on(*t, old, -1);
                let bytes = parts.bytes[*t as usize] - self.small(old);
                self.load.change(new.to + 1, key, -bytes);
                self.hand_on(*t, new, 1);
            }
        }
        for t in &parts.again[index].writes {
            let [before, after] = [key - 1, key].map(|at| self.stay(*t, at));
            self.hand_on(*t, before, -1);
            self.hand_on(*t, after, -1);
            let made = &mut self.made[*t as usize];
            made.remove(made.partition_point(|(run, _)| *run < key));
            let whole = self.stay(*t, key);
            self.split(*t, whole, before, key, -1);
            self.hand_on(*t, whole, 1);
        }
        let at =
            self.reruns.binary_search_by_key(&key, |(key, _)| *key).expect("a rerun that is there");
        self.reruns.remove(at);
        self.load.remove(key);
        self.count((key, op), false);
        self.journal.push((false, (key, op)));
    }

    /// Takes a rerun out, and those that then make nothing that is read.
    pub fn erase_with_needless(&mut self, rerun: Rerun) {
        let mut stack = vec![rerun];
        while let Some((key, op)) = stack.pop() {
            if self.reruns.binary_search_by_key(&key, |(key, _)| *key).is_err() {
                continue;
            }
            let inputs = self.parts.again[op as usize].reads.iter();
            let made_by: Vec<Rerun> = inputs
                .filter_map(|t| {
                    let made = &self.made[*t as usize];
                    let index = made.partition_point(|(run, _)| *run < key) - 1;
                    (index > 0).then_some(made[index])
                })
                .collect();
            // What does not come back need not leave.
            let held = self.parts.item(op).filter(|item| !item.holds).and_then(|item| {
                let last = self.stay(item.tensor, key - 1).to;
                self.op_at(last).filter(|op| self.parts.is_hold(*op)).map(|op| (last, op))
            });
            stack.extend(held);
            self.erase((key, op));
            for (from, maker) in made_by {
                let mut writes = self.parts.again[maker as usize].writes.iter();
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
        if self.late.len() > 4 * self.reruns.len() {
            let reruns = &self.reruns;
            self.late.retain(|rerun, _| reruns.binary_search(rerun).is_ok());
        }
    }
}
