//! What becomes of a tensor from stretch to stretch, at the least cost.

use super::linear::{BACK, Cost, OUT, Prices, lane, lower, memory};

/// A tensor, by stretches.
#[derive(Debug, Clone)]
pub(super) struct Course {
    pub id: usize,
    /// Its bytes and the times of its copies, in units.
    pub bytes: f64,
    pub out: f64,
    pub back: f64,
    /// The stretch in which it is made; none where no op makes it.
    pub made: Option<usize>,
    /// The stretches in which the device reads it in every plan, and in which it changes it.
    pub read: Vec<bool>,
    pub changed: Vec<bool>,
    /// The stretches whose first op reads it: it is on the device as they begin.
    pub there: Vec<bool>,
    /// Whether it is there when the iteration ends, as it was when it began.
    pub outlives: bool,
}

/// What is asked of a tensor beside what every plan asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Also {
    Nothing,
    /// The device reads it in a stretch, and may change it.
    Read(usize, bool),
    /// A copy is on the host in the end.
    OnHost,
}

/// Where a tensor is as a stretch begins: whether on the device, and whether the host has it as it is.
const PLACES: usize = 4;

fn place(here: bool, there: bool) -> usize {
    2 * usize::from(here) + usize::from(there)
}

impl Course {
    /// The least that it costs: copies, reruns (`again`, by stretch), and memory.
    pub fn cost(&self, prices: &Prices, again: &[Vec<Option<Cost>>], also: Also) -> Option<Cost> {
        let begins: &[usize] = match self.made {
            Some(_) => &[2],
            None => &[2, 1],
        };
        let mut least = None;
        for begin in begins {
            let ends = self.ends(prices, again, also, *begin);
            for (end, cost) in ends.into_iter().enumerate() {
                let is_there = match self.made {
                    Some(_) => !self.outlives || end >= 2,
                    None if self.outlives && *begin == 2 => end >= 2,
                    None if self.outlives => end == 1,
                    None => true,
                };
                let is_copied = also != Also::OnHost || end % 2 == 1;
                if let Some(cost) = cost.filter(|_| is_there && is_copied) {
                    lower(&mut least, cost);
                }
            }
        }
        least
    }

    /// What it costs to end each way that begins one way.
    fn ends(
        &self,
        prices: &Prices,
        again: &[Vec<Option<Cost>>],
        also: Also,
        begin: usize,
    ) -> [Option<Cost>; PLACES] {
        let mut now = [None; PLACES];
        now[begin] = Some(Cost::NOTHING);
        let made = self.made.unwrap_or(0);
        for stretch in made..self.read.len() {
            let (read, changed) = match also {
                Also::Read(at, changes) if at == stretch => (true, changes),
                _ => (false, false),
            };
            let read = read || self.read[stretch] || self.made == Some(stretch);
            let changed = changed || self.changed[stretch];
            let mut next = [None; PLACES];
            for (at, cost) in now.iter().enumerate() {
                let Some(cost) = cost else { continue };
                let (here, there) = (at >= 2, at % 2 == 1);
                if !here && !read {
                    lower(&mut next[at], *cost);
                }
                let mut comes = here.then_some(*cost);
                if !here && there {
                    lower(&mut comes, cost.and(prices, lane(stretch, BACK), self.back));
                }
                if !here && let Some(again) = &again[stretch][self.id] {
                    lower(&mut comes, cost.plus(again));
                }
                let Some(comes) = comes else { continue };
                let out = comes.and(prices, lane(stretch, OUT), self.out);
                for (copied, cost) in [(false, comes), (true, out)] {
                    let there = copied || there && !changed;
                    lower(&mut next[place(false, there)], cost);
                    let stays = cost.and(prices, memory(stretch), self.bytes);
                    lower(&mut next[place(true, there)], stays);
                }
            }
            if self.there.get(stretch + 1) == Some(&true) {
                (next[place(false, false)], next[place(false, true)]) = (None, None);
            }
            now = next;
        }
        now
    }
}
