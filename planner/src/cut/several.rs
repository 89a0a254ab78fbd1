//! Several places of one iteration, where nothing is copied or compressed.
//!
//! One place charges each op that is run again once. What cannot be held until then at a second
//! place is made twice, and what is made again between two places needs what it is made from. The
//! places are ops `q_0 < q_1 < ...`, and the end of the iteration comes after them. Every plan
//! decides, 0/1:
//!
//! - *held*: `S(k, t)`, a buffer of tensor `t`, made before `q_k`, is on the device when `q_k`
//!   starts;
//! - *again*: `W(k, l, i)`, op `i`, which comes before `q_k`, is run again at least once after `q_k`
//!   has started and ends before `q_l` starts.
//!
//! What `q_k` reads, what has no size, what no op makes and what the caller holds counts as held. With `p` the op that makes
//! `t`, every plan keeps:
//!
//! 1. the bytes of all held at `q_k` fit, beside what `q_k` uses;
//! 2. `t` is read by an op after `q_k` and up to `q_l` (or there at the end):
//!    `1 <= S(k, t) + W(k, l, p)`;
//! 3. `S(l, t) <= S(k, t) + W(k, l, p)`;
//! 4. `i` reads `t`: `W(k, l, i) <= S(k, t) + W(k, l, p)`;
//! 5. `W(k, l, i) <= W(k, m, i) + W(m, l, i)`, for `m` between `k` and `l`;
//!
//! and takes at least the time of each `W(k, k + 1, i)` beyond that of its ops.
//!
//! *Why.* A buffer that is there at a moment after `q_k` has started was there then, or a run has
//! written it since: not the first run of its op, which was before, so it was run again. If that
//! moment is before `q_l` ends, that run had ended before `q_l` started, as compute runs one op
//! after the other; this is 2, 3 and, as a rerun reads buffers, 4. One of two stretches of time
//! holds what both together hold, which is 5. Two reruns of an op in different stretches are two.
//! No place has to be there: any choice of them gives a bound, and so does leaving rows out.
//!
//! All rows but the first have one form: what is wanted is at most the sum of two that give it.
//! Shares of all these are a linear programme, whose rows have prices that are not negative; at
//! *any* such prices, what each share costs at its best between 0 and 1 is a bound, which is
//! summed up in whole numbers. Good prices are found by a first-order method (`climb.rs`), so that
//! ending early costs tightness alone. They carry over to one more place, and with them most of the
//! bound. It is put where a plan that takes these decisions and does all else as late as can be has
//! most on the device.

use std::collections::HashMap;

use schema::{OpId, TensorId};

use super::Several;
use super::climb::{Climb, climb};
use super::lazy::{loads, reruns};
use crate::Problem;
use crate::kept_load::{certain_load, used_bytes};
use crate::runs::Rerun;

/// For how long prices need not get better at a place that is tried: the first time, and once more.
const PATIENCE: [usize; 2] = [6, 25];

/// How many rows and shares all iterations may look at, per evaluation that the limits allow.
const WORK: u64 = 1000;

const MOST_PLACES: usize = 16;

/// A place that raises the bound by less than this part of it, in millionths, is given up, and so
/// are the ops around it: this part of all, in each direction.
const WORTH: f64 = 200.0;
const AROUND: usize = 128;

/// What is held in the schedules that are made of shares: what has more than this.
const HELD_FROM: [f64; 3] = [0.5, 0.2, 0.8];

/// A share that the programme decides about. Places are named by their ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// Always one, and always zero.
    Fixed,
    Held {
        place: usize,
        tensor: usize,
    },
    Again {
        from: usize,
        to: usize,
        op: usize,
    },
}

const ONE: u32 = 0;
const ZERO: u32 = 1;
const NONE: u32 = u32::MAX;

/// The rows of 1 for one place.
pub(super) struct Memory {
    pub room: i128,
    /// Shares, and the bytes of each.
    pub held: Vec<(u32, u64)>,
}

/// The programme for some places.
pub(super) struct Programme<'a> {
    facts: &'a Facts<'a>,
    places: Vec<usize>,
    shares: Vec<Share>,
    /// By share: what all of it costs, and how much there must and may be of it.
    pub cost: Vec<u64>,
    pub limits: Vec<[f64; 2]>,
    /// What is wanted, and the two that give it.
    pub rows: Vec<[u32; 3]>,
    /// By row: of which size its price is.
    pub weights: Vec<f64>,
    pub memory: Vec<Memory>,
    /// By place and tensor, and by two places and op, the share.
    held: Vec<u32>,
    again: Vec<u32>,
    todo: Vec<u32>,
}

/// What programmes of one problem have in common.
struct Facts<'a> {
    problem: &'a Problem<'a>,
    /// By tensor: the op that makes it, if that counts.
    maker: Vec<Option<usize>>,
    /// By tensor: the ops that read it, in order; the number of ops where it outlives the iteration.
    uses: Vec<Vec<usize>>,
    /// What a byte costs, about.
    price: f64,
}

impl<'a> Facts<'a> {
    fn new(problem: &'a Problem<'a>, price: f64) -> Self {
        let (trace, model) = (problem.trace, &problem.model);
        let tensors = || (0..model.tensors()).map(TensorId::from_index);
        let has_size = |t: &TensorId| trace.tensors[t.index()].bytes.0 > 0;
        let maker = |t: TensorId| model.producer(t).filter(|_| has_size(&t)).map(OpId::index);
        let mut uses = vec![Vec::new(); model.tensors()];
        for (index, op) in trace.ops.iter().enumerate() {
            op.reads.iter().for_each(|t| uses[t.index()].push(index));
        }
        for tensor in tensors().filter(|t| model.last_use(*t).is_none()) {
            uses[tensor.index()].push(trace.ops.len());
        }
        Self { problem, maker: tensors().map(maker).collect(), uses, price }
    }

    /// The first use of a tensor after an op.
    fn next_use(&self, tensor: usize, op: usize) -> Option<usize> {
        let uses = &self.uses[tensor];
        uses.get(uses.partition_point(|user| *user <= op)).copied()
    }

    /// Whether an op may be run again after another has started.
    fn may_run_after(&self, op: usize, place: usize) -> bool {
        let op = OpId::from_index(op);
        self.problem.may_run_again(op) && self.problem.model.rerunnable_until(op) > place
    }

    /// Whether a rerun of the op that makes a tensor makes it, too.
    fn is_remade(&self, tensor: usize) -> bool {
        self.problem.model.remade_by(TensorId::from_index(tensor)).is_some()
    }

    fn time_again(&self, op: usize) -> u64 {
        let op = &self.problem.trace.ops[op];
        op.device_time_again().0
    }

    fn bytes(&self, tensor: usize) -> u64 {
        self.problem.trace.tensors[tensor].bytes.0
    }
}

impl<'a> Programme<'a> {
    fn new(facts: &'a Facts<'a>, places: &[usize]) -> Self {
        let (tensors, ops) = (facts.maker.len(), facts.problem.trace.ops.len());
        let count = places.len();
        let model = &facts.problem.model;
        let constant = |t: &usize| {
            let tensor = TensorId::from_index(*t);
            model.producer(tensor).is_none() && !model.is_held(tensor)
        };
        let constants: Vec<usize> = (0..tensors).filter(constant).collect();
        let room = |place: &usize| {
            let apart = constants.iter().filter(|t| facts.uses[**t].binary_search(place).is_err());
            let bytes: u64 = apart.map(|t| facts.bytes(*t)).sum::<u64>();
            let used = used_bytes(facts.problem, *place);
            i128::from(facts.problem.budget.0) - i128::from(used) - i128::from(bytes)
        };
        let memory = |place| Memory { room: room(place), held: Vec::new() };
        let mut programme = Self {
            facts,
            places: places.to_vec(),
            shares: vec![Share::Fixed; 2],
            cost: vec![0; 2],
            limits: vec![[1.0, 1.0], [0.0, 0.0]],
            rows: Vec::new(),
            weights: Vec::new(),
            memory: places.iter().map(memory).collect(),
            held: vec![NONE; count * tensors],
            again: vec![NONE; count * (count + 1) * ops],
            todo: Vec::new(),
        };
        for (at, place) in places.iter().enumerate() {
            for tensor in 0..tensors {
                let is_made = facts.maker[tensor].is_some_and(|maker| maker < *place);
                let Some(next) = facts.next_use(tensor, *place).filter(|_| is_made) else {
                    continue;
                };
                // Longer stretches follow from the shortest, but for prices that they had before.
                let first = (at + 1).max(programme.at(next));
                (first..=count).for_each(|to| programme.want(ONE, at, to, tensor));
            }
        }
        while let Some(share) = programme.todo.pop() {
            programme.add_rows(share);
        }
        programme
    }

    /// The op at a place; the number of ops for the end.
    fn op_at(&self, at: usize) -> usize {
        self.places.get(at).copied().unwrap_or(self.facts.problem.trace.ops.len())
    }

    /// The place of an op.
    fn at(&self, op: usize) -> usize {
        self.places.partition_point(|place| *place < op)
    }

    fn share(&mut self, share: Share, cost: u64) -> u32 {
        let id = self.shares.len() as u32;
        self.shares.push(share);
        self.cost.push(cost);
        self.limits.push([0.0, 1.0]);
        self.todo.push(id);
        id
    }

    fn slot(&mut self, share: Share) -> Option<&mut u32> {
        let (tensors, ops) = (self.facts.maker.len(), self.facts.problem.trace.ops.len());
        match share {
            Share::Fixed => None,
            Share::Held { place, tensor } => {
                let at = self.at(place);
                self.held.get_mut(at * tensors + tensor)
            }
            Share::Again { from, to, op } => {
                let (from, to) = (self.at(from), self.at(to));
                self.again.get_mut((from * (self.places.len() + 1) + to) * ops + op)
            }
        }
    }

    /// The share of being held.
    fn held(&mut self, at: usize, tensor: usize) -> u32 {
        let share = Share::Held { place: self.places[at], tensor };
        let known = *self.slot(share).expect("a place");
        if known != NONE {
            return known;
        }
        let id = self.share(share, 0);
        self.memory[at].held.push((id, self.facts.bytes(tensor)));
        *self.slot(share).expect("a place") = id;
        id
    }

    /// The share of being run again.
    fn again(&mut self, at: usize, to: usize, op: usize) -> u32 {
        if !self.facts.may_run_after(op, self.places[at]) {
            return ZERO;
        }
        let share = Share::Again { from: self.places[at], to: self.op_at(to), op };
        let known = *self.slot(share).expect("two places");
        if known != NONE {
            return known;
        }
        let time = self.facts.time_again(op);
        let id = self.share(share, if to == at + 1 { time } else { 0 });
        *self.slot(share).expect("two places") = id;
        id
    }

    /// A row of 2, 3 or 4: who wants a tensor between two places.
    fn want(&mut self, who: u32, at: usize, to: usize, tensor: usize) {
        let Some(maker) = self.facts.maker[tensor] else { return };
        let (facts, place) = (self.facts, self.places[at]);
        if facts.uses[tensor].binary_search(&place).is_ok()
            || facts.problem.model.holds(TensorId::from_index(tensor), place)
        {
            return;
        }
        let again = match facts.is_remade(tensor) {
            true => self.again(at, to, maker),
            false => ZERO,
        };
        let gives = [self.held(at, tensor), again];
        self.rows.push([who, gives[0], gives[1]]);
        self.weights.push((facts.price * facts.bytes(tensor) as f64).max(1.0));
    }

    /// The rows in which a share is what is wanted.
    fn add_rows(&mut self, id: u32) {
        match self.shares[id as usize] {
            Share::Fixed => {}
            Share::Held { place, tensor } => {
                let (to, maker) = (self.at(place), self.facts.maker[tensor]);
                for at in 0..to {
                    let earlier = self.places[at];
                    let is_made = maker.is_some_and(|maker| maker < earlier);
                    // Where it is used in between, it is wanted there in any case.
                    if is_made && self.facts.next_use(tensor, earlier).is_none_or(|u| u > place) {
                        self.want(id, at, to, tensor);
                    }
                }
            }
            Share::Again { from, to, op } => {
                let (at, to) = (self.at(from), self.at(to));
                let facts = self.facts;
                for tensor in facts.problem.model.reads_again(OpId::from_index(op)) {
                    self.want(id, at, to, tensor.index());
                }
                let halves = [at + 1, to - 1];
                for half in &halves[..(to - at - 1).min(2)] {
                    let gives = [self.again(at, *half, op), self.again(*half, to, op)];
                    self.rows.push([id, gives[0], gives[1]]);
                    self.weights.push((facts.time_again(op) as f64).max(1.0));
                }
            }
        }
    }

    /// How many rows and shares there are.
    pub fn size(&self) -> usize {
        self.rows.len() + self.shares.len()
    }

    /// What a byte costs, about, times the budget.
    pub fn memory_weight(&self) -> [f64; 2] {
        let budget = self.facts.problem.budget.0.max(1) as f64;
        [budget, self.facts.price * budget]
    }

    /// What no plan can beat, in nanoseconds beyond the time of its ops: the sum of the cost of
    /// each share at its best, at prices of rows, and of all bytes of the budget.
    fn bound(&self, rows: &[f64], memory: &[f64]) -> u64 {
        let time: u64 = self.cost.iter().fold(1, |sum, cost| sum.saturating_add(*cost));
        let one = (1u64 << (58 - time.ilog2().min(50))) as f64;
        // Prices may be any; these leave sums far from the ends of numbers.
        let bytes: f64 = self.memory.iter().flat_map(|m| &m.held).map(|(_, b)| *b as f64).sum();
        let budget = self.facts.problem.budget.0.max(1) as f64;
        let most = 1e36 / (bytes + budget);
        let whole = |price: f64| (price * one).clamp(0.0, most.min(1e24)) as i128;
        let mut cost: Vec<i128> =
            self.cost.iter().map(|cost| i128::from(*cost) * one as i128).collect();
        for (row, price) in self.rows.iter().zip(rows) {
            let price = whole(*price);
            cost[row[0] as usize] += price;
            cost[row[1] as usize] -= price;
            cost[row[2] as usize] -= price;
        }
        let mut bound = 0;
        for (memory, price) in self.memory.iter().zip(memory) {
            let price = whole(*price / budget);
            bound -= price * memory.room;
            for (share, bytes) in &memory.held {
                cost[*share as usize] += price * i128::from(*bytes);
            }
        }
        let at_best = |(cost, limits): (&i128, &[f64; 2])| {
            limits.map(|limit| *cost * limit as i128).into_iter().min().unwrap_or(0)
        };
        bound += cost.iter().zip(&self.limits).map(at_best).sum::<i128>();
        u64::try_from((bound.max(0) as u128).div_ceil(one as u128)).unwrap_or(u64::MAX)
    }

    /// The schedule in which what has at least such a share is held, and all else happens as late as
    /// can be.
    fn schedule(&self, found: &Climb, share: f64) -> Vec<Rerun> {
        let held = |at: usize, tensor: TensorId| {
            let id = self.held[at * self.facts.maker.len() + tensor.index()];
            id != NONE && found.shares[id as usize] > share
        };
        reruns(self.facts.problem, &self.places, &held)
    }

    /// What is on the device then, by op.
    fn load(&self, found: &Climb) -> Vec<u64> {
        loads(self.facts.problem, &self.schedule(found, 0.5))
    }

    /// What was found for all of these places but one, as prices of these: they give the same bound, or
    /// little less where a share is worth more than it costs.
    fn carried_over(&mut self, from: &Programme, known: &Climb) -> Climb {
        let mut start = Climb::new(self);
        start.balance = known.balance;
        for (place, price) in from.places.iter().zip(&known.memory) {
            start.memory[self.at(*place)] = *price;
        }
        let ids: Vec<u32> = (from.shares.iter().enumerate())
            .map(|(id, share)| self.slot(*share).map_or(id as u32, |slot| *slot))
            .collect();
        for (share, id) in known.shares.iter().zip(&ids).filter(|(_, id)| **id != NONE) {
            start.shares[*id as usize] = *share;
        }
        let rows: HashMap<[u32; 3], usize> = self.rows.iter().copied().zip(0..).collect();
        // What each share is paid for giving what it gives.
        let mut paid = vec![0.0; self.shares.len()];
        for (old, price) in from.rows.iter().zip(&known.rows).filter(|(_, price)| **price > 0.0) {
            let row = old.map(|id| ids[id as usize]);
            let ways = match rows.contains_key(&row) {
                true => [Some(row), None],
                false => self.around_a_new_place(old.map(|id| from.shares[id as usize])),
            };
            for (row, index) in ways.iter().flatten().filter_map(|r| Some((r, rows.get(r)?))) {
                start.rows[*index] += price;
                paid[row[0] as usize] -= price;
                paid[row[1] as usize] += price;
                paid[row[2] as usize] += price;
            }
        }
        // A stretch that the new place divides took time itself; now its halves do.
        let is_new = |place: &usize| from.places.binary_search(place).is_err();
        let Some(new) = self.places.iter().position(is_new) else { return start };
        for (row, price) in self.rows.iter().zip(&mut start.rows) {
            let Share::Again { from, to, op } = self.shares[row[0] as usize] else { continue };
            let halves = !matches!(self.shares[row[1] as usize], Share::Held { .. });
            if halves && new > 0 && from == self.places[new - 1] && to == self.op_at(new + 1) {
                *price += paid[row[0] as usize].clamp(0.0, self.facts.time_again(op) as f64);
            }
        }
        start
    }

    /// A row of 5 divides a stretch where it no longer is divided, as the new place is nearer to one
    /// of its ends: the two rows that say as much by way of the new place.
    fn around_a_new_place(&mut self, row: [Share; 3]) -> [Option<[u32; 3]>; 2] {
        let [Share::Again { from, to, op }, Share::Again { to: half, .. }, _] = row else {
            return [None; 2];
        };
        let [first, last] = [self.op_at(self.at(from) + 1), self.op_at(self.at(to) - 1)];
        let mut id = |from, to| match self.facts.may_run_after(op, from) {
            true => self.slot(Share::Again { from, to, op }).map_or(NONE, |slot| *slot),
            false => ZERO,
        };
        if first < half {
            let whole = [id(from, to), id(from, first), id(first, to)];
            return [Some(whole), Some([id(first, to), id(first, half), id(half, to)])];
        }
        let whole = [id(from, to), id(from, last), id(last, to)];
        [Some(whole), Some([id(from, last), id(from, half), id(half, last)])]
    }
}

/// What several places show, from a first one on, if that is more than what is known.
pub(super) fn several(
    problem: &Problem,
    first: usize,
    known: u64,
    proceed: &dyn Fn(u64, u64) -> bool,
) -> Several {
    let budget = problem.budget.0;
    let most = certain_load(problem).into_iter().max().unwrap_or(0);
    let facts = Facts::new(problem, known as f64 / most.saturating_sub(budget).max(1) as f64);
    let ops = problem.trace.ops.len();
    let limit = problem.limits.evaluations.saturating_mul(WORK);
    let mut work = usize::try_from(limit).unwrap_or(usize::MAX);
    let proceed = |work: usize| work > 0 && proceed(limit.saturating_sub(work as u64), limit);
    let mut patience = PATIENCE[0];
    let mut programme = Programme::new(&facts, &[first]);
    let mut best = Climb::new(&programme);
    climb(&programme, &mut best, patience, (&mut work, &proceed));
    let mut extra = programme.bound(&best.rows, &best.memory);
    // Ops that are no place to try.
    let mut tried = vec![false; ops];
    tried[first] = true;
    let mut load = programme.load(&best);
    while proceed(work) {
        // Of few ops, all are places.
        let is_candidate = |op: &usize| !tried[*op] && (load[*op] > budget || ops <= MOST_PLACES);
        let next = (0..ops).filter(is_candidate).max_by_key(|op| (load[*op], ops - op));
        let Some(op) = next.filter(|_| programme.places.len() < MOST_PLACES) else {
            if patience == PATIENCE[1] {
                break;
            }
            patience = PATIENCE[1];
            climb(&programme, &mut best, patience, (&mut work, &proceed));
            extra = extra.max(programme.bound(&best.rows, &best.memory));
            load = programme.load(&best);
            tried = (0..ops).map(|op| programme.places.binary_search(&op).is_ok()).collect();
            continue;
        };
        let mut places = programme.places.clone();
        places.insert(programme.at(op), op);
        let mut more = Programme::new(&facts, &places);
        let mut start = more.carried_over(&programme, &best);
        climb(&more, &mut start, patience, (&mut work, &proceed));
        let raised = more.bound(&start.rows, &start.memory);
        tried[op] = true;
        if raised as f64 > extra as f64 * (1.0 + WORTH / 1e6) || ops <= MOST_PLACES {
            load = more.load(&start);
            (programme, best) = (more, start);
        } else {
            tried[op.saturating_sub(ops / AROUND)..(op + ops / AROUND + 1).min(ops)].fill(true);
        }
        extra = extra.max(raised);
    }
    let sequences = HELD_FROM.map(|share| programme.schedule(&best, share)).to_vec();
    Several { extra: extra.max(known), sequences }
}
