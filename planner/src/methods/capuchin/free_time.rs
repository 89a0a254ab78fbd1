//! When tensors are accessed, and what their copies cost on the link.

use schema::{Direction, TensorId};
use simulator::{Evaluator, GapId};

use crate::Problem;

/// A tensor that could be away: times in nanoseconds of an iteration in core.
#[derive(Debug, Clone, Copy)]
struct Away {
    gap: GapId,
    /// When its evicted-access ends.
    evicted: u64,
    /// When its back-access begins.
    back: u64,
    out: u64,
    back_in: u64,
}

/// The link, on which copies of each direction run one after the other.
pub(super) struct Link {
    tensors: Vec<Away>,
    /// What is swapped, as places among the tensors: by evicted-access and by back-access.
    by_evicted: Vec<u32>,
    by_back: Vec<u32>,
    /// For how long compute is held up by that.
    held_up: u64,
    /// By tensor that is swapped, when its copy out ends.
    out_ends: Vec<u64>,
    /// When memory in core is above the target for the last time.
    peak_ends: u64,
}

impl Link {
    /// The link of a problem, of whose iteration in core memory is above the evaluator's budget
    /// for a while.
    pub fn of(problem: &Problem, evaluator: &Evaluator) -> Self {
        let mut begins = Vec::with_capacity(problem.trace.ops.len() + 1);
        let mut now = 0;
        for op in &problem.trace.ops {
            begins.push(now);
            now += op.duration.0;
        }
        begins.push(now);
        let away = |gap: &GapId| {
            let found = &problem.model.gaps()[*gap];
            Away {
                gap: *gap,
                evicted: begins[found.after.index() + 1],
                back: found.before.map_or(now, |op| begins[op.index()]),
                out: evaluator.copy_time(Direction::D2h, found.tensor).0,
                back_in: evaluator.copy_time(Direction::H2d, found.tensor).0,
            }
        };
        let peak_ends = last_above(problem, evaluator.budget().0);
        let tensors = problem.feature_maps.iter().map(away).collect();
        Self::new(tensors, peak_ends.map_or(0, |op| begins[op + 1]))
    }

    fn new(tensors: Vec<Away>, peak_ends: u64) -> Self {
        let out_ends = vec![0; tensors.len()];
        let (by_evicted, by_back) = (Vec::new(), Vec::new());
        Self { tensors, by_evicted, by_back, held_up: 0, out_ends, peak_ends }
    }

    /// All gaps by descending FT, which may be negative; the larger tensor, then the earlier one
    /// among equals.
    pub fn by_free_time(&self) -> Vec<GapId> {
        let free = |a: &Away| (a.back as i64 - a.back_in as i64) - (a.evicted + a.out) as i64;
        let mut tensors = self.tensors.clone();
        tensors.sort_by_key(|a| (std::cmp::Reverse((free(a), a.out)), a.gap));
        tensors.into_iter().map(|a| a.gap).collect()
    }

    /// By how much compute is held up longer if one more tensor is swapped.
    pub fn overhead_with(&mut self, gap: GapId) -> u64 {
        let places = self.insert(gap);
        let held_up = self.held_up_by_all();
        self.by_evicted.remove(places[0]);
        self.by_back.remove(places[1]);
        held_up.saturating_sub(self.held_up)
    }

    /// Swaps one more tensor.
    pub fn swap(&mut self, gap: GapId) {
        self.insert(gap);
        self.held_up = self.held_up_by_all();
    }

    /// Puts a tensor in its places by evicted-access and by back-access, and returns these.
    fn insert(&mut self, gap: GapId) -> [usize; 2] {
        let index = self.tensors.binary_search_by_key(&gap, |a| a.gap);
        let index = index.expect("feature maps are sorted, and this is one");
        let all = &self.tensors;
        let evicted = |of: u32| (all[of as usize].evicted, of);
        let back = |of: u32| (all[of as usize].back, of);
        let new = index as u32;
        let places = [
            self.by_evicted.partition_point(|other| evicted(*other) < evicted(new)),
            self.by_back.partition_point(|other| back(*other) < back(new)),
        ];
        self.by_evicted.insert(places[0], new);
        self.by_back.insert(places[1], new);
        places
    }

    /// For how long compute is held up: copies out follow the evicted-accesses, copies in precede the
    /// back-accesses in their order, each as soon as the link is free. An in-trigger does not lie in
    /// the peak: what is accessed again before memory is below the target for good is copied in when
    /// it is accessed.
    fn held_up_by_all(&mut self) -> u64 {
        let mut free = 0;
        for index in &self.by_evicted {
            let away = &self.tensors[*index as usize];
            free = away.evicted.max(free) + away.out;
            self.out_ends[*index as usize] = free;
        }
        let mut free = 0;
        let mut held_up = 0;
        for index in &self.by_back {
            let away = &self.tensors[*index as usize];
            let begins = self.peak_ends.min(away.back) + held_up;
            free = begins.max(self.out_ends[*index as usize]).max(free) + away.back_in;
            held_up += free.saturating_sub(away.back + held_up);
        }
        held_up
    }
}

/// The last op during which an iteration that keeps everything needs more than `budget` bytes.
fn last_above(problem: &Problem, budget: u64) -> Option<usize> {
    let ops = &problem.trace.ops;
    let bytes = |t: &TensorId| problem.trace.tensors[t.index()].bytes.0;
    let mut dies_after = vec![0; ops.len()];
    for tensor in ops.iter().flat_map(|op| &op.writes) {
        if let Some(op) = problem.model.last_use(*tensor) {
            dies_after[op.index()] += bytes(tensor);
        }
    }
    let mut live = problem.trace.constant_bytes().0;
    let mut last = None;
    for (index, op) in ops.iter().enumerate() {
        live += op.writes.iter().map(bytes).sum::<u64>();
        if live + op.workspace.0 > budget {
            last = Some(index);
        }
        live -= dies_after[index];
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away(gap: GapId, evicted: u64, back: u64, copy: u64) -> Away {
        Away { gap, evicted, back, out: copy, back_in: copy }
    }

    #[test]
    fn free_time_is_what_is_left_between_the_copies() {
        let tensors = vec![away(0, 10, 100, 20), away(1, 20, 90, 10), away(2, 0, 30, 20)];
        let link = Link::new(tensors, 0);
        // 50, 50 and -10: the one that takes longer to copy comes first among equals.
        assert_eq!(link.by_free_time(), [0, 1, 2]);
    }

    #[test]
    fn copies_queue_and_hold_compute_up_where_they_overlap() {
        let tensors = vec![away(0, 10, 100, 20), away(1, 10, 100, 20), away(2, 10, 60, 20)];
        let mut link = Link::new(tensors, 0);
        assert_eq!(link.overhead_with(0), 0);
        link.swap(0);
        // Out until 50, in from 60 on: still hidden.
        assert_eq!(link.overhead_with(1), 0);
        link.swap(1);
        // Its copy out ends at 70, its copy in would have to start at 40.
        assert_eq!(link.overhead_with(2), 30);
        // With room only from 95 on, one copy in is not over before the access at 100.
        let mut link = Link::new(link.tensors, 95);
        link.swap(0);
        assert_eq!(link.held_up, 15);
    }
}
