//! The rows and shares for some places.

use schema::TensorId;

use super::facts::Facts;
use crate::kept_load::used_bytes;

/// A share that the programme decides about. Places are named by their ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
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
    /// A copy out has ended before a place.
    Out {
        place: usize,
        tensor: usize,
    },
    /// A copy in begins between two places that brings what was out before the first.
    Back {
        from: usize,
        to: usize,
        tensor: usize,
    },
    /// At least one of the two: the op that makes it is run again, or it is copied in.
    Filled {
        from: usize,
        to: usize,
        tensor: usize,
    },
    /// What compute loses before a place, and after the one before it.
    Lost {
        to: usize,
    },
}

/// Ways of copies.
pub(super) const OUT: usize = 0;
pub(super) const IN: usize = 1;

pub(super) const ONE: u32 = 0;
pub(super) const ZERO: u32 = 1;
pub(super) const NONE: u32 = u32::MAX;

/// A row of bytes or of time: what shares take, or give where that is less than nothing, fits.
pub(super) struct Store {
    pub room: i128,
    /// The price of a row is for so much.
    pub unit: u64,
    /// Of which size such a price is.
    pub weight: f64,
    /// Shares, and what all of each takes.
    pub takes: Vec<(u32, i64)>,
}

/// The programme for some places.
pub(super) struct Programme<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) places: Vec<usize>,
    pub(super) shares: Vec<Share>,
    /// By share: what all of it costs, and how much there must and may be of it.
    pub cost: Vec<u64>,
    pub limits: Vec<[f64; 2]>,
    /// What is wanted, and the two that give it.
    pub rows: Vec<[u32; 3]>,
    /// By row: of which size its price is.
    pub weights: Vec<f64>,
    /// By place, its bytes. Where anything is copied, after these the time for copies in from each
    /// place to the next, and for copies out up to each place from the one before.
    pub stores: Vec<Store>,
    /// By place and tensor, and by two places and op or tensor, the share.
    held: Vec<u32>,
    again: Vec<u32>,
    out: Vec<u32>,
    back: Vec<u32>,
    filled: Vec<u32>,
    /// By place, and the end.
    lost: Vec<u32>,
    todo: Vec<u32>,
}

impl<'a> Programme<'a> {
    pub fn new(facts: &'a Facts<'a>, places: &[usize]) -> Self {
        let (tensors, ops) = (facts.maker.len(), facts.problem.trace.ops.len());
        let count = places.len();
        let copies = |many: usize| if facts.copies { vec![NONE; many] } else { Vec::new() };
        let mut programme = Self {
            facts,
            places: places.to_vec(),
            shares: vec![Share::Fixed; 2],
            cost: vec![0; 2],
            limits: vec![[1.0, 1.0], [0.0, 0.0]],
            rows: Vec::new(),
            weights: Vec::new(),
            stores: places.iter().map(|place| memory(facts, *place)).collect(),
            held: vec![NONE; count * tensors],
            again: vec![NONE; count * (count + 1) * ops],
            out: copies(count * tensors),
            back: copies(count * (count + 1) * tensors),
            filled: copies(count * (count + 1) * tensors),
            lost: copies(count + 1),
            todo: Vec::new(),
        };
        if facts.copies {
            programme.add_lanes();
        }
        for (at, place) in places.iter().enumerate() {
            for tensor in 0..tensors {
                let is_made = facts.is_made(tensor, *place);
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
    pub(super) fn op_at(&self, at: usize) -> usize {
        self.places.get(at).copied().unwrap_or(self.facts.problem.trace.ops.len())
    }

    /// The place of an op.
    pub(super) fn at(&self, op: usize) -> usize {
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

    /// Where the number of a share stands.
    pub(super) fn slot(&mut self, share: Share) -> Option<&mut u32> {
        let (tensors, ops) = (self.facts.maker.len(), self.facts.problem.trace.ops.len());
        let stretch = |from, to| self.at(from) * (self.places.len() + 1) + self.at(to);
        let (number, table) = match share {
            Share::Fixed => return None,
            Share::Held { place, tensor } => (self.at(place) * tensors + tensor, &mut self.held),
            Share::Again { from, to, op } => (stretch(from, to) * ops + op, &mut self.again),
            Share::Out { place, tensor } => (self.at(place) * tensors + tensor, &mut self.out),
            Share::Back { from, to, tensor } => {
                (stretch(from, to) * tensors + tensor, &mut self.back)
            }
            Share::Filled { from, to, tensor } => {
                (stretch(from, to) * tensors + tensor, &mut self.filled)
            }
            Share::Lost { to } => (self.at(to), &mut self.lost),
        };
        table.get_mut(number)
    }

    /// The number of a share, if there is one already; else it is made, and costs so much.
    pub(super) fn known_or(&mut self, share: Share, cost: u64) -> (u32, bool) {
        let known = *self.slot(share).expect("a share of these places");
        if known != NONE {
            return (known, false);
        }
        let id = self.share(share, cost);
        *self.slot(share).expect("a share of these places") = id;
        (id, true)
    }

    /// The share of being held.
    fn held(&mut self, at: usize, tensor: usize) -> u32 {
        let (id, is_new) = self.known_or(Share::Held { place: self.places[at], tensor }, 0);
        if is_new {
            let bytes = self.facts.bytes(tensor);
            self.stores[at].takes.push((id, whole(bytes)));
        }
        id
    }

    pub(super) fn is_held(&self, at: usize, tensor: usize) -> Option<u32> {
        Some(self.held[at * self.facts.maker.len() + tensor]).filter(|id| *id != NONE)
    }

    pub(super) fn is_out(&self, at: usize, tensor: usize) -> Option<u32> {
        Some(*self.out.get(at * self.facts.maker.len() + tensor)?).filter(|id| *id != NONE)
    }

    /// The share of being run again.
    fn again(&mut self, at: usize, to: usize, op: usize) -> u32 {
        if !self.facts.may_run_after(op, self.places[at]) {
            return ZERO;
        }
        let time = self.facts.time_again(op);
        let share = Share::Again { from: self.places[at], to: self.op_at(to), op };
        let (id, is_new) = self.known_or(share, if to == at + 1 { time } else { 0 });
        if is_new && to == at + 1 && self.facts.copies {
            self.spend(to, id, time);
        }
        id
    }

    /// A row of 2, 3 or 4: who wants a tensor between two places.
    fn want(&mut self, who: u32, at: usize, to: usize, tensor: usize) {
        let (facts, place) = (self.facts, self.places[at]);
        if !facts.counts(tensor)
            || facts.uses[tensor].binary_search(&place).is_ok()
            || facts.problem.model.holds(TensorId::from_index(tensor), place)
        {
            return;
        }
        let again = match facts.maker[tensor].filter(|_| facts.is_remade(tensor)) {
            Some(maker) => self.again(at, to, maker),
            None => ZERO,
        };
        let held = self.held(at, tensor);
        let filled = if facts.copies { self.filled(at, to, tensor, again) } else { again };
        self.row([who, held, filled], tensor);
    }

    /// A row whose price is of the size of a tensor's memory.
    pub(super) fn row(&mut self, row: [u32; 3], tensor: usize) {
        self.rows.push(row);
        self.weights.push((self.facts.price * self.facts.bytes(tensor) as f64).max(1.0));
    }

    /// The rows in which a share is what is wanted.
    fn add_rows(&mut self, id: u32) {
        match self.shares[id as usize] {
            Share::Held { place, tensor } => {
                let to = self.at(place);
                for at in 0..to {
                    let earlier = self.places[at];
                    let is_made = self.facts.is_made(tensor, earlier);
                    // Where it is used in between, it is wanted there in any case.
                    if is_made && self.facts.next_use(tensor, earlier).is_none_or(|u| u > place) {
                        self.want(id, at, to, tensor);
                    }
                }
            }
            Share::Again { from, to, op } => {
                let (at, to) = (self.at(from), self.at(to));
                let facts = self.facts;
                for tensor in facts.problem.model.reads_again(schema::OpId::from_index(op)) {
                    self.want(id, at, to, tensor.index());
                }
                for half in halves(at, to) {
                    let gives = [self.again(at, half, op), self.again(half, to, op)];
                    self.rows.push([id, gives[0], gives[1]]);
                    self.weights.push((facts.time_again(op) as f64).max(1.0));
                }
            }
            Share::Back { from, to, tensor } => {
                let (at, to) = (self.at(from), self.at(to));
                let out = self.out(at, tensor);
                self.row([id, out, ZERO], tensor);
                for half in halves(at, to) {
                    let gives = [self.back(at, half, tensor), self.back(half, to, tensor)];
                    self.rows.push([id, gives[0], gives[1]]);
                    self.weights.push((self.facts.copy[tensor][IN] as f64).max(1.0));
                }
            }
            Share::Fixed | Share::Out { .. } | Share::Filled { .. } | Share::Lost { .. } => {}
        }
    }

    /// How many rows and shares there are.
    pub fn size(&self) -> usize {
        self.rows.len() + self.shares.len()
    }

    /// What no plan can beat, in nanoseconds beyond the time of its ops: the sum of the cost of
    /// each share at its best, at prices of rows, and of units of stores.
    pub fn bound(&self, rows: &[f64], stores: &[f64]) -> u64 {
        let time: u64 = self.cost.iter().fold(1, |sum, cost| sum.saturating_add(*cost));
        let one = (1u64 << (58 - time.ilog2().min(50))) as f64;
        // Prices may be any; these leave sums far from the ends of numbers.
        let takes = self.stores.iter().flat_map(|store| &store.takes);
        let taken: f64 = takes.map(|(_, takes)| takes.unsigned_abs() as f64).sum();
        let unit = self.stores.iter().map(|store| store.unit).max().unwrap_or(1) as f64;
        let most = 1e36 / (taken + unit);
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
        for (store, price) in self.stores.iter().zip(stores) {
            let price = whole(*price / store.unit as f64);
            bound -= price * store.room;
            for (share, takes) in &store.takes {
                cost[*share as usize] += price * i128::from(*takes);
            }
        }
        let at_best = |(cost, limits): (&i128, &[f64; 2])| {
            limits.map(|limit| *cost * limit as i128).into_iter().min().unwrap_or(0)
        };
        bound += cost.iter().zip(&self.limits).map(at_best).sum::<i128>();
        let bound = u64::try_from((bound.max(0) as u128).div_ceil(one as u128)).unwrap_or(u64::MAX);
        // Plans that lose more are left out.
        if self.facts.copies { bound.min(self.facts.most_lost) } else { bound }
    }
}

/// The rows of 1 for one place.
fn memory(facts: &Facts, place: usize) -> Store {
    let model = &facts.problem.model;
    let stays = |t: &usize| {
        let tensor = TensorId::from_index(*t);
        !facts.copies && model.producer(tensor).is_none() && !model.is_held(tensor)
    };
    let apart = |t: &usize| facts.uses[*t].binary_search(&place).is_err();
    let constants = (0..facts.maker.len()).filter(stays).filter(apart);
    let bytes: u64 = constants.map(|t| facts.bytes(t)).sum();
    let budget = facts.problem.budget.0;
    let used = used_bytes(facts.problem, place);
    let unit = budget.max(1);
    Store {
        room: i128::from(budget) - i128::from(used) - i128::from(bytes),
        unit,
        weight: facts.price * unit as f64,
        takes: Vec::new(),
    }
}

/// Where a stretch is divided: behind its first part, and before its last.
fn halves(at: usize, to: usize) -> impl Iterator<Item = usize> {
    [at + 1, to - 1].into_iter().take((to - at - 1).min(2))
}

/// What a share takes or gives as a number of a row. Taking less than it does only lowers bounds.
pub(super) fn whole(takes: u64) -> i64 {
    i64::try_from(takes).unwrap_or(i64::MAX)
}
