//! What was found for some places, for more of them.

use std::collections::HashMap;

use super::climb::Climb;
use super::programme::{NONE, Programme, Share, ZERO};

impl<'a> Programme<'a> {
    /// The programme of these places and some more, and what was found for these as prices of it.
    pub(super) fn with(&self, found: &Climb, more: &[usize]) -> (Self, Climb) {
        let mut of_all: Option<Self> = None;
        let mut found = found.clone();
        for op in more {
            let known = of_all.as_ref().unwrap_or(self);
            let mut places = known.places.clone();
            places.insert(known.at(*op), *op);
            let mut with_it = Programme::new(self.facts, &places);
            found = with_it.carried_over(known, &found);
            of_all = Some(with_it);
        }
        (of_all.unwrap_or_else(|| Programme::new(self.facts, &self.places)), found)
    }

    /// What was found for all of these places but one, as prices of these: they give the same bound, or
    /// little less where a share is worth more than it costs.
    fn carried_over(&mut self, from: &Programme, known: &Climb) -> Climb {
        let mut start = Climb::new(self);
        start.balance = known.balance;
        let (now, then) = (self.places.len(), from.places.len());
        for (at, place) in from.places.iter().enumerate() {
            start.stores[self.at(*place)] = known.stores[at];
        }
        if self.facts.copies {
            // What is divided is worth the same in each part.
            for at in 0..now {
                let place = self.places[at];
                let ends_at = from.at(place);
                if let Some(begins_at) = from.at(place + 1).checked_sub(1) {
                    start.stores[now + at] = known.stores[then + begins_at];
                }
                if ends_at < then {
                    start.stores[2 * now + at] = known.stores[2 * then + ends_at];
                }
            }
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
        let mut costs: Vec<f64> = self.cost.iter().map(|cost| *cost as f64).collect();
        for (store, price) in self.stores.iter().zip(&start.stores) {
            for (share, takes) in &store.takes {
                costs[*share as usize] += price * *takes as f64 / store.unit as f64;
            }
        }
        for (row, price) in self.rows.iter().zip(&mut start.rows) {
            let [whole, half, _] = row.map(|id| self.shares[id as usize]);
            let (from, to) = match (whole, half) {
                (Share::Again { from, to, .. }, Share::Again { .. }) => (from, to),
                (Share::Back { from, to, .. }, Share::Back { .. }) => (from, to),
                _ => continue,
            };
            if new > 0 && from == self.places[new - 1] && to == self.op_at(new + 1) {
                let most = row[1..].iter().map(|id| costs[*id as usize]).fold(0.0, f64::max);
                *price += paid[row[0] as usize].clamp(0.0, most);
            }
        }
        start
    }

    /// A row of 5 divides a stretch where it no longer is divided, as the new place is nearer to one
    /// of its ends: the two rows that say as much by way of the new place.
    fn around_a_new_place(&mut self, row: [Share; 3]) -> [Option<[u32; 3]>; 2] {
        let (from, to, half) = match row {
            [Share::Again { from, to, .. }, Share::Again { to: half, .. }, _]
            | [Share::Back { from, to, .. }, Share::Back { to: half, .. }, _] => (from, to, half),
            [Share::Out { place, tensor }, Share::Out { place: later, .. }, _] => {
                let between = self.op_at(self.at(place) + 1);
                let mut out =
                    |place| self.slot(Share::Out { place, tensor }).map_or(NONE, |slot| *slot);
                let [first, middle, last] = [place, between, later].map(&mut out);
                return [Some([first, middle, ZERO]), Some([middle, last, ZERO])];
            }
            _ => return [None; 2],
        };
        let [first, last] = [self.op_at(self.at(from) + 1), self.op_at(self.at(to) - 1)];
        let mut id = |from, to| {
            let share = match row[0] {
                Share::Again { op, .. } if !self.facts.may_run_after(op, from) => return ZERO,
                Share::Again { op, .. } => Share::Again { from, to, op },
                Share::Back { tensor, .. } => Share::Back { from, to, tensor },
                _ => return NONE,
            };
            self.slot(share).map_or(NONE, |slot| *slot)
        };
        if first < half {
            let whole = [id(from, to), id(from, first), id(first, to)];
            return [Some(whole), Some([id(first, to), id(first, half), id(half, to)])];
        }
        let whole = [id(from, to), id(from, last), id(last, to)];
        [Some(whole), Some([id(from, last), id(from, half), id(half, last)])]
    }
}
