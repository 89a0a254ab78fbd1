//! The rows and shares of copies.

use super::programme::{IN, OUT, Programme, Share, Store, ZERO, whole};

impl Programme<'_> {
    /// The rows of 8 and 9, with what compute loses in each stretch.
    pub(super) fn add_lanes(&mut self) {
        let (facts, count) = (self.facts, self.places.len());
        let time = |from: usize, to: usize| facts.start[to] - facts.start[from];
        let lane = |time: u64| Store {
            room: i128::from(time),
            unit: facts.time().max(1),
            weight: facts.time().max(1) as f64 / 2.0,
            takes: Vec::new(),
        };
        for at in 0..count {
            self.stores.push(lane(time(self.places[at], self.op_at(at + 1))));
        }
        for to in 0..count {
            self.stores.push(lane(time(
                to.checked_sub(1).map_or(0, |at| self.places[at]),
                self.places[to],
            )));
        }
        for to in 0..=count {
            let (lost, _) = self.known_or(Share::Lost { to: self.op_at(to) }, facts.most_lost);
            self.spend(to, lost, facts.most_lost);
        }
    }

    /// The time for copies in from one place to the next.
    fn copy_in_from(&mut self, at: usize) -> &mut Store {
        let count = self.places.len();
        &mut self.stores[count + at]
    }

    /// The time for copies out up to a place from the one before.
    fn copy_out_to(&mut self, to: usize) -> &mut Store {
        let count = self.places.len();
        &mut self.stores[2 * count + to]
    }

    /// A share makes the stretch before a place, or the end, longer.
    pub(super) fn spend(&mut self, to: usize, share: u32, time: u64) {
        let time = whole(time);
        if let Some(at) = to.checked_sub(1) {
            self.copy_in_from(at).takes.push((share, -time));
        }
        if to < self.places.len() {
            self.copy_out_to(to).takes.push((share, -time));
        }
    }

    /// The share of being filled again, by a rerun or by a copy.
    pub(super) fn filled(&mut self, at: usize, to: usize, tensor: usize, again: u32) -> u32 {
        let back = self.back(at, to, tensor);
        if again == ZERO {
            return back;
        }
        let share = Share::Filled { from: self.places[at], to: self.op_at(to), tensor };
        let (filled, is_new) = self.known_or(share, 0);
        if is_new {
            self.row([filled, again, back], tensor);
        }
        filled
    }

    /// The share of being copied in.
    pub(super) fn back(&mut self, at: usize, to: usize, tensor: usize) -> u32 {
        let share = Share::Back { from: self.places[at], to: self.op_at(to), tensor };
        let (back, is_new) = self.known_or(share, 0);
        if is_new && to == at + 1 {
            let time = self.facts.copy[tensor][IN];
            self.copy_in_from(at).takes.push((back, time as i64));
        }
        back
    }

    /// The share of having been copied out before a place.
    pub(super) fn out(&mut self, at: usize, tensor: usize) -> u32 {
        let (out, is_new) = self.known_or(Share::Out { place: self.places[at], tensor }, 0);
        if !is_new {
            return out;
        }
        let time = self.facts.copy[tensor][OUT] as i64;
        self.copy_out_to(at).takes.push((out, time));
        let before = at.checked_sub(1);
        if let Some(before) = before.filter(|at| self.facts.is_made(tensor, self.places[*at])) {
            let earlier = self.out(before, tensor);
            self.copy_out_to(at).takes.push((earlier, -time));
            self.row([earlier, out, ZERO], tensor);
        }
        out
    }
}
